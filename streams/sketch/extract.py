"""Extract the text of a page: decode it, choose a parser, and refuse pages without text.

The scheme's `extractor` selects the text of an HTML page (docs/decisions/extractor.md compares the two):

    resiliparse-all   all visible text
    resiliparse-body  all visible text except <nav>, <footer> and <aside>, or all if nothing would be left
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import msgspec

from state.model import Extractor
from streams.errors import BadUrl, LostfoundError, SettingsError
from streams.sketch import html_guard
from streams.sketch.charset import decode
from streams.sketch.content_kind import ContentKind
from streams.sketch.html_guard import DEFAULT_LIMITS, ParserLimits
from streams.urls import url_key

if TYPE_CHECKING:
    from streams.page import Page

PAGE_BYTES_MAX = 10 << 20
DEFAULT_EXTRACTOR = "resiliparse-body"
TITLE_CHARS_MAX = 200
NO_VISIBLE_TEXT = "the page has no visible text"
REFRESH_SECONDS_MAX = 15  # a slower refresh is not a redirect
_HEAD_CHARS = 1 << 16  # only this part of a page is searched for a meta refresh
SKIPPED_TAGS_BY_EXTRACTOR = {"resiliparse-all": (), "resiliparse-body": ("nav", "footer", "aside")}
# The "shared declarative refresh steps" of the HTML standard. The quantifiers are possessive: backtracking would
# split `60` into a time `6` and a URL `0`.
_REFRESH = re.compile(
    r"\s*+(?=[0-9.])0*+([0-9]{0,9}+)[0-9.]*+(?=[;,\s])\s*+[;,]?+\s*+(?:url\s*+=\s*+)?+"
    r"(?:\"([^\"]++)|'([^']++)|([^\"'].*+))",
    re.IGNORECASE | re.DOTALL,
)


class TextError(LostfoundError):
    """The text cannot be extracted. `reason` is a key of `streams.page.REJECTION_REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class ExtractedText(msgspec.Struct, frozen=True):
    """The text of a page; `meta_refresh` is the absolute URL to which a <meta> tag redirects.

    `html` is the page in UTF-8, if its links are to be extracted. The text of such a page may be empty.
    """

    text: str
    title: str
    extractor: Extractor
    meta_refresh: str | None = None
    html: bytes | None = None


def extract(
    page: Page, kind: ContentKind, page_bytes_max: int = PAGE_BYTES_MAX, extractor: str = DEFAULT_EXTRACTOR,
    parser_limits: ParserLimits = DEFAULT_LIMITS, *, keep_html: bool = False,
) -> ExtractedText:  # fmt: skip
    """Return the text of a page that has a body or a text, in time and memory bounded by the page's size.

    `kind` is the result of `content_kind.detect`. `keep_html` keeps the page for the extraction of links. Raise
    SettingsError if the extractor is unknown. Otherwise raise only TextError, with the reason `too_big`, `not_text`,
    `no_text` or `parse_failed`.
    """
    if page.text is not None:
        return _extract_text(page.text, page.title, page_bytes_max)
    if kind is ContentKind.BINARY:
        raise TextError("not_text", f"the media type is {page.mime[:100]}, but the body starts like a binary file")
    return extract_body(
        page.body or b"", kind, page.charset, page.url, page.title,
        page_bytes_max=page_bytes_max, extractor=extractor, parser_limits=parser_limits, keep_html=keep_html,
    )  # fmt: skip


def extract_body(
    body: bytes, kind: ContentKind, charset: str = "", url: str = "", title: str = "",
    *, page_bytes_max: int = PAGE_BYTES_MAX, extractor: str = DEFAULT_EXTRACTOR,
    parser_limits: ParserLimits = DEFAULT_LIMITS, keep_html: bool = False,
) -> ExtractedText:  # fmt: skip
    """Return the text of an HTML or plain-text body as served. Raise the same errors as `extract`.

    The other arguments may be empty: `url` is the base URL of a meta refresh, `title` replaces the title in the HTML.
    """
    if len(body) > page_bytes_max:
        raise TextError("too_big", f"{len(body)} bytes, more than page_bytes_max = {page_bytes_max}")
    decoded = decode(body, charset)
    if kind is ContentKind.TEXT:
        return _extract_text(decoded, title, page_bytes_max)
    if extractor not in SKIPPED_TAGS_BY_EXTRACTOR:
        extractors = ", ".join(SKIPPED_TAGS_BY_EXTRACTOR)
        raise SettingsError(f"unknown extractor {extractor!r}", f"choose one of {extractors}")
    data = decoded.encode("utf-8", "replace") if keep_html else None
    extracted = _extract_html(decoded, data, url, title, SKIPPED_TAGS_BY_EXTRACTOR[extractor], parser_limits)
    if keep_html:
        return msgspec.structs.replace(extracted, html=data)
    if not extracted.text and extracted.meta_refresh is None:
        raise TextError("no_text", NO_VISIBLE_TEXT)
    return extracted


def _extract_text(text: str, title: str, chars_max: int) -> ExtractedText:
    if len(text) > chars_max:
        raise TextError("too_big", f"{len(text)} characters, more than page_bytes_max = {chars_max}")
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text or text.isspace():
        raise TextError("no_text", "the page is empty")
    return ExtractedText(text, _one_line(title), Extractor.TEXT)


def _extract_html(
    markup: str, data: bytes | None, url: str, title: str, skipped_tags: tuple[str, ...], parser_limits: ParserLimits
) -> ExtractedText:
    """Return the text of HTML. `data` is the `markup` in UTF-8, if the caller needs it too."""
    if "\0" in markup:
        markup, data = markup.replace("\0", " "), None
    if not markup or markup.isspace():
        raise TextError("no_text", "the page is empty")
    estimate = html_guard.estimate_parsing(markup, parser_limits, data)
    if estimate.too_expensive:
        text = html_guard.strip_tags(markup, skipped_tags)
        if not text and any(f"<{name}" in markup.lower() for name in skipped_tags):
            text = html_guard.strip_tags(markup)
        return ExtractedText(text, _one_line(title or html_guard.find_title(markup)), Extractor.HTML_STRIPPED)
    return _parse_html(markup, url, title, skipped_tags, estimate.meta_chars)


def _parse_html(markup: str, url: str, title: str, skipped_tags: tuple[str, ...], meta_chars: int) -> ExtractedText:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLParserException, HTMLTree

    try:
        tree = HTMLTree.parse(markup)
        text = extract_plain_text(tree, list_bullets=False, skip_elements=list(skipped_tags)).strip()
        extractor = Extractor.HTML
        if skipped_tags and not text:
            text = extract_plain_text(tree, list_bullets=False).strip()
            extractor = Extractor.HTML_FALLBACK
    except HTMLParserException as error:
        raise TextError("parse_failed", str(error)) from error
    head = markup[: min(_HEAD_CHARS, meta_chars)]
    may_have_refresh = any(word in head for word in ("refresh", "Refresh", "REFRESH"))
    meta_refresh = _meta_refresh_target(tree, url) if may_have_refresh else None
    return ExtractedText(text, _one_line(title or tree.title or ""), extractor, meta_refresh)


def _meta_refresh_target(tree: Any, url: str) -> str | None:
    meta = tree.document.query_selector(":not(noscript) > meta[http-equiv=refresh i]")
    match = _REFRESH.match(meta.getattr("content") or "") if meta else None
    if match is None or int(match[1] or 0) > REFRESH_SECONDS_MAX:
        return None
    try:
        target = urljoin(url, (match[2] or match[3] or match[4]).strip())
    except ValueError:
        return None
    # Neither an invalid URL nor a page that reloads itself is a redirect.
    return target if _key_or_empty(target) not in {b"", _key_or_empty(url)} else None


def _key_or_empty(url: str) -> bytes:
    try:
        return url_key(url)
    except BadUrl:
        return b""


def _one_line(title: str) -> str:
    return " ".join(title[: 10 * TITLE_CHARS_MAX].replace("\0", " ").split())[:TITLE_CHARS_MAX]

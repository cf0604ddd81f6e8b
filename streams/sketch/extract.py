"""Extracts the text of a page: detects charset and type, chooses a parser, and refuses pages without text.

The scheme's `extractor` decides which parts of an HTML page count:

    resiliparse-all   all visible text
    resiliparse-body  all visible text except <nav>, <footer> and <aside>; all of it if that leaves nothing

docs/decisions/extractor.md compares their effect on resemblance. Whatever a page contains, the only error raised is
`TextError`, with a reason for the dead letters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import msgspec

from state.model import Extractor
from streams.errors import BadUrl, LostfoundError, SettingsError
from streams.sketch import html_guard
from streams.urls import url_key

if TYPE_CHECKING:
    from streams.page import Page

PAGE_BYTES_MAX = 10 << 20
DEFAULT_EXTRACTOR = "resiliparse-body"
TITLE_CHARS_MAX = 200
REFRESH_SECONDS_MAX = 15  # a page that redirects later than this counts as a page itself
_HEAD_CHARS = 1 << 16  # searched for a meta refresh
_SNIFF_BYTES = 1024
_GUESS_BYTES, _GUESS_NON_ASCII_MIN = 1 << 16, 16
_ASCII = bytes(range(128))

SKIPPED = {"resiliparse-all": (), "resiliparse-body": ("nav", "footer", "aside")}

_HTML_TYPES = frozenset(["text/html", "application/xhtml+xml", "application/xml", "text/xml"])
_LOOKS_LIKE_UTF8 = frozenset(["iso2022_jp", "utf-16-le", "utf-16-be"])  # their bytes can be valid UTF-8 too
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_MAGIC = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"RIFF", b"\x7fELF", b"\0\0\0")
_META_CHARSET = re.compile(rb"<meta[^<>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
# The tags of the standard for sniffing (WHATWG), and <meta>.
_LOOKS_LIKE_HTML = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--|<!doctype\s+html|"
    r"<(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta)[\s/>])",
    re.IGNORECASE,
)
# "Shared declarative refresh steps" of the HTML standard, without backtracking: in `60` the target is not `0`.
_REFRESH = re.compile(
    r"\s*+(?=[0-9.])0*+([0-9]{0,9}+)[0-9.]*+(?=[;,\s])\s*+[;,]?+\s*+(?:url\s*+=\s*+)?+"
    r"(?:\"([^\"]++)|'([^']++)|([^\"'].*+))",
    re.IGNORECASE | re.DOTALL,
)


class TextError(LostfoundError):
    """A page without usable text: `reason` is a short stable word for the dead letters, `detail` is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Extracted(msgspec.Struct, frozen=True):
    """The text of a page; `meta_refresh` is the absolute URL that it redirects to within a few seconds."""

    text: str
    title: str
    extractor: Extractor
    meta_refresh: str | None = None


def extract(page: Page, page_bytes_max: int = PAGE_BYTES_MAX, extractor: str = DEFAULT_EXTRACTOR) -> Extracted:
    """Return the text of a page that has a body or a text, in time and memory bounded by its size.

    Raises TextError with reason `too_big`, `not_text` (pictures, PDF, archives), `no_text` or `parse_failed`;
    SettingsError if the extractor is unknown.
    """
    if page.text is not None:
        return _extract_text(page.text, page.title, page_bytes_max)
    return extract_body(
        page.body or b"", page.mime, page.charset, page.url, page.title,
        page_bytes_max=page_bytes_max, extractor=extractor,
    )  # fmt: skip


def extract_body(
    body: bytes, mime: str = "", charset: str = "", url: str = "", title: str = "",
    *, page_bytes_max: int = PAGE_BYTES_MAX, extractor: str = DEFAULT_EXTRACTOR,
) -> Extracted:  # fmt: skip
    """Return the text of HTML or plain text as served; everything but the body may be unknown.

    `url` resolves the target of a meta refresh; `title` replaces the title in the HTML. Raises like `extract`.
    """
    if len(body) > page_bytes_max:
        raise TextError("too_big", f"{len(body)} bytes, more than page_bytes_max = {page_bytes_max}")
    is_html = _is_html(mime, body, charset)
    decoded = decode(body, charset)
    if not is_html:
        return _extract_text(decoded, title, page_bytes_max)
    if extractor not in SKIPPED:
        raise SettingsError(f"unknown extractor {extractor!r}", f"choose one of {', '.join(SKIPPED)}")
    return _extract_html(decoded, url, title, SKIPPED[extractor])


def decode(body: bytes, charset: str = "") -> str:
    """Decode a body; never raises.

    A byte order mark decides. Next comes UTF-8 if the bytes are valid UTF-8, whatever is declared: wrong declarations
    are common and accidental UTF-8 is not. Then the charset of the server, of the page, and a guess.
    """
    from resiliparse.parse.encoding import detect_encoding

    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    declared = _html5_name(charset) or _html5_name(_meta_charset(body))
    if declared not in _LOOKS_LIKE_UTF8:
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    if declared in {"", "utf-8"}:
        # Few bytes are not enough for a guess; browsers then use windows-1252.
        is_enough = len(body[:_GUESS_BYTES].translate(None, _ASCII)) >= _GUESS_NON_ASCII_MIN
        declared = _html5_name(detect_encoding(body, max_len=_GUESS_BYTES) or "") if is_enough else "cp1252"
    return body.decode(declared or "cp1252", "replace")


def _html5_name(charset: str) -> str:
    from resiliparse.parse.encoding import map_encoding_to_html5

    name = map_encoding_to_html5(charset.strip().strip("\"'"), fallback_utf8=False) if charset else None
    return name or ""


def _meta_charset(body: bytes) -> str:
    match = _META_CHARSET.search(body, 0, _SNIFF_BYTES)
    named = match[1].decode("ascii", "replace") if match else ""
    # A declaration that is readable as ASCII cannot be UTF-16; the standard then prescribes UTF-8.
    return "utf-8" if _html5_name(named) in {"utf-16-le", "utf-16-be"} else named


def _is_html(mime: str, body: bytes, charset: str) -> bool:
    if body.startswith(_MAGIC):
        raise TextError("not_text", f"the body starts like a binary file ({mime or 'no type given'})")
    if mime in _HTML_TYPES:
        return True
    if mime.startswith("text/"):
        return False
    if mime not in {"", "application/octet-stream", "unknown/unknown"}:
        raise TextError("not_text", f"of type {mime[:100]}")
    if _LOOKS_LIKE_HTML.match(decode(body[:_SNIFF_BYTES], charset)):
        return True
    if b"\0" in body[:_SNIFF_BYTES] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TextError("not_text", "binary, and no type given")
    return False


def _extract_text(text: str, title: str, chars_max: int) -> Extracted:
    if len(text) > chars_max:
        raise TextError("too_big", f"{len(text)} characters, more than page_bytes_max = {chars_max}")
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text or text.isspace():
        raise TextError("no_text", "empty")
    return Extracted(text, _one_line(title), Extractor.TEXT)


def _extract_html(source: str, url: str, title: str, skipped: tuple[str, ...]) -> Extracted:
    if "\0" in source:
        source = source.replace("\0", " ")
    if not source or source.isspace():
        raise TextError("no_text", "empty")
    weight = html_guard.weigh(source)
    if weight.heavy:
        text = html_guard.strip_tags(source, skipped) or html_guard.strip_tags(source)
        extracted = Extracted(text, _one_line(title or html_guard.title_of(source)), Extractor.HTML_FALLBACK)
    else:
        extracted = _parse(source, url, title, skipped, weight.meta_chars)
    if not extracted.text and extracted.meta_refresh is None:
        raise TextError("no_text", "no visible text")
    return extracted


def _parse(source: str, url: str, title: str, skipped: tuple[str, ...], meta_chars: int) -> Extracted:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLParserException, HTMLTree

    try:
        tree = HTMLTree.parse(source)
        text = extract_plain_text(tree, list_bullets=False, skip_elements=list(skipped)).strip()
        kind = Extractor.HTML
        if skipped and not text:
            text = extract_plain_text(tree, list_bullets=False).strip()
            kind = Extractor.HTML_FALLBACK
    except HTMLParserException as error:
        raise TextError("parse_failed", str(error)) from error
    head = source[: min(_HEAD_CHARS, meta_chars)]
    return Extracted(
        text,
        _one_line(title or tree.title or ""),
        kind,
        _meta_refresh(tree, url) if any(word in head for word in ("refresh", "Refresh", "REFRESH")) else None,
    )


def _meta_refresh(tree: Any, url: str) -> str | None:
    meta = tree.document.query_selector(":not(noscript) > meta[http-equiv=refresh i]")
    match = _REFRESH.match(meta.getattr("content") or "") if meta else None
    if match is None or int(match[1] or 0) > REFRESH_SECONDS_MAX:
        return None
    target = _resolve(url, match[2] or match[3] or match[4])
    return target if _key(target) not in {b"", _key(url)} else None  # a page that reloads itself is not a redirect


def _resolve(url: str, reference: str) -> str:
    """Return the absolute URL of a reference, or an empty string if it cannot be parsed."""
    try:
        return urljoin(url, reference.strip())
    except ValueError:
        return ""


def _key(url: str) -> bytes:
    """Return the key of a URL, or empty bytes if it has none."""
    try:
        return url_key(url)
    except BadUrl:
        return b""


def _one_line(title: str) -> str:
    """Return a title on one line, of bounded length."""
    return " ".join(title[: 10 * TITLE_CHARS_MAX].replace("\0", " ").split())[:TITLE_CHARS_MAX]

"""Decide whether a response is a page, by its media type, its URL and its first bytes, and whether it is HTML.

| media type                                              | the response is                                         |
|---------------------------------------------------------|---------------------------------------------------------|
| HTML, XHTML                                             | HTML                                                    |
| plain text, Markdown                                    | text, unless its URL has one of `policy.file_suffixes`  |
| one of `policy.media_types`                             | HTML if it is XML or begins with an HTML tag, else text |
| none, or one that means "unknown"                       | what its first bytes and the suffix of its URL show     |
| another type of text: CSS, scripts, XML, JSON           | not a page, unless it begins as an HTML document        |
| any other                                               | not a page                                              |

A response that should be HTML or text but begins like a binary file is damaged or has a wrong type. It is reported,
unlike responses that are not pages.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from streams.page import SUCCESS_STATUSES
from streams.sketch.charset import decode

if TYPE_CHECKING:
    from streams.page import Page
    from streams.settings import Policy

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset({"text/plain", "text/markdown", "text/x-markdown"})
_UNKNOWN_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"}
)
_XML_SUFFIXES = ("/xml", "+xml")
_TEXT_SUFFIXES = (*_XML_SUFFIXES, "/json", "+json", "javascript", "ecmascript")
_HEAD_BYTES = 1024  # only this part of a body is examined
_BINARY_SIGNATURES = (
    b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"RIFF", b"\x7fELF", b"\0\0\0",
)  # fmt: skip
# The tags listed in WHATWG's MIME Sniffing standard, and <meta>.
_HTML_TAG = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--|<!doctype\s+html|"
    r"<(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta)[\s/>])",
    re.IGNORECASE,
)
# No script, style sheet, feed or JSON begins like this, but scripts may begin with `<!--`.
_HTML_DOCUMENT = re.compile(
    r"(?:\s++|<\?[^>]*+>|<!--.*?-->)*+(?:<!doctype\s+html|<html)[\s/>]", re.IGNORECASE | re.DOTALL
)
_FILE_SUFFIX = re.compile(r"//[^/?#]*/[^?#;]*(\.\w{1,10})(?:[?#;]|$)")


class ContentKind(Enum):
    """What the content of a response is."""

    HTML = auto()
    TEXT = auto()
    BINARY = auto()  # a page according to its media type, but the body is binary
    NOT_A_PAGE = auto()


def detect(page: Page, policy: Policy) -> ContentKind | None:
    """Return the kind of a response, or None for an error, a redirect, or a revisit without a media type.

    If the content is missing, only the media type and the URL are examined.
    """
    has_content = page.body is not None or page.text is not None
    is_untyped_revisit = page.original_url is not None and not page.mime
    if page.status not in SUCCESS_STATUSES or is_untyped_revisit or (page.redirect is not None and not has_content):
        return None
    return _kind_of_text(page, policy) if page.text is not None else _kind_of_body(page, policy)


def is_page(page: Page, policy: Policy) -> bool:
    """Return whether a response is a page, an error or a redirect, as opposed to an image or another file."""
    return detect(page, policy) is not ContentKind.NOT_A_PAGE


def _kind_of_body(page: Page, policy: Policy) -> ContentKind:
    mime, body = page.mime, page.body or b""
    if mime in _HTML_TYPES:
        kind = ContentKind.HTML
    elif mime in policy.media_types:
        is_html = mime.endswith(_XML_SUFFIXES) or _HTML_TAG.match(decode(body[:_HEAD_BYTES], page.charset))
        kind = ContentKind.HTML if is_html else ContentKind.TEXT
    elif mime in _UNKNOWN_TYPES:
        return detect_by_body(body, page.charset, is_file=_has_file_suffix(page.url, policy))
    elif _has_file_suffix(page.url, policy):
        return ContentKind.NOT_A_PAGE
    elif mime in _TEXT_TYPES:
        kind = ContentKind.TEXT
    elif _is_text_type(mime) and _HTML_DOCUMENT.match(decode(body[:_HEAD_BYTES], page.charset)):
        return ContentKind.HTML
    else:
        return ContentKind.NOT_A_PAGE
    return ContentKind.BINARY if body.startswith(_BINARY_SIGNATURES) else kind


def detect_by_body(body: bytes, charset: str = "", *, is_file: bool = False) -> ContentKind:
    """Return the kind of a body whose media type is unknown. `is_file` says whether its URL has a file suffix."""
    head = decode(body[:_HEAD_BYTES], charset)
    is_utf16 = body.startswith((b"\xff\xfe", b"\xfe\xff"))
    if _HTML_DOCUMENT.match(head):
        return ContentKind.HTML
    if is_file or body.startswith(_BINARY_SIGNATURES):
        return ContentKind.NOT_A_PAGE
    if _HTML_TAG.match(head):
        return ContentKind.HTML
    return ContentKind.NOT_A_PAGE if "\0" in head and not is_utf16 else ContentKind.TEXT


def _kind_of_text(page: Page, policy: Policy) -> ContentKind:
    """Return the kind of a text that the crawler supplied instead of a body.

    If the media type is a text type, such as JSON, the text is the body as served. For any other type, such as PDF,
    the crawler has extracted the text from the file.
    """
    if page.mime in _HTML_TYPES or page.mime in policy.media_types:
        return ContentKind.TEXT
    is_file = _has_file_suffix(page.url, policy) if page.mime in _TEXT_TYPES else _is_text_type(page.mime)
    return ContentKind.NOT_A_PAGE if is_file else ContentKind.TEXT


def _is_text_type(mime: str) -> bool:
    return mime.startswith("text/") or mime.endswith(_TEXT_SUFFIXES)


def _has_file_suffix(url: str, policy: Policy) -> bool:
    match = _FILE_SUFFIX.search(url)
    return match is not None and match[1].lower() in policy.file_suffixes

"""JSONL: a line is a page. Names are ours and Common Crawl's; what is not known is passed over.

Decoded by msgspec straight into the fields below. Common Crawl's `crawl` is accepted and not used: a sweep is named
when it is read.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from streams import timestamps
from streams.errors import BadUrl
from streams.page import Origin, Page, Rejected
from streams.readers import http_payload, warc_pointer
from streams.readers.position import Item, Position
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused, page_too_big
from streams.readers.unpack import Unpacked
from streams.urls import url_key

_STATUS_FOUND = 302
_BOM = b"\xef\xbb\xbf"


class PageLine(msgspec.Struct):
    """One line as decoded; see docs/formats-input.md for what each field becomes."""

    url: str = ""
    fetch_time: str | float | None = None
    fetched_at: str | float | None = None
    html: str | None = None
    text: str | None = None
    body: str | None = None
    title: str | None = None
    status: int | str | None = None
    fetch_status: int | str | None = None
    redirect: str | None = None
    fetch_redirect: str | None = None
    mime: str | None = None
    content_mime_type: str | None = None
    charset: str | None = None
    content_charset: str | None = None
    crawl: str | None = None
    # A pointer, looked at where there is no content; others use some of these names for other things.
    filename: Any = None
    warc_filename: Any = None
    offset: Any = None
    warc_record_offset: Any = None
    length: Any = None
    warc_record_length: Any = None

    def pointer(self) -> warc_pointer.Pointer | None:
        """Where the page's record is, when the line has no page itself; raises Refused for a pointer to nowhere."""
        name = self.warc_filename if self.warc_filename is not None else self.filename
        if name is None or not (self.body is self.html is self.text is None):
            return None
        at = self.warc_record_offset if self.warc_record_offset is not None else self.offset
        size = self.warc_record_length if self.warc_record_length is not None else self.length
        return warc_pointer.parse_pointer(name, at, size)


_decode = msgspec.json.Decoder(PageLine).decode


def read_items(stream: Unpacked, limits: ReadLimits, source: str, member: str = "", line: int = 0) -> Iterator[Item]:
    """All pages and refusals, each with the place after it; `line` is the number of the first line read."""
    while True:
        begun, number = stream.place(), line
        origin = Origin(source, number, member)
        data = stream.readline(limits.line_bytes_max)
        item: Page | Rejected | None
        if stream.fault and not data.endswith(b"\n"):
            item = Rejected(stream.fault, stream.fault_detail, origin)
            cut = stream.fault == "truncated" or not stream.resync(_is_line_start)
        elif data:
            item = _item(data, stream, limits, origin)
            cut = isinstance(item, Rejected) and item.reason == "truncated" and not data.endswith(b"\n")
        else:
            return
        line += bool(data)
        if item is not None:
            offset, inner = begun if cut else stream.place()
            yield Position(source, member, offset, inner, number if cut else line, cut), item
        if cut:
            return


def _is_line_start(head: bytes) -> bool:
    return head.startswith(b'{"')


def _item(data: bytes, stream: Unpacked, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    whole = data.endswith(b"\n")
    if not whole and len(data) >= limits.line_bytes_max and stream.first() >= 0:
        stream.skip_line()
        return Rejected("too_big", f"line longer than line_bytes_max {limits.line_bytes_max}", origin)
    if origin.offset == 0:
        data = data.removeprefix(_BOM)
    if data.isspace():
        return None
    return parse_line(data, limits, origin, whole=whole)[0]


def parse_line(data: bytes, limits: ReadLimits, origin: Origin, *, whole: bool = True) -> tuple[Page | Rejected, str]:
    """The page of one line, or why it is refused; and its `crawl`, empty where there is none."""
    try:
        line = _decode(data)
    except msgspec.ValidationError as error:
        return Rejected(_invalid(data, str(error)), str(error), origin), ""
    except msgspec.DecodeError as error:
        return Rejected("bad_json" if whole else "truncated", str(error), origin), ""
    except RecursionError:
        return Rejected("bad_json", "nested too deeply", origin), ""
    except UnicodeError as error:
        return Rejected("bad_utf8", str(error)[:200], origin), ""
    crawl = line.crawl or ""
    try:
        return _page(line, len(data), limits, origin), crawl
    except Refused as error:
        return Rejected(error.reason, error.detail, origin, _shown(line.url, limits)), crawl


def _invalid(data: bytes, message: str) -> str:
    """What msgspec's one error for JSON that does not fit stands for: not an object, or a field that is wrong."""
    return "bad_field" if "at `$." in message or data.lstrip().startswith(b"{") else "bad_json"


def _page(line: PageLine, line_bytes: int, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    url = line.url
    if not url:
        return Rejected("no_url", "no `url`", origin)
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        return Rejected("bad_url", str(error), origin, _shown(url, limits))
    given = line.fetch_time if line.fetch_time is not None else line.fetched_at
    time = 0 if given is None else timestamps.millis(given)
    if time is None:
        return Rejected("bad_time", f"`fetch_time` or `fetched_at` is {str(given)[:80]!r}", origin, url)
    status = _status(line)
    pointer = line.pointer()
    # A line that says what came back, but for a page's content, can do without its record.
    if pointer is not None and (limits.warc_folder or (status or 200) == 200):
        found = warc_pointer.read_record(pointer, key, limits, origin)
        return msgspec.structs.replace(found, time=found.time or time) if isinstance(found, Page) else found
    location = line.fetch_redirect or line.redirect
    target = http_payload.resolve_redirect(url, location, limits) if location else None
    if status is None:
        status = _STATUS_FOUND if target else 200
    if not 100 <= status <= 999:
        return Rejected("bad_field", f"status {status} is no HTTP status", origin, url)
    body, text, refused = None, None, None
    if not target:
        try:
            body, text = _content(line, line_bytes, limits)
        except Refused as error:
            refused = error.reason, error.detail
    if body is None and text is None and refused is None and not target and status == 200:
        return Rejected("no_content", "neither `html`, `text`, `body` nor a redirect", origin, url)
    mime, said = http_payload.parse_content_type(line.content_mime_type or line.mime or "")
    charset = line.content_charset or line.charset or said
    return Page(
        url=url,
        key=key,
        time=time,
        status=status,
        body=body,
        text=text,
        mime=mime or ("text/html" if line.html is not None else ""),
        charset="utf-8" if line.html is not None and line.body is None else charset.lower(),
        redirect=target,
        title=line.title or "",
        refused=refused,
        origin=origin,
    )


def _status(line: PageLine) -> int | None:
    """The status, which indexes write as text; raises Refused for a text that is no number."""
    status = line.fetch_status if line.fetch_status is not None else line.status
    if isinstance(status, str):
        if not (status.isascii() and status.isdigit() and len(status) == 3):
            raise Refused("bad_field", f"status {status[:40]!r} is no HTTP status")
        return int(status)
    return status


def _content(line: PageLine, line_bytes: int, limits: ReadLimits) -> tuple[bytes | None, str | None]:
    """Body or text; of several, the one nearest to what was served."""
    limit = limits.page_bytes_max
    body: bytes | None = None
    if line.body is not None:
        try:
            packed = b"".join(line.body.encode("ascii").split())  # MIME's base64 is broken into lines
            body = binascii.a2b_base64(packed, strict_mode=True)
        except ValueError as error:
            raise Refused("bad_base64", str(error)) from None
    elif line.html is not None:
        body = line.html.encode()
    if body is not None:
        if len(body) > limit:
            raise page_too_big(len(body), limits)
        return body, None
    text = line.text
    # A line is longer than its text in UTF-8, so that most texts need not be measured.
    if text is not None and line_bytes > limit and len(text.encode()) > limit:
        raise Refused("too_big", f"text of more than page_bytes_max {limit} bytes")
    return None, text


def _shown(url: str, limits: ReadLimits) -> str:
    return url[: limits.url_bytes_max]

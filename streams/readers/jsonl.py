"""Read JSONL with one page per line. Field names are our own or Common Crawl's, and unknown fields are ignored.

The field `crawl` names the sweep of a Kafka message. In a file it has no effect, because `--sweep` names the sweep.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from streams import timestamps
from streams.errors import BadUrl
from streams.page import Origin, Page, Rejected, with_default_time
from streams.readers import http_payload, warc_pointer
from streams.readers.byte_stream import ByteStream
from streams.readers.position import Position, PositionedItem
from streams.readers.read_limits import ContentError, ReadLimits, too_big_detail
from streams.urls import url_key

_DEFAULT_REDIRECT_STATUS = 302  # for a line with a redirect target but without a status
_BOM = b"\xef\xbb\xbf"


class PageLine(msgspec.Struct, kw_only=True):
    """The fields of one line, as docs/formats-input.md describes them."""

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
    # A pointer to a WARC record. Any type is accepted, because other tools use some of these names differently.
    filename: Any = None
    warc_filename: Any = None
    offset: Any = None
    warc_record_offset: Any = None
    length: Any = None
    warc_record_length: Any = None

    def pointer(self) -> warc_pointer.Pointer | None:
        """Return the pointer of a line without content, if any. Raise ContentError if the pointer is invalid."""
        filename = _coalesce(self.warc_filename, self.filename)
        if filename is None or not (self.body is self.html is self.text is None):
            return None
        offset = _coalesce(self.warc_record_offset, self.offset)
        return warc_pointer.parse_pointer(filename, offset, _coalesce(self.warc_record_length, self.length))


def _coalesce(first: Any, second: Any) -> Any:
    return second if first is None else first


_decode_line = msgspec.json.Decoder(PageLine).decode


def read_items(stream: ByteStream, limits: ReadLimits, start: Position) -> Iterator[PositionedItem]:
    """Yield all pages and rejections of a stream that begins at `start`, each with the position after it."""
    source, member, next_line = start.source, start.member, start.next_line
    while True:
        line_start = stream.position()
        origin = Origin(source, next_line, member)
        line = stream.read_line(limits.line_bytes_max)
        item: Page | Rejected | None
        if stream.fault.reason and not line.endswith(b"\n"):
            item = Rejected(stream.fault.reason, stream.fault.detail, origin)
            cut_off = stream.fault.reason == "truncated" or not stream.resync(lambda head: head.startswith(b'{"'))
        elif line:
            item = _convert_line(line, stream, limits, origin)
            cut_off = isinstance(item, Rejected) and item.reason == "truncated" and not line.endswith(b"\n")
        else:
            return
        next_line += bool(line and not cut_off)  # the next run reads a cut-off line again
        if item is not None:
            offset, inner = line_start if cut_off else stream.position()
            position = Position(
                source=source, member=member, offset=offset, inner_offset=inner, next_line=next_line, cut_off=cut_off
            )
            yield position, item
        if cut_off:
            return


def _convert_line(line: bytes, stream: ByteStream, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    """Return the page or rejection of a line, or None for a blank line. Skip the rest of a line that is too long."""
    is_complete = line.endswith(b"\n")
    if not is_complete and len(line) >= limits.line_bytes_max and stream.peek() >= 0:
        stream.skip_line()
        return Rejected("too_big", f"the line is longer than line_bytes_max {limits.line_bytes_max}", origin)
    if origin.offset == 0:
        line = line.removeprefix(_BOM)
    if line.isspace():
        return None
    return parse_line(line, limits, origin, is_complete=is_complete)[0]


def parse_line(
    data: bytes, limits: ReadLimits, origin: Origin, *, is_complete: bool = True
) -> tuple[Page | Rejected, str]:
    """Return the page or rejection of a line, and the line's `crawl` or an empty string.

    If `is_complete` is false, the line may be cut off, so invalid JSON is rejected as `truncated`.
    """
    try:
        line = _decode_line(data)
    except msgspec.ValidationError as error:  # a wrong field, or JSON that is not an object
        is_object = "at `$." in str(error) or data.lstrip().startswith(b"{")
        return Rejected("bad_field" if is_object else "bad_json", str(error), origin), ""
    except msgspec.DecodeError as error:
        return Rejected("bad_json" if is_complete else "truncated", str(error), origin), ""
    except RecursionError:
        return Rejected("bad_json", "the JSON is nested too deeply", origin), ""
    except UnicodeError as error:
        return Rejected("bad_utf8", str(error)[:200], origin), ""
    crawl = line.crawl or ""
    try:
        return _to_page(line, len(data), limits, origin), crawl
    except ContentError as error:
        return Rejected(error.reason, error.detail, origin, line.url[: limits.url_bytes_max]), crawl


def _to_page(line: PageLine, line_bytes: int, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    """Return the page of a line or the rejection of the record it points to. Raise ContentError for a bad line."""
    url = line.url
    if not url:
        raise ContentError("no_url", "the field `url` is missing or empty")
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        raise ContentError("bad_url", str(error)) from None
    time = _parse_time(line)
    declared_status = _parse_status(line)
    pointer = line.pointer()
    # Redirects and errors need no content. So without `warc_folder`, their lines are read without the WARC records.
    if pointer is not None and (limits.warc_folder or (declared_status or 200) == 200):
        page = warc_pointer.read_record(pointer, key, limits, origin)
        return with_default_time(page, time) if isinstance(page, Page) else page
    location = line.fetch_redirect or line.redirect
    redirect = http_payload.resolve_redirect(url, location, limits) if location else None
    status = _coalesce(declared_status, _DEFAULT_REDIRECT_STATUS if redirect else 200)
    if not 100 <= status <= 999:
        raise ContentError("bad_field", f"{status} is not an HTTP status")
    body, text, content_error = (None, None, None) if redirect else _parse_content(line, line_bytes, limits)
    if status == 200 and body is None and text is None and content_error is None and not redirect:
        raise ContentError("no_content", "the line has no `body`, `html`, `text` or redirect")
    mime, charset = _parse_media_type(line)
    return Page(
        url=url,
        key=key,
        time=time,
        status=status,
        body=body,
        text=text,
        mime=mime,
        charset=charset,
        redirect=redirect,
        title=line.title or "",
        content_error=content_error,
        origin=origin,
    )


def _parse_time(line: PageLine) -> int:
    """Return the fetch time in ms since 1970, or 0 if the line has none. Raise ContentError if it is invalid."""
    value = _coalesce(line.fetch_time, line.fetched_at)
    time = 0 if value is None else timestamps.parse_date(value)
    if time is None:
        raise ContentError("bad_time", f"invalid `fetch_time` or `fetched_at`: {str(value)[:80]!r}")
    return time


def _parse_status(line: PageLine) -> int | None:
    """Return the status as a number, or None if the line has no status. Raise ContentError for an invalid status."""
    status: int | str | None = _coalesce(line.fetch_status, line.status)
    if isinstance(status, str):
        if not (status.isascii() and status.isdigit() and len(status) == 3):
            raise ContentError("bad_field", f"{status[:40]!r} is not an HTTP status")
        return int(status)
    return status


def _parse_content(
    line: PageLine, line_bytes: int, limits: ReadLimits
) -> tuple[bytes | None, str | None, tuple[str, str] | None]:
    """Return (body, text, content_error): the content closest to the served bytes, or why it cannot be used."""
    if line.body is not None:
        try:
            base64 = b"".join(line.body.encode("ascii").split())  # MIME splits base64 into lines
            body = binascii.a2b_base64(base64, strict_mode=True)
        except ValueError as error:
            return None, None, ("bad_base64", str(error))
    elif line.html is not None:
        body = line.html.encode()
    else:
        bytes_max = limits.page_bytes_max
        # A text is never longer than its line, so it is encoded and measured only if the line exceeds the limit.
        if line.text is not None and line_bytes > bytes_max and len(line.text.encode()) > bytes_max:
            return None, None, ("too_big", f"the text is longer than page_bytes_max {bytes_max} bytes")
        return None, line.text, None
    if len(body) > limits.page_bytes_max:
        return None, None, ("too_big", too_big_detail(len(body), limits))
    return body, None, None


def _parse_media_type(line: PageLine) -> tuple[str, str]:
    """Return the media type and charset in lower case. The default media type of `html` is text/html."""
    mime, mime_charset = http_payload.parse_content_type(line.content_mime_type or line.mime or "")
    charset = (line.content_charset or line.charset or mime_charset).lower()
    if line.html is not None:
        mime = mime or "text/html"
        if line.body is None:
            charset = "utf-8"  # `_parse_content` has encoded `html` in UTF-8
    return mime, charset

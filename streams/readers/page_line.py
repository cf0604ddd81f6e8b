"""Convert a line of JSONL, an element of a JSON array or a row of a CSV to a page.

Field names are our own, Common Crawl's, or those set with `--field`. Unknown fields are ignored. The field `crawl`
names the sweep of a Kafka message. In a file it has no effect, because `--sweep` names the sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, cast

import msgspec

from streams import timestamps
from streams.errors import BadUrl, InputError
from streams.page import Origin, Page, Rejected, SuppliedLink, with_default_time
from streams.readers import body_base64, http_payload, warc_pointer
from streams.readers.read_limits import ContentError, ReadLimits, too_big_detail
from streams.urls import url_key

_DEFAULT_REDIRECT_STATUS = 302  # for a line with a redirect target but without a status
_UNREAD_PREFIX = "\ue000"  # starts the column name of a field that must not be read; no input has such a name
# Fields with the same meaning. If one of them is mapped to a column, the others are not read.
_SYNONYMS = (
    {"body", "body_base64", "html", "text"},
    {"fetch_time", "fetched_at"},
    {"fetch_status", "status"},
    {"fetch_redirect", "redirect"},
    {"content_mime_type", "mime"},
    {"content_charset", "charset"},
    {"warc_filename", "filename"},
    {"warc_record_offset", "offset"},
    {"warc_record_length", "length"},
)


class LineLink(msgspec.Struct):
    """An element of `links` that is an object. An element may also be a string."""

    url: str | None = None
    href: str | None = None
    text: str | None = None
    anchor: str | None = None
    rel: str | list[str] | None = None


class PageLine(msgspec.Struct, kw_only=True):
    """The fields of one line, as docs/formats-input.md describes them."""

    url: str = ""
    fetch_time: str | float | None = None
    fetched_at: str | float | None = None
    html: str | None = None
    text: str | None = None
    body: str | None = None
    body_base64: str | None = None
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
    links: Any = None  # of any type, because it is used only together with `text`
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
        if filename is None or not (self.body is self.body_base64 is self.html is self.text is None):
            return None
        offset = _coalesce(self.warc_record_offset, self.offset)
        return warc_pointer.parse_pointer(filename, offset, _coalesce(self.warc_record_length, self.length))


def _coalesce(first: Any, second: Any) -> Any:
    return second if first is None else first


def mapped_line_type(columns: Mapping[str, str]) -> type[PageLine]:
    """Return a PageLine type that reads the named fields from other columns. Raise InputError for an unknown name.

    A mapped field replaces its synonyms: with `text=content`, a `body` in the same line is ignored.
    """
    if not columns:
        return PageLine
    names = PageLine.__struct_fields__
    if unknown := sorted(columns.keys() - set(names)):
        raise InputError(f"there is no field {unknown[0]!r}", f"the fields are {', '.join(names)}")
    ignored = {name for group in _SYNONYMS if group & columns.keys() for name in group} | set(columns.values())
    fields = []
    for field in msgspec.structs.fields(PageLine):
        column = columns.get(field.name, _UNREAD_PREFIX + field.name if field.name in ignored else field.name)
        fields.append((field.name, field.type, msgspec.field(default=field.default, name=column)))
    return cast("type[PageLine]", msgspec.defstruct("MappedLine", fields, bases=(PageLine,), kw_only=True))


@cache
def _decoder(line_type: type[PageLine]) -> msgspec.json.Decoder[PageLine]:
    return msgspec.json.Decoder(line_type)


def parse_line(
    data: bytes,
    limits: ReadLimits,
    origin: Origin,
    line_type: type[PageLine] = PageLine,
    *,
    is_complete: bool = True,
) -> tuple[Page | Rejected, str]:
    """Return the page or rejection of a line, and the value of its field `crawl` or "".

    If `is_complete` is false, the line may be cut off, so invalid JSON is rejected as `truncated`.
    """
    try:
        line = _decoder(line_type).decode(data)
    except msgspec.ValidationError as error:  # a field has the wrong type, or the JSON is not an object
        is_object = "at `$." in str(error) or data.lstrip().startswith(b"{")
        return Rejected("bad_field" if is_object else "bad_json", str(error), origin), ""
    except msgspec.DecodeError as error:
        return Rejected("bad_json" if is_complete else "truncated", str(error), origin), ""
    except RecursionError:
        return Rejected("bad_json", "the JSON is nested too deeply", origin), ""
    except UnicodeError as error:
        return Rejected("bad_utf8", str(error)[:200], origin), ""
    return _convert_line(line, len(data), limits, origin), line.crawl or ""


def parse_row(
    row: Mapping[str, str], row_bytes: int, limits: ReadLimits, origin: Origin, line_type: type[PageLine]
) -> Page | Rejected:
    """Return the page or rejection of a row of a CSV. The row has `row_bytes` bytes in the file."""
    try:
        line = msgspec.convert({name: value for name, value in row.items() if name != "links"}, line_type)
    except msgspec.ValidationError as error:
        return Rejected("bad_field", str(error), origin)
    return _convert_line(line, row_bytes, limits, origin)


def _convert_line(line: PageLine, line_bytes: int, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    """Return the page or rejection of a line."""
    try:
        return _to_page(line, line_bytes, limits, origin)
    except ContentError as error:
        return Rejected(error.reason, error.detail, origin, line.url[: limits.url_bytes_max])


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
    # Redirects and errors need no content. Without a `warc_folder`, their pointers are ignored instead of rejected.
    if pointer is not None and (limits.warc_folder or (declared_status or 200) == 200):
        page = warc_pointer.read_record(pointer, key, limits, origin)
        return with_default_time(page, time) if isinstance(page, Page) else page
    location = line.fetch_redirect or line.redirect
    redirect = http_payload.resolve_redirect(url, location, limits) if location else None
    status = _coalesce(declared_status, _DEFAULT_REDIRECT_STATUS if redirect else 200)
    if not 100 <= status <= 999:
        raise ContentError("bad_field", f"{status} is not an HTTP status")
    content = _Content() if redirect else _parse_content(line, line_bytes, limits)
    if status == 200 and content == _Content() and not redirect:
        raise ContentError("no_content", "the line has no `body`, `html`, `text` or redirect")
    mime, charset = _parse_media_type(line, is_decoded=content.is_decoded)
    return Page(
        url=url,
        key=key,
        time=time,
        status=status,
        body=content.body,
        text=content.text,
        mime=mime,
        charset=charset,
        redirect=redirect,
        title=line.title or "",
        links=_parse_links(line.links) if content.text is not None else None,
        content_error=content.error,
        origin=origin,
    )


def _parse_time(line: PageLine) -> int:
    """Return the fetch time in ms since the epoch, or 0 if the line has none. Raise ContentError if it is invalid."""
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


class _Content(NamedTuple):
    body: bytes | None = None
    text: str | None = None
    error: tuple[str, str] | None = None
    is_decoded: bool = False  # whether the crawler has decoded the body, so that it is in UTF-8 now


def _parse_content(line: PageLine, line_bytes: int, limits: ReadLimits) -> _Content:
    """Return the content closest to the served bytes, or the reason why it cannot be used. Prefer nonempty fields."""
    try:
        served = _served_bytes(line)
    except ValueError as error:
        return _Content(error=("bad_base64", str(error)))
    decoded = line.html or line.body
    if served is None and not decoded and line.text is not None:
        bytes_max = limits.page_bytes_max
        # A text is never longer than its line, so its size is computed only if the line exceeds the limit.
        if line_bytes > bytes_max and len(line.text.encode()) > bytes_max:
            return _Content(error=("too_big", f"the text is longer than page_bytes_max {bytes_max} bytes"))
        return _Content(text=line.text)
    if served is None and decoded is None:
        return _Content()
    body = (decoded or "").encode() if served is None else served
    if len(body) > limits.page_bytes_max:
        return _Content(error=("too_big", too_big_detail(len(body), limits)))
    return _Content(body, is_decoded=served is None)


def _served_bytes(line: PageLine) -> bytes | None:
    """Return the body decoded from base64, or None if the line has none.

    Raise ValueError if the base64 is damaged, unless `html` replaces a damaged `body`.
    """
    if line.body_base64:
        return body_base64.decode_declared_base64(line.body_base64)
    try:
        return body_base64.decode_if_base64(line.body) if line.body else None
    except ValueError:
        if line.html:
            return None
        raise


def _parse_links(values: Any) -> list[SuppliedLink] | None:
    """Parse the field `links` of a line with a text. Raise ContentError if the field is invalid."""
    if not values:
        return None
    try:
        links = msgspec.convert(values, list[str | LineLink])
    except (msgspec.ValidationError, RecursionError) as error:
        raise ContentError("bad_field", f"invalid `links`: {str(error)[:200]}") from error
    return [SuppliedLink(link) if isinstance(link, str) else _to_supplied_link(link) for link in links]


def _to_supplied_link(link: LineLink) -> SuppliedLink:
    relations = link.rel.split() if isinstance(link.rel, str) else link.rel or []
    return SuppliedLink(
        link.url or link.href or "",
        link.text or link.anchor or "",
        nofollow="nofollow" in map(str.lower, relations),
    )


def _parse_media_type(line: PageLine, *, is_decoded: bool) -> tuple[str, str]:
    """Return the media type and charset in lower case. The default media type of `html` is text/html."""
    mime, mime_charset = http_payload.parse_content_type(line.content_mime_type or line.mime or "")
    charset = (line.content_charset or line.charset or mime_charset).lower()
    return mime or ("text/html" if line.html else ""), "utf-8" if is_decoded else charset

"""Encode and decode pages as messages: JSON with the columns of Common Crawl, msgpack, or the format of a crawler.

    headers   schema        lostfound.pages/1 or absent (one page), lostfound.page-packs/1 (several pages)
              content-type  application/json (the default) or application/msgpack
              format        absent, scrapy-cluster, scrapy-cluster-base64 or ache

A JSON message is a line of JSONL as described in `docs/formats-input.md`. A msgpack message has the fields of
`PageMessage`, with the body as bytes. Both may refer to a WARC record instead of containing a body. `lostfound
publish` sends packs, which are msgpack arrays of pages, because they reduce the worker's cost per page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streams.errors import BadUrl
from streams.kafka.wire.packed_messages import BadMessage, Headers, check_readable, decode_headers
from streams.page import REJECTION_REASONS, Origin, Page, Rejected, SuppliedLink
from streams.readers import warc_pointer
from streams.readers.crawler_formats import CRAWLER_FORMATS
from streams.readers.http_payload import parse_content_type, resolve_redirect
from streams.readers.page_line import parse_line
from streams.readers.read_limits import ContentError, ReadLimits, too_big_detail
from streams.timestamps import MILLIS_MAX
from streams.urls import url_key

PAGE_SCHEMA = "lostfound.pages/1"
PACK_SCHEMA = "lostfound.page-packs/1"
MSGPACK = "application/msgpack"
JSON = "application/json"


class PageMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page sent as msgpack, by `lostfound publish` or by a crawler. Most fields are those of `Page`."""

    url: str
    time: int  # ms since the epoch, UTC
    crawl: str = ""  # name of the sweep
    status: int = 200
    body: bytes | None = None
    text: str | None = None
    mime: str = ""
    charset: str = ""
    redirect: str | None = None
    original_url: str | None = msgspec.field(default=None, name="revisit_of")
    original_time: int | None = msgspec.field(default=None, name="revisit_time")
    title: str = ""
    links: list[SuppliedLink] | None = None
    content_error: tuple[str, str] | None = msgspec.field(default=None, name="refused")  # reason and detail
    source: str = ""  # the crawl file that contains the page; empty: the page's origin is the message
    member: str = ""  # the file inside a WACZ
    offset: int = 0  # of the record in the file
    warc_filename: str | None = None
    warc_record_offset: int | None = None
    warc_record_length: int | None = None


_PAGE_FIELDS = [name for name in Page.__struct_fields__ if name not in {"key", "origin"}]
_decode_msgpack = msgspec.msgpack.Decoder(PageMessage).decode
_decode_pack = msgspec.msgpack.Decoder(list[PageMessage]).decode
_encode_msgpack = msgspec.msgpack.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
DecodedPage = tuple[Page | Rejected, str]
"""A page or its rejection, and the name of the page's sweep, or "" if the message names no sweep."""


def to_message(page: Page, crawl: str) -> PageMessage:
    """Return the message for a page of the sweep `crawl`."""
    fields = {name: getattr(page, name) for name in _PAGE_FIELDS}
    return PageMessage(**fields, **msgspec.structs.asdict(page.origin), crawl=crawl)


def encode_pack(pack: Sequence[PageMessage]) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return the value and the headers of a message with several pages."""
    return _encode_msgpack(pack), [("schema", PACK_SCHEMA.encode()), ("content-type", MSGPACK.encode())]


def decode_pages(
    value: bytes | None, headers: Headers, origin: Origin, limits: ReadLimits, default_format: str = ""
) -> list[DecodedPage]:
    """Decode a message with one or several pages. An invalid message becomes a rejection."""
    try:
        check_readable(headers)
    except BadMessage as error:
        return [(Rejected(error.reason, error.detail, origin), "")]
    if dict(headers).get("schema") != PACK_SCHEMA.encode():
        return [decode_page(value, headers, origin, limits, default_format)]
    try:
        return [_decode_fields(message, limits, origin) for message in _decode_pack(value or b"")]
    except (msgspec.DecodeError, ValueError, RecursionError, MemoryError) as error:
        return [(Rejected("bad_message", repr(error)[:300], origin), "")]


def decode_page(
    value: bytes | None, headers: Headers, origin: Origin, limits: ReadLimits, default_format: str = ""
) -> DecodedPage:
    """Decode a message with one page. An invalid message becomes a rejection.

    `default_format` applies if all three headers are absent, because most crawlers cannot set headers.
    """
    decoded_headers = decode_headers(headers)
    content_type = decoded_headers.get("content-type", JSON)
    has_headers = bool({"schema", "content-type", "format"} & decoded_headers.keys())
    crawler_format = decoded_headers.get("format", "") if has_headers else default_format
    problem = ""
    if decoded_headers.get("schema", PAGE_SCHEMA) != PAGE_SCHEMA:
        problem = f"the message has schema {decoded_headers['schema']!r} instead of {PAGE_SCHEMA}"
    elif content_type not in (JSON, MSGPACK):
        problem = f"content type {content_type!r} is neither {JSON} nor {MSGPACK}"
    elif crawler_format and crawler_format not in CRAWLER_FORMATS:
        problem = f"format {crawler_format!r} is not one of {', '.join(CRAWLER_FORMATS)}"
    if problem:
        return Rejected("bad_schema", problem, origin), ""
    data = value or b""
    try:
        if content_type == MSGPACK:
            return _decode_fields(_decode_msgpack(data), limits, origin)
        if crawler_format:
            data = msgspec.json.encode(CRAWLER_FORMATS[crawler_format](_decode_object(data)))
        return parse_line(data, limits, origin)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        return Rejected("bad_message", repr(error)[:300], origin), ""


def _decode_fields(message: PageMessage, limits: ReadLimits, message_origin: Origin) -> DecodedPage:
    origin = Origin(message.source, message.offset, message.member) if message.source else message_origin
    try:
        return _build_page(message, limits, origin), message.crawl
    except ContentError as error:
        return Rejected(error.reason, error.detail, origin, message.url[: limits.url_bytes_max]), message.crawl


def _build_page(message: PageMessage, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    """Build the page of a message or read it from a WARC. Raise ContentError for an invalid field or WARC pointer."""
    try:
        key = url_key(message.url, limits.url_bytes_max)
    except BadUrl as error:
        raise ContentError("bad_url", str(error)) from error
    redirect = None if message.redirect is None else resolve_redirect(message.url, message.redirect, limits)
    if redirect is None and message.redirect is not None:
        raise ContentError("bad_url", "the redirect target is not a URL")
    for time in (message.time, message.original_time or 0):
        if not 0 <= time <= MILLIS_MAX:
            raise ContentError("bad_time", f"the time {time} (ms) is out of range")
    if not 0 <= message.status <= 999:
        raise ContentError("bad_field", f"{message.status} is not an HTTP status")
    if message.content_error is not None and message.content_error[0] not in REJECTION_REASONS:
        raise ContentError("bad_field", f"{message.content_error[0][:40]!r} is not a reason for a dead letter")
    if message.warc_filename is not None and message.body is None and message.text is None:
        pointer_fields = (message.warc_filename, message.warc_record_offset, message.warc_record_length)
        record = warc_pointer.read_record(warc_pointer.parse_pointer(*pointer_fields), key, limits, origin)
        if isinstance(record, Page) and not record.time:  # 0: the record has no date
            return msgspec.structs.replace(record, time=message.time)
        return record
    mime, charset = parse_content_type(message.mime)
    fields = {name: getattr(message, name) for name in _PAGE_FIELDS}
    fields |= {"redirect": redirect, "mime": mime, "charset": message.charset or charset}
    if (size := len(message.body or message.text or "")) > limits.page_bytes_max:
        fields |= {"body": None, "text": None, "content_error": ("too_big", too_big_detail(size, limits))}
    return Page(**fields, key=key, origin=origin)

"""Pages as messages: JSON with the names of Common Crawl's columns, or the same as msgpack.

    headers   schema        lostfound.pages/1, or nothing; lostfound.page-packs/1
              content-type  application/json (the default) or application/msgpack
              format        nothing, scrapy-cluster, scrapy-cluster-base64 or ache

The JSON is a line of JSONL as `docs/formats-input.md` has it. Msgpack has the fields of `PageMessage`, with the body
as bytes. Either may point to a WARC record instead of a body. `lostfound publish` sends packs, a msgpack array
of such pages: what a message costs a worker is shared by its pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streams.errors import BadUrl
from streams.kafka.wire.packed_messages import Headers, decode_headers
from streams.page import REASONS, Origin, Page, Rejected
from streams.readers import warc_pointer
from streams.readers.crawler_formats import CRAWLER_FORMATS
from streams.readers.http_payload import parse_content_type, resolve_redirect
from streams.readers.jsonl import parse_line
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused, page_too_big
from streams.timestamps import MILLIS_MAX
from streams.urls import url_key

SCHEMA = "lostfound.pages/1"
PACKS = "lostfound.page-packs/1"
MSGPACK = "application/msgpack"
JSON = "application/json"


class PageMessage(msgspec.Struct, omit_defaults=True):
    """A page as `lostfound publish` sends it."""

    url: str
    time: int  # ms since the epoch, UTC
    crawl: str = ""
    status: int = 200
    body: bytes | None = None
    text: str | None = None
    mime: str = ""
    charset: str = ""
    redirect: str | None = None
    revisit_of: str | None = None
    revisit_time: int | None = None
    title: str = ""
    refused: tuple[str, str] | None = None
    source: str = ""
    member: str = ""
    offset: int = 0
    warc_filename: str | None = None
    warc_record_offset: int | None = None
    warc_record_length: int | None = None


_PAGE_FIELDS = [name for name in Page.__struct_fields__ if name not in {"key", "origin"}]
_decode_packed = msgspec.msgpack.Decoder(PageMessage).decode
_decode_pack = msgspec.msgpack.Decoder(list[PageMessage]).decode
_encode_packed = msgspec.msgpack.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


Decoded = tuple[Page | Rejected, str]
"""A page, or why it is refused, and the name of its sweep, empty where it names none."""


def to_message(page: Page, crawl: str) -> PageMessage:
    """What is sent of a page."""
    fields = {name: getattr(page, name) for name in _PAGE_FIELDS}
    origin = page.origin
    return PageMessage(**fields, crawl=crawl, source=origin.source, member=origin.member, offset=origin.offset)


def encode(page: Page, crawl: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The value and the headers of a message of one page."""
    return _encode_packed(to_message(page, crawl)), [("schema", SCHEMA.encode()), ("content-type", MSGPACK.encode())]


def encode_pack(pack: Sequence[PageMessage]) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The value and the headers of a message of several pages."""
    return _encode_packed(pack), [("schema", PACKS.encode()), ("content-type", MSGPACK.encode())]


def decode_pages(
    value: bytes | None, headers: Headers, origin: Origin, limits: ReadLimits, default_format: str = ""
) -> list[Decoded]:
    """The pages of a message of either kind, as `decode` gives one."""
    if dict(headers).get("schema") != PACKS.encode():
        return [decode(value, headers, origin, limits, default_format)]
    try:
        return [_taken(held, limits, origin) for held in _decode_pack(value or b"")]
    except (msgspec.DecodeError, ValueError, RecursionError, MemoryError) as error:
        return [(Rejected("bad_message", repr(error)[:300], origin), "")]


def decode(
    value: bytes | None, headers: Headers, origin: Origin, limits: ReadLimits, default_format: str = ""
) -> Decoded:
    """The page of a message.

    `default_format` is that of messages without any of our headers: most crawlers cannot set one.
    """
    given = decode_headers(headers)
    kind = given.get("content-type", JSON)
    preset = given.get("format", "" if {"schema", "content-type"} & given.keys() else default_format)
    problem = ""
    if given.get("schema", SCHEMA) != SCHEMA:
        problem = f"the message has schema {given['schema']!r}, pages have {SCHEMA}"
    elif kind not in (JSON, MSGPACK):
        problem = f"content type {kind!r} is neither {JSON} nor {MSGPACK}"
    elif preset and preset not in CRAWLER_FORMATS:
        problem = f"format {preset!r} is none of {', '.join(CRAWLER_FORMATS)}"
    if problem:
        return Rejected("bad_schema", problem, origin), ""
    data = value or b""
    try:
        if kind == MSGPACK:
            return _taken(_decode_packed(data), limits, origin)
        if preset:
            data = msgspec.json.encode(CRAWLER_FORMATS[preset](_decode_object(data)))
        return parse_line(data, limits, origin)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        return Rejected("bad_message", repr(error)[:300], origin), ""


def _taken(held: PageMessage, limits: ReadLimits, place: Origin) -> Decoded:
    origin = Origin(held.source, held.offset, held.member) if held.source else place
    shown = held.url[: limits.url_bytes_max]
    try:
        key = url_key(held.url, limits.url_bytes_max)
    except BadUrl as error:
        return Rejected("bad_url", str(error), origin, shown), held.crawl
    target = None if held.redirect is None else resolve_redirect(held.url, held.redirect, limits)
    if target is None and held.redirect is not None:
        return Rejected("bad_url", "its redirect leads to no page", origin, shown), held.crawl
    if not (0 <= held.time <= MILLIS_MAX and 0 <= (held.revisit_time or 0) <= MILLIS_MAX):
        detail = f"{held.time} is no time in ms, or {held.revisit_time} is none"
        return Rejected("bad_time", detail, origin, held.url), held.crawl
    if not 0 <= held.status <= 999:
        return Rejected("bad_field", f"status {held.status} is no HTTP status", origin, held.url), held.crawl
    if held.warc_filename is not None and held.body is None and held.text is None:
        return _pointed(held, key, limits, origin), held.crawl
    if held.refused is not None and held.refused[0] not in REASONS:
        return Rejected("bad_field", f"{held.refused[0][:40]!r} is no reason", origin, held.url), held.crawl
    mime, said = parse_content_type(held.mime)
    fields = {name: getattr(held, name) for name in _PAGE_FIELDS}
    fields |= {"redirect": target, "mime": mime, "charset": held.charset or said}
    if (size := len(held.body or held.text or "")) > limits.page_bytes_max:
        refused = page_too_big(size, limits)
        fields |= {"body": None, "text": None, "refused": (refused.reason, refused.detail)}
    return Page(**fields, key=key, origin=origin), held.crawl


def _pointed(held: PageMessage, key: bytes, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    try:
        to = warc_pointer.parse_pointer(held.warc_filename, held.warc_record_offset, held.warc_record_length)
        found = warc_pointer.read_record(to, key, limits, origin)
    except Refused as error:
        return Rejected(error.reason, error.detail, origin, held.url)
    return msgspec.structs.replace(found, time=found.time or held.time) if isinstance(found, Page) else found

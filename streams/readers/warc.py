"""Read WARC 0.17 to 1.1 (ISO 28500), WET and WAT, optionally compressed record by record with gzip or zstd.

Records of types that contain no pages, and of URL schemes without pages (such as `dns:` and `urn:`), are skipped.
docs/decisions/warc-framing.md explains why we split files into records ourselves.
"""

from __future__ import annotations

import re

import msgspec

from streams import timestamps
from streams.errors import BadUrl
from streams.page import Origin, Page, Rejected
from streams.readers import http_payload, records, wat
from streams.readers.byte_stream import ByteStream
from streams.readers.compression import GZIP_MAGIC, ZSTD_MAGIC
from streams.readers.read_limits import ReadLimits
from streams.urls import url_key

_WARC_MAGIC = b"WARC/"
_PAGE_TYPES = frozenset({b"response", b"resource", b"revisit", b"conversion"})  # also b"metadata" in a WAT
_HEADER_PATTERN = re.compile(rb"WARC/\d\.\d+[ \t]*\r?\n(?:WARC-|Content-)", re.IGNORECASE)
_HEADER_MATCH_BYTES_MAX = 64  # no match of _HEADER_PATTERN is longer
_MAGICS = (_WARC_MAGIC, GZIP_MAGIC, ZSTD_MAGIC)  # a file that ends within a magic is truncated, not garbage
_CONTINUATION = re.compile(rb"\r?\n[ \t]+")

_Fields = dict[bytes, bytes]


def read_record(stream: ByteStream, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    """Read one record, from its first byte to the end of its content. Return None if the record has no page."""
    fields = _read_fields(stream, limits, origin)
    if isinstance(fields, Rejected):
        return fields
    url = _field_string(fields, b"warc-target-uri").strip("<> \t")
    length = fields.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 18:
        detail = f"invalid or missing Content-Length: {length[:40]!r}"
        return Rejected("bad_header", detail, origin, url[: limits.url_bytes_max])
    size = int(length)
    record_type = fields.get(b"warc-type", b"").lower()
    is_wat = record_type == b"metadata" and fields.get(b"content-type", b"").lower().startswith(b"application/json")
    if not (is_wat or record_type in _PAGE_TYPES) or (url and not url[:6].lower().startswith(("http:", "https:"))):
        return records.skip_content(stream, size, _is_record_start, origin, url)
    key = _parse_key(fields, url, limits, origin)
    if isinstance(key, Rejected):
        rejected = key
        return records.skip_content(stream, size, _is_record_start, origin, rejected.url) or rejected
    data = records.read_content(stream, size, _is_record_start, limits, origin, url)
    if isinstance(data, Rejected):
        return data
    is_revisit = record_type == b"revisit"
    response = http_payload.parse_response(data, size, limits) if is_revisit or record_type == b"response" else None
    time = _parse_time(fields, response)
    if time is None:
        return Rejected("bad_time", f"invalid WARC-Date: {_field_string(fields, b'warc-date')[:80]!r}", origin, url)
    if is_wat:
        return wat.read_page(data, size, url, key, time, limits, origin)
    if response is not None:
        page = http_payload.page_from_response(response, url, key, time, limits, origin)
    elif is_revisit:
        page = Page(url=url, key=key, time=time, origin=origin)
    else:
        content_type = _field_string(fields, b"content-type")
        page = http_payload.page_without_http(url, key, time, data, size, content_type, limits, origin)
    if is_revisit:
        return _to_revisit(page, fields, limits)
    if record_type == b"conversion" and page.body is not None:
        text = page.body.decode(errors="replace")
        return msgspec.structs.replace(page, body=None, text=text, mime="", charset="")  # the page's type is unknown
    return page


def _is_record_start(head: bytes) -> bool:
    return head.startswith(_WARC_MAGIC)


RECORD_FORMAT = records.RecordFormat(_is_record_start, _HEADER_PATTERN, _HEADER_MATCH_BYTES_MAX, read_record)


def _read_fields(stream: ByteStream, limits: ReadLimits, origin: Origin) -> _Fields | Rejected:
    """Read a header. Return a map from lower-case names to values, with the first value of a repeated name."""
    header = stream.read_header(limits.header_bytes_max)
    if not header.startswith(_WARC_MAGIC):
        if any(magic.startswith(header) for magic in _MAGICS):
            return records.reject_cut_off(stream, "the input ends within the header of a record", origin)
        return Rejected("garbage", f"not a WARC record: {header[:40]!r}", origin)
    if not header.endswith((b"\n\r\n", b"\n\n")):
        if stream.peek() < 0:
            return records.reject_cut_off(stream, "the input ends within the header of a record", origin)
        return Rejected("bad_header", f"the header is longer than header_bytes_max {limits.header_bytes_max}", origin)
    fields: _Fields = {}
    for line in _CONTINUATION.sub(b" ", header).split(b"\n")[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _field_string(fields: _Fields, name: bytes) -> str:
    return http_payload.decode_header_value(fields.get(name, b""))


def _parse_key(fields: _Fields, url: str, limits: ReadLimits, origin: Origin) -> bytes | Rejected:
    """Return the key of a record's URL, or a rejection if the record has no valid URL or is only a segment."""
    if not url:
        return Rejected("no_url", "the record has no WARC-Target-URI", origin)
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        return Rejected("bad_url", str(error), origin, url[: limits.url_bytes_max])
    if b"warc-segment-number" in fields:
        return Rejected("segmented", "records with a WARC-Segment-Number are not read", origin, url)
    return key


def _parse_time(fields: _Fields, response: http_payload.Response | None) -> int | None:
    """Return the first valid time among WARC-Date, the record's Date and the response's Date.

    Without a valid time, return 0 if WARC-Date is missing, or None if WARC-Date is malformed.
    """
    warc_date = _field_string(fields, b"warc-date")
    time = timestamps.parse_date(warc_date)
    if time is None:
        time = timestamps.parse_http_date(_field_string(fields, b"date"))
    if time is None and response is not None:
        time = timestamps.parse_http_date(response.fields.get("date"))
    return 0 if time is None and not warc_date else time


def _to_revisit(page: Page, fields: _Fields, limits: ReadLimits) -> Page:
    """Return the page of a revisit record, which repeats the content of an earlier capture.

    A revisit without WARC-Refers-To-Target-URI refers to its own URL. A "server not modified" revisit cannot refer to
    a different URL, and crawlers that wrote only a digest compared it with earlier captures of the same URL.
    """
    original_url = _field_string(fields, b"warc-refers-to-target-uri").strip("<> \t") or page.url
    original_time = timestamps.parse_date(_field_string(fields, b"warc-refers-to-date"))
    original_url = original_url[: limits.url_bytes_max]
    return msgspec.structs.replace(
        page, body=None, content_error=None, original_url=original_url, original_time=original_time
    )

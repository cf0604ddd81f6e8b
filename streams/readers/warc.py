"""WARC 0.17 to 1.1 and WET, plain or in gzip members or zstd frames (ISO 28500; the framing of IIPC's WARC 1.1).

Of a record's header only what a page needs is read. Requests, metadata and warcinfo are passed over, and so are
records of schemes that hold no page (`dns:`, `urn:`, ...). Why framing is read here: docs/decisions/warc-framing.md.
"""

from __future__ import annotations

import re

from streams import timestamps
from streams.errors import BadUrl
from streams.page import Origin, Page, Rejected
from streams.readers import http_payload, records
from streams.readers.read_limits import ReadLimits
from streams.readers.unpack import GZIP, ZSTD, Unpacked
from streams.urls import url_key

_KEPT = frozenset({b"response", b"resource", b"revisit", b"conversion"})
_HEADER = re.compile(rb"WARC/\d\.\d+[ \t]*\r?\n(?:WARC-|Content-)", re.IGNORECASE)
_STARTS = (b"WARC/", GZIP, ZSTD)  # of what may have been cut off within its first bytes
_FOLDED = re.compile(rb"\r?\n[ \t]+")

_Fields = dict[bytes, bytes]


def read_record(stream: Unpacked, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    """One record, from its first byte to the blank lines after it."""
    head = stream.read_head(limits.header_bytes_max)
    if not head.startswith(b"WARC/"):
        if any(start.startswith(head) for start in _STARTS):
            return records.incomplete(stream, len(b"WARC/"), len(head), origin, "")
        return Rejected("garbage", f"no WARC record, but {head[:40]!r}", origin)
    if not head.endswith((b"\n\r\n", b"\n\n")):
        if stream.first() < 0:
            return records.incomplete(stream, limits.header_bytes_max, len(head), origin, "")
        return Rejected("bad_header", f"longer than header_bytes_max {limits.header_bytes_max}", origin)
    fields = _fields(head)
    length = fields.get(b"content-length", b"")
    url = http_payload.decode_header(fields.get(b"warc-target-uri", b"")).strip("<> \t")
    if not length.isdigit() or len(length) > 18:
        return Rejected("bad_header", f"Content-Length is {length[:40]!r}", origin, url[: limits.url_bytes_max])
    size = int(length)
    kind = fields.get(b"warc-type", b"").lower()
    if kind not in _KEPT or (url and not url[:6].lower().startswith(("http:", "https:"))):
        return records.skip_block(stream, size, _is_record_start, origin, url)
    key = _key(fields, url, limits, origin)
    if isinstance(key, Rejected):
        return records.skip_block(stream, size, _is_record_start, origin, key.url) or key
    block = records.read_block(stream, size, _is_record_start, limits, origin, url)
    if isinstance(block, Rejected):
        return block
    return _page(kind, fields, url, key, block, limits, origin)


def _is_record_start(head: bytes) -> bool:
    return head.startswith(b"WARC/")


FRAMING = records.Framing(_is_record_start, _HEADER, 64, read_record)


def _fields(head: bytes) -> _Fields:
    """Lower-case name -> value; of a repeated field the first, continued lines joined."""
    fields: _Fields = {}
    for line in _FOLDED.sub(b" ", head).split(b"\n")[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _key(fields: _Fields, url: str, limits: ReadLimits, origin: Origin) -> bytes | Rejected:
    """Return the key of a record's URL, or the rejection of a record that its header alone rules out."""
    if not url:
        return Rejected("no_url", "no WARC-Target-URI", origin)
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        return Rejected("bad_url", str(error), origin, url[: limits.url_bytes_max])
    if b"warc-segment-number" in fields:
        return Rejected("segmented", "WARC-Segment-Number: only whole records are read", origin, url)
    return key


def _page(
    kind: bytes, fields: _Fields, url: str, key: bytes, block: http_payload.Block, limits: ReadLimits, origin: Origin
) -> Page | Rejected:
    response = http_payload.parse_response(block, limits) if kind in {b"response", b"revisit"} else None
    time = _time(fields, response)
    if time is None:
        shown = http_payload.decode_header(fields.get(b"warc-date", b""))[:80]
        return Rejected("bad_time", f"WARC-Date is {shown!r}", origin, url)
    if kind == b"revisit":
        return _revisit(fields, url, key, response, time, limits, origin)
    if response is not None:
        return http_payload.page_from_response(response, url, key, time, limits, origin)
    bare = http_payload.page_without_http(
        url, key, time, block, http_payload.decode_header(fields.get(b"content-type", b"")), limits, origin
    )
    if kind == b"conversion" and bare.body is not None:
        return Page(
            url=url, key=key, time=time, text=bare.body.decode(errors="replace"), mime="text/plain", origin=origin
        )
    return bare


def _time(fields: _Fields, response: http_payload.Response | None) -> int | None:
    """WARC-Date; where that is none, the Date that the server gave, of either header. 0: nothing is said."""
    declared = http_payload.decode_header(fields.get(b"warc-date", b""))
    time = timestamps.millis(declared)
    if time is None:
        time = timestamps.http_millis(http_payload.decode_header(fields.get(b"date", b"")))
    if time is None and response is not None:
        time = timestamps.http_millis(response.fields.get("date"))
    return 0 if time is None and not declared else time


def _revisit(
    fields: _Fields,
    url: str,
    key: bytes,
    response: http_payload.Response | None,
    time: int,
    limits: ReadLimits,
    origin: Origin,
) -> Page:
    """What was fetched again, unchanged.

    One that names no URL repeats an earlier capture of its own: "server not modified" can mean nothing else, and the
    crawlers that gave only a digest looked for it in the history of the URL.
    """
    refers_to = http_payload.decode_header(fields.get(b"warc-refers-to-target-uri", b"")).strip("<> \t") or url
    target = http_payload.redirect_of_response(response, url, limits) if response else None
    mime, charset = http_payload.parse_content_type(response.fields.get("content-type", "")) if response else ("", "")
    return Page(
        url=url,
        key=key,
        time=time,
        status=response.status if response else 200,
        mime=mime,
        charset=charset,
        redirect=target,
        revisit_of=refers_to[: limits.url_bytes_max],
        revisit_time=timestamps.millis(http_payload.decode_header(fields.get(b"warc-refers-to-date", b""))),
        origin=origin,
    )

"""Parse the HTTP responses in crawl files: the status, the few headers that matter, and the decoded body."""

from __future__ import annotations

import io
import re
import zlib
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import urljoin

import msgspec
import zstandard

from streams.errors import BadUrl
from streams.page import SUCCESS_STATUSES, Origin, Page
from streams.readers.compression import GZIP, GZIP_WBITS, ZSTD
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused, page_too_big
from streams.urls import url_key

_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?!\d)")
_INTERIM = frozenset({b"100", b"102", b"103"})  # responses that precede the final one
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_FIELD = re.compile(
    rb"^(content-type|content-encoding|transfer-encoding|location|date)[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_CHUNK_HEADER = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_CONTENT_TYPE_CHARS_MAX = 256
_CHARSET_CHARS_MAX = 40
_INFLATE_BYTES = 16 << 10  # input per call of zlib, which copies the bytes after a member's end; members may be tiny
_READ_BYTES = 1 << 20
_CODINGS_MAX = 3  # content encodings on top of one another; browsers and servers use one
_NO_CODINGS = frozenset({"", "identity", "none", "utf-8", "chunked", "binary"})


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP response; `fields` maps lower-case names to values, for a repeated field to the first one."""

    status: int
    fields: dict[str, str]
    body: bytes
    size: int  # bytes of the whole record
    complete: bool  # false if the body was cut because the record is too big


class Block(NamedTuple):
    """The content of a record of `size` bytes; only its first bytes if the record is too big for a page."""

    data: bytes
    size: int


def parse_response(block: Block, limits: ReadLimits) -> Response | None:
    """Parse an HTTP response, skipping interim ones; return None if the block does not start with a status line."""
    data, bytes_max = block.data, limits.header_bytes_max
    status = _STATUS_LINE.match(data)
    if status is None:
        return None
    end = _BLANK_LINE.search(data, 0, bytes_max)
    while end and status[1] in _INTERIM and (final := _STATUS_LINE.match(data, end.end())):
        status, end = final, _BLANK_LINE.search(data, final.start(), final.start() + bytes_max)
    header = data[status.start() : end.start() if end else status.start() + bytes_max]
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(header):
        fields.setdefault(name.decode("ascii").lower(), decode_header(value).strip())
    return Response(
        status=int(status[1]),
        fields=fields,
        body=data[end.end() :] if end else b"",
        size=block.size,
        complete=block.size == len(data),
    )


def decode_header(value: bytes) -> str:
    """Decode a header's value as browsers do: as UTF-8 if it is valid, else as Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def parse_content_type(value: str) -> tuple[str, str]:
    """Split `Text/HTML; charset="UTF-8"` into ("text/html", "utf-8"); a missing part is an empty string."""
    value = value[:_CONTENT_TYPE_CHARS_MAX]
    mime = _MIME.match(value.strip().lower())
    charset = _CHARSET.search(value)
    return mime[0] if mime else "", charset[1].lower()[:_CHARSET_CHARS_MAX] if charset else ""


def resolve_redirect(url: str, location: str, limits: ReadLimits) -> str | None:
    """Return the absolute target of a redirect; None if it is not an http or https URL."""
    try:
        target = urljoin(url, location.strip())
        url_key(target, limits.url_bytes_max)
    except (BadUrl, ValueError):
        return None
    return target


def redirect_of_response(response: Response, url: str, limits: ReadLimits) -> str | None:
    """Return where a response redirects to; None if it does not, or not to an http or https URL."""
    location = response.fields.get("location", "")
    if not location or response.status // 100 != 3:
        return None
    return resolve_redirect(url, location, limits)


def page_from_response(
    response: Response, url: str, key: bytes, time: int, limits: ReadLimits, origin: Origin
) -> Page:
    """Return the page of a response. Only 2xx bodies are kept: servers write the others, not authors."""
    mime, charset = parse_content_type(response.fields.get("content-type", ""))
    body, refused = None, None
    if response.status in SUCCESS_STATUSES:
        try:
            body = decode_body(response, limits)
        except Refused as error:
            refused = error.reason, error.detail
    return Page(
        url=url,
        key=key,
        time=time,
        status=response.status,
        body=body,
        mime=mime,
        charset=charset,
        redirect=redirect_of_response(response, url, limits),
        refused=refused,
        origin=origin,
    )


def page_without_http(
    url: str, key: bytes, time: int, block: Block, content_type: str, limits: ReadLimits, origin: Origin
) -> Page:
    """Return the page of a record without HTTP headers; `content_type` is the record's own."""
    mime, charset = parse_content_type(content_type)
    if mime == "application/http":  # the record claims HTTP headers that are missing
        mime, charset = "", ""
    if block.size > limits.page_bytes_max:
        refused = page_too_big(block.size, limits)
        return Page(url=url, key=key, time=time, mime=mime, refused=(refused.reason, refused.detail), origin=origin)
    return Page(url=url, key=key, time=time, body=block.data, mime=mime, charset=charset, origin=origin)


def decode_body(response: Response, limits: ReadLimits) -> bytes:
    """Undo the transfer and content encodings of a body. Raises Refused (`too_big`, `bad_encoding`).

    Many crawlers store decoded bodies under headers that still name the encoding, so a body that is clearly not
    encoded that way is returned as it is. A body that is cut off is decoded as far as it goes.
    """
    if not response.complete:
        raise page_too_big(response.size, limits)
    body = response.body
    if "chunked" in response.fields.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    words = [word.strip().lower() for word in response.fields.get("content-encoding", "").split(",")]
    codings = [word for word in words if word not in _NO_CODINGS]
    if len(codings) > _CODINGS_MAX:
        raise Refused("bad_encoding", f"{len(codings)} content encodings, at most {_CODINGS_MAX} are decoded")
    for coding in reversed(codings):
        if body:
            body = _undo_coding(body, coding, limits)
    if len(body) > limits.page_bytes_max:
        raise page_too_big(len(body), limits)
    return body


def _join_chunks(body: bytes) -> bytes:
    """Undo the transfer encoding `chunked`.

    A body without chunks is returned as it is. After a broken chunk the rest is kept as it is.
    """
    parts: list[bytes] = []
    start = 0
    while start < len(body):
        header = _CHUNK_HEADER.match(body, start)
        if header is None:
            break
        end = header.end() + int(header[1], 16)
        if not parts and end > len(body) and not header[0].endswith(b"\r\n"):
            return body  # the first line of the page happens to be hexadecimal
        if end == header.end():
            return b"".join(parts)  # the last chunk; trailers follow
        if end < len(body) and body[end : end + 1] not in {b"\r", b"\n"}:
            break
        parts.append(body[header.end() : end])
        start = end + (2 if body[end : end + 2] == b"\r\n" else 1)
    return b"".join([*parts, body[start:]]) if parts else body


def _undo_coding(body: bytes, coding: str, limits: ReadLimits) -> bytes:
    if coding in {"gzip", "x-gzip"}:
        return _inflate(body, GZIP_WBITS, limits) if body.startswith(GZIP) else body
    if coding == "deflate":  # zlib according to the standard, but often raw deflate
        is_zlib = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        return _inflate(body, 15 if is_zlib else -15, limits)
    if coding == "br":
        from fastwarc.stream_io import BrotliReader

        return _read_decoded(cast("BinaryIO", BrotliReader(io.BytesIO(body))), body, limits)
    if coding == "zstd":
        if not body.startswith(ZSTD):
            return body
        codec = zstandard.ZstdDecompressor(max_window_size=limits.window_bytes_max)
        return _read_decoded(cast("BinaryIO", codec.stream_reader(body, read_across_frames=True)), body, limits)
    raise Refused("bad_encoding", f"unknown content encoding {coding[:40]!r}")


def _inflate(body: bytes, wbits: int, limits: ReadLimits) -> bytes:
    """Decompress zlib, raw deflate, or all members of gzip."""
    codec = zlib.decompressobj(wbits)
    parts: list[bytes] = []
    remaining = limits.page_bytes_max + 1
    start = 0
    try:
        while start < len(body) and remaining > 0:
            if codec.eof:
                if wbits != GZIP_WBITS or not body.startswith(GZIP, start):
                    break
                codec = zlib.decompressobj(wbits)
            compressed = body[start : start + _INFLATE_BYTES]
            part = codec.decompress(compressed, min(remaining, _READ_BYTES))
            start += len(compressed) - len(codec.unused_data if codec.eof else codec.unconsumed_tail)
            remaining -= len(part)
            parts.append(part)
    except zlib.error as error:
        return _salvage(parts, body, error)
    return _join_bounded(parts, limits)


def _read_decoded(reader: BinaryIO, body: bytes, limits: ReadLimits) -> bytes:
    parts: list[bytes] = []
    remaining = limits.page_bytes_max + 1
    try:
        while remaining > 0 and (part := reader.read(min(remaining, _READ_BYTES))):
            remaining -= len(part)
            parts.append(part)
    except (OSError, zstandard.ZstdError, ValueError) as error:
        return _salvage(parts, body, error)
    return _join_bounded(parts, limits)


def _join_bounded(parts: list[bytes], limits: ReadLimits) -> bytes:
    body = b"".join(parts)
    if len(body) > limits.page_bytes_max:
        raise Refused("too_big", f"decompresses to more than page_bytes_max {limits.page_bytes_max}")
    return body


def _salvage(parts: list[bytes], body: bytes, error: Exception) -> bytes:
    """Return what was decoded before an error, or the body itself if it is markup; else raise Refused."""
    if any(parts):
        return b"".join(parts)
    if body.lstrip()[:1] == b"<":
        return body
    raise Refused("bad_encoding", f"cannot be decoded: {error}")

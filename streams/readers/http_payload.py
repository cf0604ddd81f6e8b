"""Parse the HTTP responses in crawl files: the status, the headers that a page needs, and the decoded body."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast
from urllib.parse import urljoin

import msgspec
import zstandard

from streams.errors import BadUrl
from streams.page import SUCCESS_STATUSES, Origin, Page
from streams.readers.compression import GZIP_MAGIC, GZIP_WBITS, ZSTD_MAGIC
from streams.readers.read_limits import ContentError, ReadLimits, too_big_detail
from streams.urls import url_key

# Like warcio, accept a status line without a reason. A line without a status is that of a successful response.
_STATUS_LINE = re.compile(
    rb"HTTP/\d(?:\.\d)?(?:[ \t]+(\d{3})(?!\d)|(?=[ \t]*(?:[ \t][a-z][^\r\n]*)?\r?\n))", re.IGNORECASE
)
_INTERIM_STATUSES = frozenset({b"100", b"102", b"103"})  # of responses sent before the final response
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_FIELD_PATTERN = re.compile(
    rb"^(content-type|content-encoding|transfer-encoding|location|date)[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_CHUNK_HEADER = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_CONTENT_TYPE_CHARS_MAX = 256
_CHARSET_CHARS_MAX = 40
_INFLATE_INPUT_BYTES = 16 << 10  # per zlib call; small, because zlib copies the input after the end of a gzip member
_OUTPUT_BYTES_MAX = 1 << 20  # output per call of any decompressor
_ENCODINGS_MAX = 3  # content encodings of one body; servers normally apply one
_IGNORED_ENCODINGS = frozenset({"", "identity", "none", "utf-8", "chunked", "binary"})  # values that need no decoding


class Response(msgspec.Struct, frozen=True):
    """An HTTP response. `fields` maps lower-case names to values; if a name is repeated, its first value is used."""

    status: int
    fields: dict[str, str]
    body: bytes
    full_size: int = 0  # size of the record's content if that is too big and `body` is incomplete, else 0
    header_is_cut_off: bool = False  # the header is longer than `header_bytes_max`, so `body` is empty


def parse_response(data: bytes, size: int, limits: ReadLimits) -> Response | None:
    """Parse the HTTP response in a record's content, after any interim responses. Return None if there is none.

    `data` is the content, or only its start if the content is too big for a page. `size` is the full size.
    """
    header_bytes_max = limits.header_bytes_max
    status_line = _STATUS_LINE.match(data)
    if status_line is None:
        return None
    blank_line = _BLANK_LINE.search(data, 0, header_bytes_max)
    while blank_line and status_line[1] in _INTERIM_STATUSES and (line := _STATUS_LINE.match(data, blank_line.end())):
        status_line, blank_line = line, _BLANK_LINE.search(data, line.start(), line.start() + header_bytes_max)
    header_end = blank_line.start() if blank_line else status_line.start() + header_bytes_max
    header = data[status_line.start() : header_end]
    fields: dict[str, str] = {}
    for name, value in _FIELD_PATTERN.findall(header):
        fields.setdefault(name.decode("ascii").lower(), decode_header_value(value).strip())
    body = data[blank_line.end() :] if blank_line else b""
    is_cut_off = blank_line is None and len(data) > header_end
    return Response(int(status_line[1] or 200), fields, body, size if size > len(data) else 0, is_cut_off)


def decode_header_value(value: bytes) -> str:
    """Decode a header's value as browsers do: as UTF-8 if it is valid, else as Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def parse_content_type(value: str) -> tuple[str, str]:
    """Split `Text/HTML; charset="UTF-8"` into ("text/html", "utf-8"). A missing part becomes an empty string."""
    value = value[:_CONTENT_TYPE_CHARS_MAX]
    mime = _MIME.match(value.strip().lower())
    charset = _CHARSET.search(value)
    return mime[0] if mime else "", charset[1].lower()[:_CHARSET_CHARS_MAX] if charset else ""


def resolve_redirect(url: str, location: str, limits: ReadLimits) -> str | None:
    """Return the absolute target of a redirect, or None if the target is not a valid http or https URL."""
    try:
        target = urljoin(url, location.strip())
        url_key(target, limits.url_bytes_max)
    except (BadUrl, ValueError):
        return None
    return target


def page_from_response(
    response: Response, url: str, key: bytes, time: int, limits: ReadLimits, origin: Origin
) -> Page:
    """Return the page of a response. Decode the body only if the status is 2xx: other bodies are server messages."""
    mime, charset = parse_content_type(response.fields.get("content-type", ""))
    location = response.fields.get("location") if response.status // 100 == 3 else None
    body, content_error = None, None
    if response.status in SUCCESS_STATUSES:
        try:
            body = decode_body(response, limits)
        except ContentError as error:
            content_error = error.reason, error.detail
    return Page(
        url=url,
        key=key,
        time=time,
        status=response.status,
        body=body,
        mime=mime,
        charset=charset,
        redirect=resolve_redirect(url, location, limits) if location else None,
        content_error=content_error,
        origin=origin,
    )


def page_without_http(
    url: str, key: bytes, time: int, data: bytes, size: int, content_type: str, limits: ReadLimits, origin: Origin
) -> Page:
    """Return the page of a record without HTTP headers. `content_type` is from the header of the record."""
    mime, charset = parse_content_type(content_type)
    if mime == "application/http":  # claims HTTP headers that are missing, so the real type is unknown
        mime, charset = "", ""
    if size > limits.page_bytes_max:
        content_error = "too_big", too_big_detail(size, limits)
        return Page(url=url, key=key, time=time, mime=mime, content_error=content_error, origin=origin)
    return Page(url=url, key=key, time=time, body=data, mime=mime, charset=charset, origin=origin)


def decode_body(response: Response, limits: ReadLimits) -> bytes:
    """Undo the transfer and content encodings of a body. Raise ContentError with the reason of a rejection.

    Many crawlers store decoded bodies with headers that still name the encoding. A body that clearly does not have
    this encoding is therefore returned unchanged. A truncated body is decoded as far as possible.
    """
    if response.header_is_cut_off:
        raise ContentError("bad_header", f"the HTTP header is longer than header_bytes_max {limits.header_bytes_max}")
    if response.full_size:
        raise ContentError("too_big", too_big_detail(response.full_size, limits))
    body = response.body
    if "chunked" in response.fields.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    names = [name.strip().lower() for name in response.fields.get("content-encoding", "").split(",")]
    encodings = [name for name in names if name not in _IGNORED_ENCODINGS]
    if len(encodings) > _ENCODINGS_MAX:
        detail = f"the body has {len(encodings)} content encodings, more than {_ENCODINGS_MAX}"
        raise ContentError("bad_encoding", detail)
    for encoding in reversed(encodings):
        if body:
            body = _decode_encoding(body, encoding, limits)
    if len(body) > limits.page_bytes_max:
        raise ContentError("too_big", too_big_detail(len(body), limits))
    return body


def _join_chunks(body: bytes) -> bytes:
    """Undo the transfer encoding `chunked`. Do not change a body without chunks or the bytes after a broken chunk."""
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
            return b"".join(parts)  # the last chunk; only trailers follow
        if end < len(body) and body[end : end + 1] not in {b"\r", b"\n"}:
            break
        parts.append(body[header.end() : end])
        start = end + (2 if body[end : end + 2] == b"\r\n" else 1)
    return b"".join([*parts, body[start:]]) if parts else body


def _decode_encoding(body: bytes, encoding: str, limits: ReadLimits) -> bytes:
    """Undo one content encoding. Return plain markup unchanged, and only the part of a body before any damage."""
    bytes_max = limits.page_bytes_max + 1  # one byte more than a page shows that the body is too big
    if encoding in {"gzip", "x-gzip"}:
        if not body.startswith(GZIP_MAGIC):
            return body
        parts = _inflate(body, GZIP_WBITS, bytes_max)
    elif encoding == "deflate":  # should be zlib, but is often raw deflate
        # A zlib stream starts with these two bytes (RFC 1950, section 2.2).
        is_zlib = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        parts = _inflate(body, 15 if is_zlib else -15, bytes_max)
    elif encoding == "br":
        from fastwarc.stream_io import BrotliReader

        parts = _read_parts(cast("BinaryIO", BrotliReader(io.BytesIO(body))), bytes_max)
    elif encoding == "zstd":
        if not body.startswith(ZSTD_MAGIC):
            return body
        codec = zstandard.ZstdDecompressor(max_window_size=limits.window_bytes_max)
        parts = _read_parts(cast("BinaryIO", codec.stream_reader(body, read_across_frames=True)), bytes_max)
    else:
        raise ContentError("bad_encoding", f"unknown content encoding {encoding[:40]!r}")
    decoded: list[bytes] = []
    try:
        decoded.extend(parts)
    except (OSError, ValueError, zlib.error, zstandard.ZstdError) as error:
        if not any(decoded) and not body.lstrip().startswith(b"<"):
            raise ContentError("bad_encoding", f"cannot decode the content encoding {encoding}: {error}") from None
        return b"".join(decoded) or body
    body = b"".join(decoded)
    if len(body) > limits.page_bytes_max:
        raise ContentError("too_big", f"decompresses to more than page_bytes_max {limits.page_bytes_max} bytes")
    return body


def _inflate(body: bytes, wbits: int, bytes_max: int) -> Iterator[bytes]:
    """Decompress zlib, raw deflate or a sequence of gzip members. Yield at most `bytes_max` bytes in total."""
    codec = zlib.decompressobj(wbits)
    start = 0
    while start < len(body) and bytes_max > 0:
        if codec.eof:
            if wbits != GZIP_WBITS or not body.startswith(GZIP_MAGIC, start):
                break
            codec = zlib.decompressobj(wbits)
        compressed = body[start : start + _INFLATE_INPUT_BYTES]
        part = codec.decompress(compressed, min(bytes_max, _OUTPUT_BYTES_MAX))
        start += len(compressed) - len(codec.unused_data if codec.eof else codec.unconsumed_tail)
        bytes_max -= len(part)
        yield part


def _read_parts(reader: BinaryIO, bytes_max: int) -> Iterator[bytes]:
    while bytes_max > 0 and (part := reader.read(min(bytes_max, _OUTPUT_BYTES_MAX))):
        bytes_max -= len(part)
        yield part

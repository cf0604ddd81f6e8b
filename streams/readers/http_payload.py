"""An HTTP response as crawlers keep it: status, the few headers that matter, and the body decoded within bounds."""

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
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused, page_too_big
from streams.urls import url_key

_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?!\d)")
_INTERIM = frozenset({b"100", b"102", b"103"})  # responses in front of the one that was waited for
_END = re.compile(rb"\r?\n\r?\n")
_FIELD = re.compile(
    rb"^(content-type|content-encoding|transfer-encoding|location|date)[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_TYPE_CHARS_MAX = 256  # of a Content-Type
_GZIP, _GZIP_BITS = b"\x1f\x8b", 31
_INFLATE_BYTES = 16 << 10  # taken at a time: what is behind a member's end is copied, and members may be tiny
_CODINGS_MAX = 3  # codings laid over one another; browsers and servers use one


class Response(msgspec.Struct, frozen=True):
    """`fields` maps lower-case names to values; of a repeated field the first counts."""

    status: int
    fields: dict[str, str]
    body: bytes
    size: int  # bytes, of the record
    whole: bool  # the body is all there: a record that is too big is cut


class Block(NamedTuple):
    """The content of a record of `size` bytes: all of it, or the first ones of what is too big to be a page."""

    data: bytes
    size: int


def parse_response(content: Block, limits: ReadLimits) -> Response | None:
    """An HTTP response; None where the block does not begin like one. Interim ones in front of it are passed over."""
    block = content.data
    status = _STATUS.match(block)
    if status is None:
        return None
    end = _END.search(block, 0, limits.header_bytes_max)
    while end and status[1] in _INTERIM and (final := _STATUS.match(block, end.end())):
        status, end = final, _END.search(block, final.start(), final.start() + limits.header_bytes_max)
    head = block[status.start() : end.start() if end else status.start() + limits.header_bytes_max]
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(head):
        fields.setdefault(name.decode("ascii").lower(), decode_header(value).strip())
    body = block[end.end() :] if end else b""
    return Response(int(status[1]), fields, body, content.size, content.size == len(block))


def decode_header(value: bytes) -> str:
    """A header's value: UTF-8 where it is, as browsers do, else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def parse_content_type(value: str) -> tuple[str, str]:
    """`Text/HTML; charset="UTF-8"` -> ("text/html", "utf-8"); empty where not said."""
    value = value[:_TYPE_CHARS_MAX]
    mime = _MIME.match(value.strip().lower())
    charset = _CHARSET.search(value)
    return mime[0] if mime else "", charset[1].lower()[:40] if charset else ""


def resolve_redirect(url: str, location: str, limits: ReadLimits) -> str | None:
    """The absolute target of a redirect; None where it is no page."""
    try:
        target = urljoin(url, location.strip())
        url_key(target, limits.url_bytes_max)
    except (BadUrl, ValueError):
        return None
    return target


def decode_body(response: Response, limits: ReadLimits) -> bytes:
    """The body without transfer and content encoding; raises Refused (`too_big`, `bad_encoding`).

    Many crawlers keep a body decoded under headers that still name its encoding: a body that is plainly not encoded
    as they say is taken as it is. A body cut off in the middle gives what came before.
    """
    if not response.whole:
        raise page_too_big(response.size, limits)
    body = response.body
    if "chunked" in response.fields.get("transfer-encoding", "").lower():
        body = _dechunked(body)
    codings = [word.strip().lower() for word in response.fields.get("content-encoding", "").split(",")]
    codings = [word for word in codings if word and word not in {"identity", "none", "utf-8", "chunked", "binary"}]
    if len(codings) > _CODINGS_MAX:
        raise Refused("bad_encoding", f"{len(codings)} content encodings over one another")
    for coding in reversed(codings):
        if body:
            body = _unwrapped(body, coding, limits)
    if len(body) > limits.page_bytes_max:
        raise page_too_big(len(body), limits)
    return body


def _dechunked(body: bytes) -> bytes:
    """Without its chunks; a body that has none is returned as it is, a broken one with its rest as it is."""
    parts: list[bytes] = []
    at = 0
    while at < len(body):
        size = _CHUNK.match(body, at)
        if size is None:
            break
        end = size.end() + int(size[1], 16)
        if not parts and end > len(body) and not size[0].endswith(b"\r\n"):
            return body  # a line that happens to be hexadecimal
        if end == size.end():
            return b"".join(parts)  # the last chunk; trailers follow
        if end < len(body) and body[end : end + 1] not in {b"\r", b"\n"}:
            break
        parts.append(body[size.end() : end])
        at = end + (2 if body[end : end + 2] == b"\r\n" else 1)
    return b"".join([*parts, body[at:]]) if parts else body


def _unwrapped(body: bytes, coding: str, limits: ReadLimits) -> bytes:
    if coding in {"gzip", "x-gzip"}:
        return _inflated(body, _GZIP_BITS, limits) if body.startswith(_GZIP) else body
    if coding == "deflate":  # zlib by the standard, bare deflate by habit
        zlib_wrapped = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        return _inflated(body, 15 if zlib_wrapped else -15, limits)
    if coding == "br":
        from fastwarc.stream_io import BrotliReader

        return _streamed(cast("BinaryIO", BrotliReader(io.BytesIO(body))), body, limits)
    if coding == "zstd":
        codec = zstandard.ZstdDecompressor(max_window_size=limits.window_bytes_max)
        if not body.startswith(b"\x28\xb5\x2f\xfd"):
            return body
        return _streamed(cast("BinaryIO", codec.stream_reader(body, read_across_frames=True)), body, limits)
    raise Refused("bad_encoding", f"content encoding {coding[:40]!r} is not known")


def _inflated(body: bytes, bits: int, limits: ReadLimits) -> bytes:
    """By zlib, all members. Left as it is when the very start does not decode and it looks like markup."""
    codec = zlib.decompressobj(bits)
    parts: list[bytes] = []
    room = limits.page_bytes_max + 1
    at = 0
    try:
        while at < len(body) and room > 0:
            if codec.eof:
                if bits != _GZIP_BITS or not body.startswith(_GZIP, at):
                    break
                codec = zlib.decompressobj(bits)
            packed = body[at : at + _INFLATE_BYTES]
            part = codec.decompress(packed, min(room, 1 << 20))
            at += len(packed) - len(codec.unused_data if codec.eof else codec.unconsumed_tail)
            room -= len(part)
            parts.append(part)
    except zlib.error as error:
        return _kept(parts, body, error)
    if room <= 0:
        raise Refused("too_big", f"unpacks to more than page_bytes_max {limits.page_bytes_max}")
    return b"".join(parts)


def _streamed(reader: BinaryIO, body: bytes, limits: ReadLimits) -> bytes:
    parts: list[bytes] = []
    room = limits.page_bytes_max + 1
    try:
        while room > 0 and (part := reader.read(min(room, 1 << 20))):
            room -= len(part)
            parts.append(part)
    except (OSError, zstandard.ZstdError, ValueError) as error:
        return _kept(parts, body, error)
    if room <= 0:
        raise Refused("too_big", f"unpacks to more than page_bytes_max {limits.page_bytes_max}")
    return b"".join(parts)


def _kept(parts: list[bytes], body: bytes, error: Exception) -> bytes:
    if any(parts):
        return b"".join(parts)
    if body.lstrip()[:1] == b"<":
        return body
    raise Refused("bad_encoding", f"does not decode: {error}")


def redirect_of_response(response: Response, url: str, limits: ReadLimits) -> str | None:
    """Where a response redirects to; None for one that does not, or to no page."""
    location = response.fields.get("location", "")
    if not location or response.status // 100 != 3:
        return None
    return resolve_redirect(url, location, limits)


def page_from_response(
    response: Response, url: str, key: bytes, time: int, limits: ReadLimits, origin: Origin
) -> Page:
    """The page of a response. The body of a redirect or an error is not kept: servers write it, not authors."""
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
    url: str, key: bytes, time: int, content: Block, declared: str, limits: ReadLimits, origin: Origin
) -> Page:
    """The page of a record without HTTP headers, of the media type that the record declares."""
    mime, charset = parse_content_type(declared)
    if mime == "application/http":  # what it says it is, it is not
        mime, charset = "", ""
    if content.size > limits.page_bytes_max:
        refused = page_too_big(content.size, limits)
        return Page(url=url, key=key, time=time, mime=mime, refused=(refused.reason, refused.detail), origin=origin)
    return Page(url=url, key=key, time=time, body=content.data, mime=mime, charset=charset, origin=origin)

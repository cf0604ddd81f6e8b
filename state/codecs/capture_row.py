"""A capture's row in `captures`.

    key    url key │ 00 │ sweep 4 │ time 8 (ms) │ tie 2
    value  version 1 │ flags 1 │ status 2 │ extractor 1 │ [document 16] │ [raw 8] │ [redirect 2+n] │ [url 2+n]

    flags  1 https   2 document   4 raw fingerprint   8 redirect   16 url, set only if the key does not decode to it

A URL key contains no NUL, so the captures of a URL are one range of keys, in order of sweep and time. The tie
distinguishes captures of the same instant. Most often, these are an http URL and its redirect to https: both have the
same key and, because crawlers write whole seconds, the same time. Successful responses sort after others.
"""

from __future__ import annotations

import struct

import mmh3

from state.codecs import url_key
from state.errors import StateCorrupt
from state.model import ID_BYTES, Capture

VERSION = 1
RAW_BYTES = 8
HTTPS, DOCUMENT, RAW, REDIRECT, URL = 1, 2, 4, 8, 16
_HEAD = struct.Struct(">BBHB")
_KEY_TAIL = struct.Struct(">IQH")
_SUCCESS_BIT = 0x8000  # the highest bit of a tie
_TEXT_BYTES_MAX = 0xFFFF
TIE_MAX = 0xFFFF


def history_prefix(key: bytes) -> bytes:
    """Return the key prefix of all captures of a URL."""
    return key + b"\0"


def tie_of(capture: Capture) -> int:
    """Return the tie of a capture: a hash of the response as the crawler reported it, never 0."""
    response = f"{capture.status} {capture.url}\n{capture.redirect or ''}\n".encode("utf-8", "surrogatepass")
    successful = _SUCCESS_BIT if 200 <= capture.status < 300 else 0
    return successful | (mmh3.hash(response + capture.raw, signed=False) % (_SUCCESS_BIT - 1) + 1)


def encode_key(key: bytes, sweep: int, time: int, tie: int) -> bytes:
    assert b"\0" not in key, "a NUL ends the url key"
    return key + b"\0" + _KEY_TAIL.pack(sweep, time, tie)


def key_of(capture: Capture) -> bytes:
    return encode_key(capture.key, capture.sweep, capture.time, capture.tie)


def url_key_of(row: bytes) -> bytes:
    """Return the URL key of a row key that is known to be valid."""
    return row[: -_KEY_TAIL.size - 1]


def decode_key(row: bytes) -> tuple[bytes, int, int, int]:
    """Split a row key into URL key, sweep, time (ms) and tie. Raise StateCorrupt if it is invalid."""
    tail = len(row) - _KEY_TAIL.size
    if tail < 2 or row.find(b"\0") != tail - 1:
        raise StateCorrupt(f"not a capture key: {row[:80]!r}")
    return (row[: tail - 1], *_KEY_TAIL.unpack_from(row, tail))


def encode(capture: Capture) -> bytes:
    """Encode the fields of a capture that its row key lacks."""
    assert capture.document is None or len(capture.document) == ID_BYTES
    assert len(capture.raw) in (0, RAW_BYTES)
    https = capture.url.startswith("https:")
    flags = HTTPS if https else 0
    fields = []
    if capture.document is not None:
        flags |= DOCUMENT
        fields.append(capture.document)
    if capture.raw:
        flags |= RAW
        fields.append(capture.raw)
    if capture.redirect is not None:
        flags |= REDIRECT
        fields.append(_encode_text(capture.redirect))
    if url_key.url_of(capture.key, https=https) != capture.url:
        flags |= URL
        fields.append(_encode_text(capture.url))
    return _HEAD.pack(VERSION, flags, capture.status, capture.extractor) + b"".join(fields)


def decode(row: bytes, value: bytes) -> Capture:
    """Decode a capture from its row key and value. Raise StateCorrupt if either is invalid."""
    key, sweep, time, tie = decode_key(row)
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(f"not a capture of version {VERSION}: cut short, or written by a newer lostfound")
    _, flags, status, extractor = _HEAD.unpack_from(value)
    offset = _HEAD.size
    document, raw, redirect = None, b"", None
    if flags & DOCUMENT:
        document, offset = value[offset : offset + ID_BYTES], offset + ID_BYTES
    if flags & RAW:
        raw, offset = value[offset : offset + RAW_BYTES], offset + RAW_BYTES
    if flags & REDIRECT:
        redirect, offset = _decode_text(value, offset)
    if flags & URL:
        url, offset = _decode_text(value, offset)
    else:
        url = url_key.url_of(key, https=bool(flags & HTTPS))
    if offset != len(value):
        raise StateCorrupt(f"a capture of {len(value)} bytes should have {offset}: cut short, or another format")
    return Capture(
        key=key,
        url=url,
        sweep=sweep,
        time=time,
        status=status,
        document=document,
        raw=raw,
        redirect=redirect,
        extractor=extractor,
        tie=tie,
    )


def _encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    assert len(data) <= _TEXT_BYTES_MAX, "the length of a redirect or URL must fit in two bytes"
    return len(data).to_bytes(2, "big") + data


def _decode_text(value: bytes, offset: int) -> tuple[str, int]:
    end = offset + 2 + int.from_bytes(value[offset : offset + 2], "big")
    try:
        return value[offset + 2 : end].decode("utf-8", "surrogatepass"), end
    except UnicodeDecodeError as error:
        raise StateCorrupt(f"a capture has a redirect or URL that is not UTF-8: {error}") from error

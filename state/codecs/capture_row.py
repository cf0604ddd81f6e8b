"""A capture's row in `captures`.

    key    url key │ 00 │ sweep 4 │ time 8 (ms) │ tie 2
    value  version 1 │ flags 1 │ status 2 │ extractor 1 │ [document 16] │ [raw 8] │ [redirect 2+n] │ [url 2+n]

    flags  1 https   2 document   4 raw fingerprint   8 redirect   16 url, where the key does not give it back

A url key is the URL in SURT order without its scheme: `org,example,www:8080)/path?query`. It holds no NUL, so that
the captures of one URL are one range, in order of sweep and time. The tie tells apart what came back within one
instant, most often http and its redirect to https, which share a key and a crawler's second; what was found sorts
after what was not.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import mmh3

from state.errors import StateCorrupt
from state.model import Capture

VERSION = 1
HTTPS, DOCUMENT, RAW, REDIRECT, URL = 1, 2, 4, 8, 16
_HEAD = struct.Struct(">BBHB")
_TAIL = struct.Struct(">IQH")
_FOUND = 0x8000  # of a tie
TIE_MAX = 0xFFFF


def history(key: bytes) -> bytes:
    """The prefix of all captures of one URL."""
    return key + b"\0"


def tie(capture: Capture) -> int:
    """The tie of a capture, never 0, from what the crawler said of it and not from what became of it."""
    said = f"{capture.status} {capture.url}\n{capture.redirect or ''}\n".encode("utf-8", "surrogatepass")
    found = _FOUND if 200 <= capture.status < 300 else 0
    return found | (mmh3.hash(said + capture.raw, signed=False) % (_FOUND - 1) + 1)


def encode_key(key: bytes, sweep: int, time: int, tie: int) -> bytes:
    """The row key of one capture."""
    return key + b"\0" + _TAIL.pack(sweep, time, tie)


def row_key(capture: Capture) -> bytes:
    """The row key of one capture."""
    return encode_key(capture.key, capture.sweep, capture.time, capture.tie)


def url_key_of(row: bytes) -> bytes:
    """The url key of a row key, which is not looked at further."""
    return row[: -_TAIL.size - 1]


def decode_key(row: bytes) -> tuple[bytes, int, int, int]:
    """Split a row key into url key, sweep, time (ms) and tie."""
    at = len(row) - _TAIL.size
    if at < 2 or row.find(b"\0") != at - 1:
        raise StateCorrupt(f"not a capture key: {row[:80]!r}")
    return (row[: at - 1], *_TAIL.unpack_from(row, at))


def url_of(key: bytes, *, https: bool) -> str:
    """The URL that a url key stands for."""
    host, _, path = key.partition(b")")
    return _origin(host, https) + path.decode("utf-8", "surrogateescape")


@lru_cache(maxsize=4096)
def _origin(key: bytes, https: bool) -> str:
    """Scheme, host and port of the URLs whose keys begin with this."""
    host = key.decode("utf-8", "surrogateescape")
    name, colon, port = host.rpartition(":")
    labels = name if colon and port.isdigit() else host
    suffix = f":{port}" if labels is not host else ""
    return f"http{'s' if https else ''}://{'.'.join(reversed(labels.split(',')))}{suffix}"


def encode(capture: Capture) -> bytes:
    """Pack everything that the key does not say."""
    https = capture.url.startswith("https:")
    flags = HTTPS if https else 0
    parts = []
    if capture.document is not None:
        flags |= DOCUMENT
        parts.append(capture.document)
    if capture.raw:
        flags |= RAW
        parts.append(capture.raw)
    if capture.redirect is not None:
        flags |= REDIRECT
        parts.append(_text(capture.redirect))
    if url_of(capture.key, https=https) != capture.url:
        flags |= URL
        parts.append(_text(capture.url))
    return _HEAD.pack(VERSION, flags, capture.status, capture.extractor) + b"".join(parts)


def decode(row: bytes, value: bytes) -> Capture:
    """Unpack a capture from its row key and value."""
    key, sweep, time, tie = decode_key(row)
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt("not a capture of version 1: cut short, or written by a newer lostfound")
    _, flags, status, extractor = _HEAD.unpack_from(value)
    at = _HEAD.size
    document, raw, redirect = None, b"", None
    if flags & DOCUMENT:
        document, at = value[at : at + 16], at + 16
    if flags & RAW:
        raw, at = value[at : at + 8], at + 8
    if flags & REDIRECT:
        redirect, at = _read(value, at)
    if flags & URL:
        url, at = _read(value, at)
    else:
        url = url_of(key, https=bool(flags & HTTPS))
    if at != len(value):
        raise StateCorrupt(f"a capture of {len(value)} bytes should have {at}: cut short, or another format")
    return Capture(key, url, sweep, time, status, document, raw, redirect, extractor, tie)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(2, "big") + data


def _read(value: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int.from_bytes(value[at : at + 2], "big")
    return value[at + 2 : end].decode("utf-8", "surrogatepass"), end

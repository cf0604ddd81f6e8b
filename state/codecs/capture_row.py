"""A capture's row in `captures`.

    key    url key │ 00 │ sweep 4 B │ time 8 B (ms) │ tiebreaker 2 B
    value  version 1 B │ flags 1 B │ status 2 B │ extractor 1 B
           │ [document id 16 B] │ [raw fingerprint 8 B] │ [link list id 8 B]
           │ [length 2 B │ redirect] │ [length 2 B │ URL]

    flags  1: https   2: document id   4: raw fingerprint   8: redirect   16: URL, unless derivable from the key
           32: link list id

A URL key contains no NUL, so the captures of a URL are one range of keys, in order of sweep and time. The
tiebreaker distinguishes captures with the same time, typically of an http URL and of the https URL to which it
redirects: keys contain no scheme, and crawlers record whole seconds. Successful responses sort last.
"""

from __future__ import annotations

import struct

import mmh3

from state.codecs import url_key
from state.errors import StateCorrupt
from state.model import ID_BYTES, Capture

VERSION = 1
RAW_FINGERPRINT_BYTES = 8
LINK_LIST_ID_BYTES = 8
_IS_HTTPS, _HAS_DOCUMENT, _HAS_RAW_FINGERPRINT, _HAS_REDIRECT, _HAS_URL = 1, 2, 4, 8, 16
_HAS_LINKS = 32
_HEAD = struct.Struct(">BBHB")
_KEY_TAIL = struct.Struct(">IQH")
_SUCCESS_BIT = 0x8000  # the highest bit of a tiebreaker, set for status 2xx
_METADATA_TIEBREAKERS = 1 << 10  # so few that other tiebreakers are nearly always greater
_STRING_BYTES_MAX = 0xFFFF
TIEBREAKER_MAX = 0xFFFF


def history_prefix(key: bytes) -> bytes:
    """Return the key prefix of all captures of a URL."""
    return key + b"\0"


def tiebreaker_of(capture: Capture) -> int:
    """Return the tiebreaker of a capture, which is never 0: a hash of the response, and a bit for success.

    A capture with only the metadata of a response sorts before a capture of the same response with a document.
    """
    response = f"{capture.status} {capture.url}\n{capture.redirect or ''}\n".encode("utf-8", "surrogatepass")
    success_bit = _SUCCESS_BIT if 200 <= capture.status < 300 else 0
    if capture.links and not capture.raw_fingerprint:
        return success_bit | (mmh3.hash(response + capture.links, signed=False) % _METADATA_TIEBREAKERS + 1)
    return success_bit | (mmh3.hash(response + capture.raw_fingerprint, signed=False) % (_SUCCESS_BIT - 1) + 1)


def encode_key(key: bytes, sweep: int, time: int, tiebreaker: int) -> bytes:
    assert b"\0" not in key, "a NUL terminates the URL key"
    return key + b"\0" + _KEY_TAIL.pack(sweep, time, tiebreaker)


def key_of(capture: Capture) -> bytes:
    return encode_key(capture.key, capture.sweep, capture.time, capture.tiebreaker)


def url_key_of(row_key: bytes) -> bytes:
    """Return the URL key in a row key, which must be valid."""
    return row_key[: -_KEY_TAIL.size - 1]


def decode_key(row_key: bytes) -> tuple[bytes, int, int, int]:
    """Split a row key into URL key, sweep, time (ms) and tiebreaker. Raise StateCorrupt if the key is invalid."""
    tail_start = len(row_key) - _KEY_TAIL.size
    if tail_start < 2 or row_key.find(b"\0") != tail_start - 1:
        raise StateCorrupt(f"invalid row key of a capture: {row_key[:80]!r}")
    return (row_key[: tail_start - 1], *_KEY_TAIL.unpack_from(row_key, tail_start))


def encode(capture: Capture) -> bytes:
    """Encode the fields of a capture that are not in its row key."""
    assert capture.document is None or len(capture.document) == ID_BYTES
    assert len(capture.raw_fingerprint) in (0, RAW_FINGERPRINT_BYTES)
    assert len(capture.links) in (0, LINK_LIST_ID_BYTES)
    https = capture.url.startswith("https:")
    flags = _IS_HTTPS if https else 0
    fields = []
    if capture.document is not None:
        flags |= _HAS_DOCUMENT
        fields.append(capture.document)
    if capture.raw_fingerprint:
        flags |= _HAS_RAW_FINGERPRINT
        fields.append(capture.raw_fingerprint)
    if capture.links:
        flags |= _HAS_LINKS
        fields.append(capture.links)
    if capture.redirect is not None:
        flags |= _HAS_REDIRECT
        fields.append(_encode_string(capture.redirect))
    if url_key.url_of(capture.key, https=https) != capture.url:
        flags |= _HAS_URL
        fields.append(_encode_string(capture.url))
    return _HEAD.pack(VERSION, flags, capture.status, capture.extractor) + b"".join(fields)


def document_of(value: bytes) -> bytes | None:
    """Return the document in a capture's value, which must be valid, without decoding the rest."""
    has_document = len(value) > _HEAD.size and value[1] & _HAS_DOCUMENT
    return value[_HEAD.size : _HEAD.size + ID_BYTES] if has_document else None


def links_of(value: bytes) -> bytes:
    """Return the id of the list of links in a capture's value, which must be valid, or b""."""
    if len(value) <= _HEAD.size or not value[1] & _HAS_LINKS:
        return b""
    offset = _HEAD.size + ID_BYTES * bool(value[1] & _HAS_DOCUMENT)
    offset += RAW_FINGERPRINT_BYTES * bool(value[1] & _HAS_RAW_FINGERPRINT)
    return value[offset : offset + LINK_LIST_ID_BYTES]


def decode(row_key: bytes, value: bytes) -> Capture:
    """Decode a capture from its row key and value. Raise StateCorrupt if either is invalid."""
    key, sweep, time, tiebreaker = decode_key(row_key)
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid capture (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    _, flags, status, extractor = _HEAD.unpack_from(value)
    offset = _HEAD.size
    document, raw_fingerprint, links, redirect = None, b"", b"", None
    if flags & _HAS_DOCUMENT:
        document, offset = value[offset : offset + ID_BYTES], offset + ID_BYTES
    if flags & _HAS_RAW_FINGERPRINT:
        raw_fingerprint, offset = value[offset : offset + RAW_FINGERPRINT_BYTES], offset + RAW_FINGERPRINT_BYTES
    if flags & _HAS_LINKS:
        links, offset = value[offset : offset + LINK_LIST_ID_BYTES], offset + LINK_LIST_ID_BYTES
    if flags & _HAS_REDIRECT:
        redirect, offset = _decode_string(value, offset)
    if flags & _HAS_URL:
        url, offset = _decode_string(value, offset)
    else:
        url = url_key.url_of(key, https=bool(flags & _IS_HTTPS))
    if offset != len(value):
        raise StateCorrupt(f"a capture has {len(value)} bytes, expected {offset}: truncated, or not a capture")
    return Capture(
        key=key,
        url=url,
        sweep=sweep,
        time=time,
        status=status,
        document=document,
        raw_fingerprint=raw_fingerprint,
        redirect=redirect,
        extractor=extractor,
        links=links,
        tiebreaker=tiebreaker,
    )


def _encode_string(string: str) -> bytes:
    data = string.encode("utf-8", "surrogatepass")
    assert len(data) <= _STRING_BYTES_MAX, "the length of a redirect or URL must fit in two bytes"
    return len(data).to_bytes(2, "big") + data


def _decode_string(value: bytes, offset: int) -> tuple[str, int]:
    end = offset + 2 + int.from_bytes(value[offset : offset + 2], "big")
    try:
        return value[offset + 2 : end].decode("utf-8", "surrogatepass"), end
    except UnicodeDecodeError as error:
        raise StateCorrupt(f"the redirect or URL of a capture is not UTF-8: {error}") from error

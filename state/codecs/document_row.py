"""A document's row in `documents`.

    key    document id 16
    value  version 1 │ first seen 6 (ms) │ exponent 1 │ tokens 4 │ shingles 4 │ bins 2 │ sampled 2
           │ signature │ sample

The signature has one byte a bin, the sample four bytes a sampled shingle. First seen comes early, so that of two
rows of one document the earlier sorts first.
"""

from __future__ import annotations

import struct

import numpy as np

from state.errors import StateCorrupt
from state.model import ID_BYTES, DocumentRow, Sketch

VERSION = 1
_HEAD = struct.Struct(">B6sBIIHH")
_SEEN = slice(1, 7)
_TOKENS = slice(8, 12)
_BIG = np.dtype(">u4")


def encode(row: DocumentRow) -> bytes:
    """Pack a row; the document id is the key and is not repeated."""
    sketch = row.sketch
    head = _HEAD.pack(
        VERSION,
        row.first_seen.to_bytes(6, "big"),
        sketch.exponent,
        sketch.tokens,
        sketch.shingles,
        len(sketch.signature),
        len(sketch.sample),
    )
    return head + sketch.signature.tobytes() + sketch.sample.astype(_BIG).tobytes()


def decode(document: bytes, value: bytes) -> DocumentRow:
    """Unpack a row of the document with this id."""
    if len(document) != ID_BYTES:
        raise StateCorrupt(f"a document id has {ID_BYTES} bytes, not {len(document)}")
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt("not a document row of version 1: cut short, or written by a newer lostfound")
    _, seen, exponent, tokens, shingles, bins, sampled = _HEAD.unpack_from(value)
    at = _HEAD.size + bins
    if len(value) != at + 4 * sampled:
        raise StateCorrupt(f"a document row of {len(value)} bytes should have {at + 4 * sampled}: cut short")
    signature = np.frombuffer(value, np.uint8, bins, _HEAD.size)
    sample = np.frombuffer(value, _BIG, offset=at).astype(np.uint32)
    sketch = Sketch(document, signature, sample, exponent, shingles, tokens)
    return DocumentRow(sketch, int.from_bytes(seen, "big"))


def first_seen(value: bytes) -> int:
    """When a row's document was first seen, ms."""
    return int.from_bytes(value[_SEEN], "big")


def tokens(value: bytes) -> int:
    """How many tokens of a row's document were sketched."""
    return int.from_bytes(value[_TOKENS], "big")


def seen_at(value: bytes, time: int) -> bytes:
    """The same row, first seen at `time`, ms."""
    return value[: _SEEN.start] + time.to_bytes(6, "big") + value[_SEEN.stop :]

"""A document's row in `documents`.

    key    document id 16
    value  version 1 │ first seen 6 (ms) │ exponent 1 │ tokens 4 │ shingles 4 │ bins 2 │ sampled 2
           │ signature │ sample

The signature has one byte per bin, the sample four bytes per sampled shingle. "First seen" is at the front, so that
the earlier of two rows of a document sorts first.
"""

from __future__ import annotations

import struct

import numpy as np

from state.errors import StateCorrupt
from state.model import ID_BYTES, DocumentRow, Sketch

VERSION = 1
_HEAD = struct.Struct(">B6sBIIHH")
_FIRST_SEEN = slice(1, 7)
_TOKENS = slice(8, 12)
_BIG_U32 = np.dtype(">u4")


def encode(row: DocumentRow) -> bytes:
    sketch = row.sketch
    assert sketch.signature.dtype == np.uint8
    assert sketch.sample.dtype == np.uint32
    seen, bins, sampled = row.first_seen.to_bytes(6, "big"), len(sketch.signature), len(sketch.sample)
    head = _HEAD.pack(VERSION, seen, sketch.exponent, sketch.tokens, sketch.shingles, bins, sampled)
    return head + sketch.signature.tobytes() + sketch.sample.astype(_BIG_U32).tobytes()


def decode(document: bytes, value: bytes) -> DocumentRow:
    """Decode the row of a document. Raise StateCorrupt if it is invalid."""
    if len(document) != ID_BYTES:
        raise StateCorrupt(f"a document id has {ID_BYTES} bytes, not {len(document)}")
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(f"not a document row of version {VERSION}: cut short, or written by a newer lostfound")
    _, seen, exponent, tokens, shingles, bins, sampled = _HEAD.unpack_from(value)
    start = _HEAD.size + bins
    if len(value) != start + 4 * sampled:
        raise StateCorrupt(f"a document row of {len(value)} bytes should have {start + 4 * sampled}: cut short")
    signature = np.frombuffer(value, np.uint8, bins, _HEAD.size)
    sample = np.frombuffer(value, _BIG_U32, offset=start).astype(np.uint32)
    sketch = Sketch(
        document=document, signature=signature, sample=sample, exponent=exponent, shingles=shingles, tokens=tokens
    )
    return DocumentRow(sketch, int.from_bytes(seen, "big"))


def first_seen(value: bytes) -> int:
    """Decode the time (ms) when a document was first seen."""
    return int.from_bytes(value[_FIRST_SEEN], "big")


def tokens(value: bytes) -> int:
    """Decode the number of sketched tokens of a document."""
    return int.from_bytes(value[_TOKENS], "big")


def with_time(value: bytes, time: int) -> bytes:
    """Return the value with another first-seen time (ms)."""
    return value[: _FIRST_SEEN.start] + time.to_bytes(6, "big") + value[_FIRST_SEEN.stop :]

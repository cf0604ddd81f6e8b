"""A document's row in `documents`.

    key    document id 16 B
    value  version 1 B │ first seen 6 B (ms) │ exponent 1 B │ token count 4 B │ shingle count 4 B │ bin count 2 B
           │ sample size 2 B │ signature 1 B per bin │ sample 4 B per sampled shingle

"First seen" precedes the other fields, so that of two rows of the same document, the one seen earlier sorts first.
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
_BIG_ENDIAN_U32 = np.dtype(">u4")


def encode(row: DocumentRow) -> bytes:
    sketch = row.sketch
    assert sketch.signature.dtype == np.uint8
    assert sketch.sample.dtype == np.uint32
    seen_bytes, bins, sample_size = row.first_seen.to_bytes(6, "big"), len(sketch.signature), len(sketch.sample)
    head = _HEAD.pack(VERSION, seen_bytes, sketch.exponent, sketch.tokens, sketch.shingles, bins, sample_size)
    return head + sketch.signature.tobytes() + sketch.sample.astype(_BIG_ENDIAN_U32).tobytes()


def decode(document_id: bytes, value: bytes) -> DocumentRow:
    """Decode a document's row. Raise StateCorrupt if the id or the value is invalid."""
    if len(document_id) != ID_BYTES:
        raise StateCorrupt(f"a document id has {len(document_id)} bytes, expected {ID_BYTES}")
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid document row (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    _, seen_bytes, exponent, tokens, shingles, bins, sample_size = _HEAD.unpack_from(value)
    sample_start = _HEAD.size + bins
    size = sample_start + 4 * sample_size
    if len(value) != size:
        raise StateCorrupt(f"a document row has {len(value)} bytes, expected {size}: truncated")
    signature = np.frombuffer(value, np.uint8, bins, _HEAD.size)
    sample = np.frombuffer(value, _BIG_ENDIAN_U32, offset=sample_start).astype(np.uint32)
    sketch = Sketch(
        document=document_id, signature=signature, sample=sample, exponent=exponent, shingles=shingles, tokens=tokens
    )
    return DocumentRow(sketch, int.from_bytes(seen_bytes, "big"))


def first_seen(value: bytes) -> int:
    """Decode the time (ms) at which a document was first seen."""
    return int.from_bytes(value[_FIRST_SEEN], "big")


def tokens(value: bytes) -> int:
    """Decode the number of sketched tokens of a document."""
    return int.from_bytes(value[_TOKENS], "big")


def with_first_seen(value: bytes, time: int) -> bytes:
    """Return the value with its first-seen time (ms) replaced."""
    return value[: _FIRST_SEEN.start] + time.to_bytes(6, "big") + value[_FIRST_SEEN.stop :]

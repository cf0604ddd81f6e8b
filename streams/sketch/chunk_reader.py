"""Read encoded chunks of links, compiled by numba.

`state.codecs.link_chunk` describes the layout, and raises the errors that describe invalid chunks.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import uint8, uint64

from state.codecs import link_chunk
from state.model import TARGET_HASH_BYTES
from streams.sketch.kernel import jit
from streams.sketch.murmur3 import first_64_bits

_ANCHOR_FLAG, _UNKNOWN_FLAG = np.uint8(link_chunk.HAS_ANCHOR), np.uint8(128)
_KIND_MASK, _KIND_MAX = np.uint8(7), np.uint8(4)
_VARINT_BYTES_MAX = 4
_LINK_BYTES_MIN = 3
_PREFIX_BYTES, _KEY_BYTES = link_chunk.CHUNK_PREFIX_BYTES, TARGET_HASH_BYTES + link_chunk.CHUNK_PREFIX_BYTES


def target_keys(chunks: Mapping[bytes, bytes]) -> list[bytes]:
    """Return the keys in `link_targets` of all links in these chunks (by chunk id). A key may occur more than once.

    `link_chunk.target_keys` returns the same keys for one chunk. Raise StateCorrupt if a chunk is invalid.
    """
    data = np.frombuffer(b"".join(chunks.values()), dtype=np.uint8)
    ends = np.cumsum([0, *map(len, chunks.values())])
    ids = np.frombuffer(b"".join(chunks), dtype=np.uint8).reshape(len(chunks), link_chunk.CHUNK_ID_BYTES)
    keys = np.empty((data.size // _LINK_BYTES_MIN, _KEY_BYTES), dtype=np.uint8)
    count = _target_keys(data, ends, ids, keys)
    if count < 0:
        for chunk in chunks.values():
            link_chunk.decode(chunk)
        raise AssertionError("the two decoders disagree about a chunk of links")
    joined = keys[:count].tobytes()
    return [joined[start : start + _KEY_BYTES] for start in range(0, len(joined), _KEY_BYTES)]


@jit()
def _target_keys(data, ends, ids, keys):
    """Fill `keys` and return their number, or return -1 if a chunk is invalid."""
    target, count = np.empty(256, dtype=np.uint8), 0
    for chunk in range(len(ids)):
        position, end, length = ends[chunk] + 1, ends[chunk + 1], np.int64(0)
        if position > end or data[position - 1] != link_chunk.VERSION:
            return -1
        while position < end:
            _, shared, start, rest, _, _, position = read_link(data, position, end, length)
            if position < 0:
                return -1
            length = shared + rest
            if length > len(target):
                longer = np.empty(2 * length, dtype=np.uint8)
                longer[:shared] = target[:shared]
                target = longer
            target[shared:length] = data[start : start + rest]
            target_hash = first_64_bits(target, 0, length)
            for i in range(TARGET_HASH_BYTES):
                keys[count, i] = uint8(target_hash >> uint64(8 * i))
            keys[count, TARGET_HASH_BYTES:] = ids[chunk, :_PREFIX_BYTES]
            count += 1
    return count


@jit()
def _read_varint(values, position, end):
    """Return a number and the position after it, or a negative position if the number is invalid."""
    number = np.int64(0)
    for i in range(_VARINT_BYTES_MAX):
        if position + i >= end:
            return number, np.int64(-1)
        byte = values[position + i]
        number |= np.int64(byte & np.uint8(0x7F)) << np.int64(7 * i)
        if byte < 0x80:
            return number, np.int64(position + i + 1)
    return number, np.int64(-1)


@jit()
def read_link(values, position, end, target_length):
    """Read a link. `target_length` is the length of the previous link's target.

    Return the flags, the number of bytes that the target shares with the previous target, the position and length of
    the rest of the target, the position and length of the anchor, and the position after the link. The last result is
    negative if the link is invalid.
    """
    flags = values[position]
    shared, position = _read_varint(values, position + 1, end)
    length, position = _read_varint(values, position, end) if position >= 0 else (np.int64(0), np.int64(-1))
    start = position
    anchor, anchor_length = np.int64(0), np.int64(0)
    position += length
    if (
        start < 0
        or flags & _UNKNOWN_FLAG
        or flags & _KIND_MASK > _KIND_MAX
        or shared > target_length
        or position > end
    ):
        return flags, shared, start, length, anchor, anchor_length, np.int64(-1)
    if flags & _ANCHOR_FLAG:
        anchor_length, anchor = _read_varint(values, position, end)
        position = anchor + anchor_length
        if anchor < 0 or position > end:
            position = np.int64(-1)
    return flags, shared, start, length, anchor, anchor_length, position

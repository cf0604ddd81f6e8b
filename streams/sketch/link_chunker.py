"""Cut the links of a page into chunks and encode them, compiled by numba.

Chunks are content-defined (Muthitacharoen, Chen and Mazieres, "A low-bandwidth network file system", SOSP 2001): a
chunk ends after a link whose hash is divisible by 16. Pages with a common run of links therefore have common chunks,
whatever precedes or follows the run. A chunk also ends where navigation begins or ends.

The hash is that of the link's record (`link_parser`). `state.codecs.link_chunk` describes the encoded chunk.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import uint8, uint64
from numpy.typing import NDArray

from state.codecs import link_chunk
from streams.sketch.kernel import jit
from streams.sketch.link_records import (
    ANCHOR_START,
    END,
    FLAGS,
    HTTPS,
    IS_CUT,
    KIND_SHIFT,
    NAVIGATION,
    NOFOLLOW,
    START,
    TARGET_END,
)  # fmt: skip
from streams.sketch.murmur3 import first_64_bits

LINKS_PER_CHUNK = 16  # on average
CHUNK_LINKS_MAX = 64
_LINK_BYTES_MAX = 16  # of an encoded link, without its target and its anchor
_VERSION = link_chunk.VERSION
_HTTPS, _NOFOLLOW, _NAVIGATION, _HAS_ANCHOR = (
    link_chunk.HTTPS, link_chunk.NOFOLLOW, link_chunk.NAVIGATION, link_chunk.HAS_ANCHOR,
)  # fmt: skip


def cut(parts: list[bytes], rows: NDArray[np.int64], page_key: bytes) -> tuple[list[bytes], int]:
    """Return the encoded chunks of a page's links, and the number of links whose anchors were cut.

    The `rows` of records contain offsets in the joined `parts`. Links of the page to itself are omitted.
    """
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    output = np.empty(data.size + (_LINK_BYTES_MAX + 1) * len(rows), dtype=np.uint8)
    ends = np.empty(len(rows) + 1, dtype=np.int64)
    count, anchors_cut = _cut(data, rows, np.frombuffer(page_key, dtype=np.uint8), output, ends)
    bounds = ends[: count + 1].tolist()
    values = output[: bounds[-1]].tobytes()
    return [values[start:end] for start, end in pairwise(bounds)], anchors_cut


@jit()
def _cut(data, rows, page_key, output, ends):
    hashes = np.empty(CHUNK_LINKS_MAX, dtype=np.uint64)
    chunk = np.empty(CHUNK_LINKS_MAX, dtype=np.int64)  # the numbers of its records
    size, count, position, anchors_cut = 0, 0, 0, 0
    is_complete, was_navigation = False, 0
    ends[0] = 0
    for number in range(rows.shape[0]):
        row = rows[number]
        if row[START] < 0 or _is_target(data, row, page_key):
            continue
        anchors_cut += 1 if row[FLAGS] & IS_CUT else 0
        navigation = row[FLAGS] & NAVIGATION
        if size and (is_complete or navigation != was_navigation or size >= CHUNK_LINKS_MAX):
            position = _encode(data, rows, chunk[:size], output, position)
            count, size = count + 1, 0
            ends[count] = position
        link_hash = first_64_bits(data, row[START], row[END])
        slot = 0
        while slot < size and hashes[slot] != link_hash:  # a link occurs in a chunk only once
            slot += 1
        hashes[slot], chunk[slot] = link_hash, number
        size = max(size, slot + 1)
        is_complete, was_navigation = link_hash % uint64(LINKS_PER_CHUNK) == uint64(0), navigation
    if size:
        count += 1
        ends[count] = _encode(data, rows, chunk[:size], output, position)
    return count, anchors_cut


@jit()
def _is_target(data, row, key):
    if row[TARGET_END] - row[START] != key.size:
        return False
    i = key.size - 1  # the keys of a site differ at the end
    while i >= 0 and data[row[START] + i] == key[i]:
        i -= 1
    return i < 0


@jit()
def _encode(data, rows, chunk, output, position):
    """Append the value of a chunk to `output`. Return the offset behind it."""
    output[position] = _VERSION
    position += 1
    previous_start = previous_end = 0
    for number in chunk:
        row = rows[number]
        start, end, flags = row[START], row[TARGET_END], row[FLAGS]
        shared, shared_max = 0, min(end - start, previous_end - previous_start)
        while shared < shared_max and data[start + shared] == data[previous_start + shared]:
            shared += 1
        anchor_bytes = row[END] - row[ANCHOR_START]
        output[position] = (
            (flags & ~IS_CUT) >> KIND_SHIFT
            | (_HTTPS if flags & HTTPS else 0)
            | (_NOFOLLOW if flags & NOFOLLOW else 0)
            | (_NAVIGATION if flags & NAVIGATION else 0)
            | (_HAS_ANCHOR if anchor_bytes else 0)
        )
        position = _write_number(output, position + 1, shared)
        position = _write_number(output, position, end - start - shared)
        position = _copy(data, start + shared, end, output, position)
        if anchor_bytes:
            position = _write_number(output, position, anchor_bytes)
            position = _copy(data, row[ANCHOR_START], row[END], output, position)
        previous_start, previous_end = start, end
    return position


@jit()
def _write_number(output, position, number):
    """Write a number as LEB128: seven bits per byte, the lowest first. Return the offset behind it."""
    while number > 0x7F:
        output[position] = uint8(number & 0x7F | 0x80)
        number >>= 7
        position += 1
    output[position] = uint8(number)
    return position + 1


@jit()
def _copy(data, start, end, output, position):
    for i in range(start, end):
        output[position + i - start] = data[i]
    return position + end - start

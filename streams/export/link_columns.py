"""Decode the chunks of links in blocks of rows of `link_chunks`, in compiled code.

`state.codecs.link_chunk` documents the layout. If this module finds a chunk invalid, that codec decodes the chunk
again and raises the error. Many pages share a chunk: `decode` is called once per chunk, and `expand` once per page.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from state.codecs import link_chunk
from streams.export import arrow_arrays
from streams.export.capture_columns import copy_bytes, read_big_endian
from streams.export.column_hashes import hash_key
from streams.export.schema import LINKS
from streams.sketch.chunk_reader import read_link
from streams.sketch.kernel import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.row_blocks import RowBlock

# Masks of the flags of a link.
_KIND, _NOFOLLOW, _NAVIGATION = np.uint8(7), np.uint8(link_chunk.NOFOLLOW), np.uint8(link_chunk.NAVIGATION)
_VERSION = np.uint8(link_chunk.VERSION)


class Chunks(NamedTuple):
    """The links of several chunks. Chunk i has the rows `ends[i] : ends[i + 1]` of the columns for links."""

    ends: NDArray[np.int64]
    targets: NDArray[np.int64]
    target_hosts: NDArray[np.int64]
    flags: NDArray[np.uint8]
    anchor_starts: NDArray[np.int64]  # positions in `values`
    anchor_lengths: NDArray[np.int64]
    values: NDArray[np.uint8]


def chunk_rows(block: RowBlock) -> NDArray[np.int64]:
    """Return the numbers of the rows of a block that contain chunks. The other rows name the pages of a chunk."""
    return np.flatnonzero(np.diff(block.key_offsets) == link_chunk.CHUNK_ID_BYTES)


def decode(block: RowBlock, rows: NDArray[np.int64]) -> Chunks:
    """Decode the chunks in these rows of a block. Raise StateCorrupt if a chunk is invalid."""
    ends = np.zeros(len(rows) + 1, np.int64)
    invalid_chunk = _count_links(block.values, block.value_offsets, rows, ends)
    if invalid_chunk >= 0:
        link_chunk.decode(block.row(int(rows[invalid_chunk]))[1])
        raise AssertionError("the two decoders disagree about a chunk of links")
    hashes = np.empty((2, ends[-1]), np.int64)
    flags, anchors = np.empty(ends[-1], np.uint8), np.empty((2, ends[-1]), np.int64)
    _decode(block.values, block.value_offsets, rows, hashes, flags, anchors)
    return Chunks(ends, hashes[0], hashes[1], flags, anchors[0], anchors[1], block.values)


def expand(
    chunks: Chunks, indexes: NDArray[np.int64], sources: NDArray[np.int64], lists: NDArray[np.int64]
) -> pa.RecordBatch:
    """Return the columns of links: the page `sources[i]` has, in its list `lists[i]`, the chunk `indexes[i]`."""
    counts = np.diff(chunks.ends)[indexes]
    pages = np.repeat(np.arange(len(indexes)), counts)
    first_links = np.cumsum(counts) - counts
    links = np.arange(len(pages)) - first_links[pages] + chunks.ends[indexes][pages]
    flags = chunks.flags[links]
    anchor_ends = np.zeros(len(links) + 1, np.int64)
    np.cumsum(chunks.anchor_lengths[links], out=anchor_ends[1:])
    anchors = np.empty(anchor_ends[-1], np.uint8)
    _copy_anchors(chunks.values, chunks.anchor_starts, links, anchor_ends, anchors)
    columns = [
        pa.array(sources[pages]),
        pa.array(lists[pages]),
        pa.array(chunks.targets[links]),
        pa.array(chunks.target_hosts[links]),
        pa.array((flags & _KIND).astype(np.int8)),
        pa.array(flags & _NOFOLLOW != 0),
        pa.array(flags & _NAVIGATION != 0),
        arrow_arrays.string_array(anchor_ends, anchors),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LINKS)


@jit()
def _count_links(values, offsets, rows, ends):
    """Fill in the ends of the chunks. Return the index of the first invalid chunk, or -1."""
    count = 0
    for i in range(len(rows)):
        position, end = offsets[rows[i]], offsets[rows[i] + 1]
        if position == end or values[position] != _VERSION:
            return i
        position += 1
        target_length = np.int64(0)
        while position < end:
            _, shared, _, length, _, _, position = read_link(values, position, end, target_length)
            if position < 0:
                return i
            target_length = shared + length
            count += 1
        ends[i + 1] = count
    return -1


@jit()
def _decode(values, offsets, rows, hashes, flags, anchors):
    target, scratch = np.empty(256, np.uint8), np.empty(256, np.uint8)
    link = 0
    for row in rows:
        position, end = offsets[row] + 1, offsets[row + 1]
        target_length = np.int64(0)
        while position < end:
            flags[link], shared, start, length, anchor, anchor_length, position = read_link(
                values, position, end, target_length
            )
            target_length = shared + length
            if target_length > len(target):
                longer = np.empty(2 * target_length, np.uint8)
                copy_bytes(target, 0, shared, longer, 0)
                target, scratch = longer, np.empty(2 * target_length, np.uint8)
            copy_bytes(values, start, length, target, shared)
            hashes[0, link], _, hashes[1, link] = hash_key(target, 0, target_length, scratch)
            anchors[0, link], anchors[1, link] = anchor, anchor_length
            link += 1


@jit()
def _copy_anchors(values, starts, links, ends, target):
    for i in range(len(links)):
        copy_bytes(values, starts[links[i]], ends[i + 1] - ends[i], target, ends[i])


@jit()
def explode_lists(keys, key_offsets, values, value_offsets, columns):
    """Fill `columns` (source, list, chunk) with an entry for each chunk of each list.

    The rows are those of `link_lists`, whose layout `state.codecs.link_list` documents. Return the first invalid row,
    or -1, and the number of entries.
    """
    scratch = np.empty(len(keys), np.uint8)
    count = 0
    for row in range(len(key_offsets) - 1):
        start, end = key_offsets[row], key_offsets[row + 1] - 9
        value, value_end = value_offsets[row], value_offsets[row + 1]
        if end <= start or keys[end] != 0 or (value_end - value) % 8 != 1 or values[value] != 1:
            return row, count
        source, _, _ = hash_key(keys, start, end, scratch)
        link_list = read_big_endian(keys, end + 1, 8)
        for position in range(value + 1, value_end, 8):
            columns[0, count], columns[1, count] = source, link_list
            columns[2, count] = read_big_endian(values, position, 8)
            count += 1
    return -1, count

"""Decode blocks of `captures` rows into the columns of the exported table, in compiled code.

`state.codecs.capture_row` documents the layout. If this module finds a row invalid, that codec decodes the row again
and raises the error.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from state.codecs import capture_row
from streams.export import arrow_arrays
from streams.export.column_hashes import hash_bytes, hash_key
from streams.export.schema import CAPTURES
from streams.sketch.kernel import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.row_blocks import RowBlock

# The flags of a row.
_HTTPS, _DOCUMENT, _FINGERPRINT, _REDIRECT, _URL, _LINKS = (np.uint8(1 << bit) for bit in range(6))
_KEY_TAIL_BYTES = 14  # sweep, time and tiebreaker
_HEAD_BYTES = 5  # version, flags, status and extractor
_ID_BYTES, _HASH_BYTES = 16, 8
_VERSION = np.uint8(capture_row.VERSION)


class CaptureChecksums(NamedTuple):
    """The sweep and the checksum of each capture of a block, including captures whose sweeps are not written."""

    sweeps: NDArray[np.int32]
    checksums: NDArray[np.int64]  # hashes of the rows


def read_checksums(block: RowBlock) -> CaptureChecksums:
    """Return the sweeps and checksums of the captures of a block. Raise StateCorrupt if a row is invalid."""
    result = CaptureChecksums(np.empty(len(block), np.int32), np.empty(len(block), np.int64))
    invalid_row = _read_checksums(*block, *result)
    if invalid_row >= 0:
        capture_row.decode(*block.row(invalid_row))
        raise AssertionError("the two decoders disagree about a capture")
    return result


def decode(block: RowBlock, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """Return the columns of these rows of a block. `read_checksums` must have found the block valid."""
    count = len(rows)
    hashes = np.empty((6, count), np.int64)
    numbers = np.empty((3, count), np.int64)
    flags = np.empty(count, np.uint8)
    key_ends, redirect_ends = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    keys, redirects = np.empty(len(block.keys), np.uint8), np.empty(len(block.values), np.uint8)
    _decode(*block, rows, hashes, numbers, flags, key_ends, keys, redirect_ends, redirects)
    page, path, host, document, fingerprint, links = hashes
    sweep, time, status = numbers
    columns = [
        pa.array(page),
        pa.array(path),
        pa.array(host),
        arrow_arrays.string_array(key_ends, keys),
        pa.array(flags & _HTTPS != 0),
        pa.array(sweep.astype(np.int32)),
        pa.array(time),
        pa.array(status.astype(np.int16)),
        pa.array(document, mask=flags & _DOCUMENT == 0),
        pa.array(fingerprint, mask=flags & _FINGERPRINT == 0),
        pa.array(links, mask=flags & _LINKS == 0),
        arrow_arrays.string_array(redirect_ends, redirects, is_null=flags & _REDIRECT == 0),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CAPTURES)


@jit(inline="always")
def read_big_endian(data, start, size):
    """Return up to eight bytes as an integer. Eight bytes are read as a signed integer."""
    value = np.int64(0)
    for i in range(size):
        value = value << np.int64(8) | np.int64(data[start + i])
    return value


@jit(inline="always")
def copy_bytes(source, start, size, target, position):
    """Copy bytes in a loop: the assignment of a slice takes numba two seconds to compile."""
    for i in range(size):
        target[position + i] = source[start + i]


@jit()
def _read_checksums(keys, key_offsets, values, value_offsets, sweeps, checksums):
    """Fill the columns of `CaptureChecksums`. Return the first invalid row, or -1."""
    for row in range(len(sweeps)):
        start, end = key_offsets[row], key_offsets[row + 1]
        tail = end - _KEY_TAIL_BYTES
        value_start, value_end = value_offsets[row], value_offsets[row + 1]
        if tail < start + 2 or keys[tail - 1] != 0 or not _is_valid_value(values, value_start, value_end):
            return row
        sweeps[row] = read_big_endian(keys, tail, 4)
        value_hash = hash_bytes(values, value_start, value_end)
        checksums[row] = hash_bytes(keys, start, end) ^ (value_hash * np.int64(3))
    return -1


@jit()
def _is_valid_value(values, start, end):
    """Return whether a value has the version, and exactly the length that its flags imply."""
    if end - start < _HEAD_BYTES or values[start] != _VERSION:
        return False
    flags = values[start + 1]
    position = start + _HEAD_BYTES
    if flags & _DOCUMENT:
        position += _ID_BYTES
    for flag in (_FINGERPRINT, _LINKS):
        if flags & flag:
            position += _HASH_BYTES
    for flag in (_REDIRECT, _URL):
        if flags & flag:
            if position + 2 > end:
                return False
            position += 2 + read_big_endian(values, position, 2)
    return position == end


@jit()
def _decode(
    keys,
    key_offsets,
    values,
    value_offsets,
    rows,
    hashes,
    numbers,
    flags,
    key_ends,
    key_bytes,
    redirect_ends,
    redirect_bytes,
):
    scratch = np.empty(len(keys), np.uint8)
    key_length, redirect_length = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        start, tail = key_offsets[row], key_offsets[row + 1] - _KEY_TAIL_BYTES
        end = tail - 1
        hashes[0, i], hashes[1, i], hashes[2, i] = hash_key(keys, start, end, scratch)
        copy_bytes(keys, start, end - start, key_bytes, key_length)
        key_length += end - start
        key_ends[i + 1] = key_length
        position = value_offsets[row]
        row_flags = values[position + 1]
        flags[i] = row_flags
        numbers[0, i] = read_big_endian(keys, tail, 4)
        numbers[1, i] = read_big_endian(keys, tail + 4, 8)
        numbers[2, i] = read_big_endian(values, position + 2, 2)
        position += _HEAD_BYTES
        hashes[3, i] = hashes[4, i] = hashes[5, i] = 0
        if row_flags & _DOCUMENT:
            hashes[3, i] = read_big_endian(values, position, 8)
            position += _ID_BYTES
        if row_flags & _FINGERPRINT:
            hashes[4, i] = read_big_endian(values, position, 8)
            position += _HASH_BYTES
        if row_flags & _LINKS:
            hashes[5, i] = read_big_endian(values, position, 8)
            position += _HASH_BYTES
        if row_flags & _REDIRECT:
            length = read_big_endian(values, position, 2)
            position += 2
            copy_bytes(values, position, length, redirect_bytes, redirect_length)
            redirect_length += length
        redirect_ends[i + 1] = redirect_length

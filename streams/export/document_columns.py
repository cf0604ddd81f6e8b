"""Decode blocks of `documents` rows into the columns of the exported table, in compiled code.

`state.codecs.document_row` documents the layout. If this module finds a row invalid, that codec decodes the row again
and raises the error.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from state.codecs import document_row
from state.model import ID_BYTES
from streams.export import arrow_arrays
from streams.export.capture_columns import copy_bytes, read_big_endian
from streams.export.column_hashes import hash_bytes
from streams.export.schema import DOCUMENTS
from streams.sketch.kernel import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.row_blocks import RowBlock

_HEAD_BYTES = 20
_FIRST_SEEN, _EXPONENT, _TOKENS, _SHINGLES, _BINS, _SAMPLE_SIZE = 1, 7, 8, 12, 16, 18  # offsets in the value
_VERSION = np.uint8(document_row.VERSION)


def checksums(block: RowBlock) -> NDArray[np.int64]:
    """Return the checksum of each row of a block. Raise StateCorrupt if a row is invalid."""
    result = np.empty(len(block), np.int64)
    invalid_row = _read_checksums(*block, result)
    if invalid_row >= 0:
        document_row.decode(*block.row(invalid_row))
        raise AssertionError("the two decoders disagree about a document")
    return result


def decode(block: RowBlock, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """Return the columns of these rows of a block. `checksums` must have found the block valid."""
    count = len(rows)
    numbers = np.empty((5, count), np.int64)
    ids = np.empty((count, ID_BYTES), np.uint8)
    signature_ends, sample_ends = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    signatures, samples = np.empty(len(block.values), np.uint8), np.empty(len(block.values), np.uint8)
    _decode(*block, rows, numbers, ids, signature_ends, signatures, sample_ends, samples)
    samples[: sample_ends[-1]].view(np.uint32).byteswap(inplace=True)  # from big-endian to little-endian
    document, first_seen, tokens, shingles, exponent = numbers
    columns = [
        pa.array(document),
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), count, [None, pa.py_buffer(ids)]),
        pa.array(first_seen),
        pa.array(tokens.astype(np.int32)),
        pa.array(shingles.astype(np.int32)),
        pa.array(exponent.astype(np.int8)),
        arrow_arrays.bytes_array(signature_ends, signatures),
        arrow_arrays.bytes_array(sample_ends, samples),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS)


@jit()
def _read_checksums(keys, key_offsets, values, value_offsets, result):
    """Fill in the checksums. Return the first invalid row, or -1."""
    for row in range(len(result)):
        start, end = value_offsets[row], value_offsets[row + 1]
        if key_offsets[row + 1] - key_offsets[row] != ID_BYTES:
            return row
        if end - start < _HEAD_BYTES or values[start] != _VERSION:
            return row
        bins = read_big_endian(values, start + _BINS, 2)
        if end - start != _HEAD_BYTES + bins + 4 * read_big_endian(values, start + _SAMPLE_SIZE, 2):
            return row
        # The id determines the sketch, so of the value, only the head with the time can change.
        head_hash = hash_bytes(values, start, start + _HEAD_BYTES)
        result[row] = hash_bytes(keys, key_offsets[row], key_offsets[row + 1]) ^ (head_hash * np.int64(3))
    return -1


@jit()
def _decode(
    keys, key_offsets, values, value_offsets, rows, numbers, ids, signature_ends, signatures, sample_ends, samples
):
    signature_length, sample_length = 0, 0
    for i in range(len(rows)):
        key, value = key_offsets[rows[i]], value_offsets[rows[i]]
        numbers[0, i] = read_big_endian(keys, key, 8)
        copy_bytes(keys, key, ID_BYTES, ids[i], 0)
        numbers[1, i] = read_big_endian(values, value + _FIRST_SEEN, 6)
        numbers[2, i] = read_big_endian(values, value + _TOKENS, 4)
        numbers[3, i] = read_big_endian(values, value + _SHINGLES, 4)
        numbers[4, i] = values[value + _EXPONENT]
        bins = read_big_endian(values, value + _BINS, 2)
        start = value + _HEAD_BYTES
        copy_bytes(values, start, bins, signatures, signature_length)
        signature_length += bins
        signature_ends[i + 1] = signature_length
        start, end = start + bins, value_offsets[rows[i] + 1]
        copy_bytes(values, start, end - start, samples, sample_length)
        sample_length += end - start
        sample_ends[i + 1] = sample_length

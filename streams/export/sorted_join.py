"""Join the sorted result of a query with the sorted rows of the state, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state.row_blocks import RowBlock


class KeyedBlock(NamedTuple):
    """Some rows of a block, and their keys in ascending order."""

    keys: NDArray[np.uint64]
    block: RowBlock
    rows: NDArray[np.int64]


class Match(NamedTuple):
    """Rows of a query result, and for each the row of the block that has the same key."""

    columns: list[NDArray[np.int64]]  # columns of the result; the first contains the keys
    block: RowBlock
    rows: NDArray[np.int64]


def unsigned_order(column: str) -> str:
    """Return the terms of an ORDER BY that sorts hashes like the keys of rows: as unsigned integers."""
    return f"{column} < 0, {column}"


def join(batches: Iterable[pa.RecordBatch], blocks: Iterable[KeyedBlock]) -> Iterator[Match]:
    """Yield the rows of the batches whose first column is a key in the blocks. Both must be sorted by key."""
    block_iterator = iter(blocks)
    block = next(block_iterator, None)
    for batch in batches:
        columns = [column.to_numpy() for column in batch.columns]
        keys = columns[0].view(np.uint64)
        start = 0
        while block is not None and start < len(keys):
            if len(block.keys):
                end = int(np.searchsorted(keys, block.keys[-1], side="right"))
                yield from _matches([column[start:end] for column in columns], block)
                start = max(start, end)
            if start < len(keys):
                block = next(block_iterator, None)


def _matches(columns: list[NDArray[np.int64]], block: KeyedBlock) -> Iterator[Match]:
    keys = columns[0].view(np.uint64)
    positions = np.searchsorted(block.keys, keys)
    is_match = block.keys[positions] == keys
    if is_match.any():
        yield Match([column[is_match] for column in columns], block.block, block.rows[positions[is_match]])

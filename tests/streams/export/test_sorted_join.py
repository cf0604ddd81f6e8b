"""The join of two sorted sequences gives the same pairs however both are cut into batches and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from state.row_blocks import read_blocks
from streams.export.sorted_join import KeyedBlock, join

keys = st.integers(0, 6).map(lambda number: (number * (1 << 61) + number) % (1 << 64))
"""Few keys, of which half are negative as signed integers."""


@given(st.lists(keys, max_size=12), st.sets(keys), st.integers(1, 4), st.integers(1, 4))
def test_the_cuts_do_not_matter(result: list[int], stored: set[int], batch_rows: int, block_rows: int) -> None:
    result.sort()
    rows = np.array(result, np.uint64).view(np.int64)
    columns = [pa.array(rows), pa.array(np.arange(len(rows)))]
    table = pa.table(columns, ["key", "number"])
    blocks = []
    for start in range(0, len(stored), block_rows):
        part = sorted(stored)[start : start + block_rows]
        (block,) = read_blocks([(key.to_bytes(8, "big"), b"") for key in part])
        blocks.append(KeyedBlock(np.array(part, np.uint64), block, np.arange(len(part))))
    pairs: list[tuple[Any, int]] = []
    for match in join(table.to_batches(batch_rows), blocks):
        for number, row in zip(match.columns[1].tolist(), match.rows.tolist(), strict=True):
            pairs.append((number, int.from_bytes(match.block.row(row)[0], "big")))
    assert pairs == [(number, key) for number, key in enumerate(result) if key in stored]

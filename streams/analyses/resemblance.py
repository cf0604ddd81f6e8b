"""Compare pairs of documents of an exported data set by their sketches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.analyses.sql_engine import SqlEngine
from streams.sketch.similarity import compare_columns

COMPARISONS = pa.schema(
    [("a", pa.int64()), ("b", pa.int64())]
    + [(name, pa.float32()) for name in ("resemblance", "containment", "contained")]
)
_FIGURE_POSITIONS = (0, 2, 4)  # positions of these figures in the results of `compare_columns`


def create_comparisons(engine: SqlEngine, pairs: str, table: str) -> None:
    """Create `table` with the columns of `COMPARISONS`: a row for each row (a, b) of the table `pairs`.

    `a` and `b` are documents. `containment` is the share of a's shingles that b contains, and `contained` the share
    of b's shingles that a contains. Pairs with a document that is not in the data set are left out.
    """
    query = f"""
        SELECT pairs.a, pairs.b, {_sketch_columns("a")}, {_sketch_columns("b")}
        FROM {pairs} AS pairs
        JOIN documents AS a ON a.document = pairs.a
        JOIN documents AS b ON b.document = pairs.b
    """
    engine.create_mapped(table, query, _compare, COMPARISONS)


def _sketch_columns(alias: str) -> str:
    names = ("signature", "sample", "exponent", "shingles")
    return ", ".join(f"{alias}.{name} AS {name}_{alias}" for name in names)


def _compare(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = np.arange(batch.num_rows)
    figures, exact = np.empty((6, batch.num_rows)), np.empty(batch.num_rows, dtype=np.bool_)
    if batch.num_rows:
        compare_columns(rows, rows, _sketches(batch, "a"), _sketches(batch, "b"), figures, exact)
    columns = [batch.column("a"), batch.column("b"), *(pa.array(figures[n], pa.float32()) for n in _FIGURE_POSITIONS)]
    return pa.RecordBatch.from_arrays(columns, schema=COMPARISONS)


def _sketches(batch: pa.RecordBatch, alias: str) -> tuple[NDArray[Any], ...]:
    """Return the columns that `compare_columns` needs: signatures, samples, sample sizes, exponents, shingles."""
    offsets, data = _bytes_of(batch.column(f"signature_{alias}"))
    signatures = data[offsets[0] : offsets[-1]].reshape(batch.num_rows, -1)
    offsets, data = _bytes_of(batch.column(f"sample_{alias}"))
    values = data[offsets[0] : offsets[-1]].view("<u4")
    sizes = np.diff(offsets) // 4
    samples = np.zeros((batch.num_rows, int(sizes.max())), dtype=np.uint32)
    samples[np.arange(samples.shape[1]) < sizes[:, None]] = values
    exponents, shingles = (
        batch.column(f"{name}_{alias}").to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("exponent", "shingles")
    )
    return signatures, samples, sizes.astype(np.int64), exponents, shingles


def _bytes_of(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of the values of a binary column, and the bytes to which they point."""
    column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    first = column.offset
    values = np.frombuffer(offsets, np.int32)[first : first + len(column) + 1].astype(np.int64)
    return values, np.frombuffer(data, np.uint8)

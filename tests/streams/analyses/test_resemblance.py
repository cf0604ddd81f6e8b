"""Tests of streams/analyses/resemblance.py and of the DuckDB engine below it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.analyses.resemblance import create_comparisons
from streams.analyses.sql_engine import DuckDb
from streams.errors import InputError
from streams.export.schema import DOCUMENTS, MANIFEST_FILE
from streams.settings import load
from streams.sketch.sketcher import Sketcher, compare

TEXTS = {
    1: " ".join(f"word{n}" for n in range(60)),
    2: " ".join(f"word{n}" for n in range(30, 90)),
    3: " ".join(f"other{n}" for n in range(5)),
    4: " ".join(f"word{n}" for n in range(3_000)),
    5: " ".join(f"word{n}" for n in range(500, 3_000)),
}


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    folder = tmp_path / "it's an [export]*"
    (folder / "documents" / "00000001").mkdir(parents=True)
    sketcher = Sketcher(load().scheme)
    rows = []
    for number, text in TEXTS.items():
        sketch = sketcher.sketch(text)
        rows.append(
            {
                "document": number,
                "id": sketch.document,
                "first_seen": 0,
                "tokens": sketch.tokens,
                "shingles": sketch.shingles,
                "exponent": sketch.exponent,
                "signature": sketch.signature.tobytes(),
                "sample": sketch.sample.astype("<u4").tobytes(),
            }
        )
    pq.write_table(pa.Table.from_pylist(rows, DOCUMENTS), folder / "documents" / "00000001" / "part-00000.parquet")
    (folder / MANIFEST_FILE).write_text("{}")
    return folder


def test_figures_equal_those_of_the_sketches(data_set):
    sketcher = Sketcher(load().scheme)
    pairs = [(1, 2), (2, 1), (1, 3), (4, 5), (5, 1), (3, 3)]
    with DuckDb(data_set, memory_mib=256, threads=1) as engine:
        engine.insert("pairs", pa.table({"a": [a for a, _ in pairs] + [9], "b": [b for _, b in pairs] + [1]}))
        create_comparisons(engine, "pairs", "compared")
        rows = engine.rows("SELECT a, b, resemblance, containment, contained FROM compared")
    assert len(rows) == len(pairs)
    for a, b, *figures in rows:
        expected = compare(sketcher.sketch(TEXTS[a]), sketcher.sketch(TEXTS[b]))
        assert np.allclose(figures, [expected.resemblance, expected.containment, expected.contained], atol=1e-6)


def test_no_pairs_give_an_empty_table(data_set):
    with DuckDb(data_set, memory_mib=256, threads=1) as engine:
        engine.insert("pairs", pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}))
        create_comparisons(engine, "pairs", "compared")
        assert engine.rows("SELECT * FROM compared") == []
        assert engine.rows("SELECT * FROM captures") == []  # a table without files is empty


def test_a_folder_without_an_export_is_refused(tmp_path):
    with pytest.raises(InputError, match="no export"):
        DuckDb(tmp_path, memory_mib=256, threads=1)

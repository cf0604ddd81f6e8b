"""DuckDB has limited memory, and its errors are errors for users."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from streams.analyses.sql_engine import DuckDb
from streams.errors import StateError
from streams.export.duckdb_connection import SqlLimits, connect, quote
from tests.analysis_data import page, write_data_set

LARGE_VALUE = "SELECT list(range) FROM range(20_000_000)"


def test_a_statement_that_needs_too_much_memory_is_an_error_for_users(tmp_path: Path) -> None:
    with (
        pytest.raises(StateError, match="more memory than its 16 MiB"),
        connect(SqlLimits(memory_mib=16, threads=1), tmp_path) as connection,
    ):
        connection.execute(LARGE_VALUE)
    assert not list(tmp_path.iterdir())


def test_the_same_error_of_an_analysis(tmp_path: Path) -> None:
    folder = write_data_set(tmp_path / "data", [page("http://a.example/", "some words of a page")])
    with (
        pytest.raises(StateError, match="more memory than its 16 MiB"),
        DuckDb(folder, memory_mib=16, threads=1) as engine,
    ):
        engine.rows(LARGE_VALUE)


def test_a_missing_file_is_an_error_for_users(tmp_path: Path) -> None:
    folder = write_data_set(tmp_path / "data", [page("http://a.example/", "some words of a page")])
    with (
        pytest.raises(StateError, match="cannot read or write a file"),
        DuckDb(folder, memory_mib=64, threads=1) as engine,
    ):
        engine.rows("SELECT * FROM 'absent.parquet'")


def test_a_quote_in_a_path_does_not_end_the_literal() -> None:
    text = "it's"
    with connect(SqlLimits(memory_mib=64, threads=1)) as connection:
        connection.register("one", pa.table({"a": [1]}))
        assert connection.execute(f"SELECT '{quote(text)}' FROM one").fetchall() == [(text,)]

"""Run the SQL of the analyses over an exported data set, with DuckDB.

The analyses only need the methods of `SqlEngine`. Each step creates a table from a query, so that a long chain of
steps is not planned and run as one statement, and a failure names its step.
"""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, Self

import duckdb
import pyarrow as pa

from streams.errors import InputError
from streams.export.schema import MANIFEST_FILE, TABLES, files_pattern

_ROWS_PER_BATCH = 1 << 16


class SqlEngine(Protocol):
    """Executes SQL in the dialect that DuckDB and Spark share."""

    def create(self, table: str, query: str) -> None:
        """Create a table from the result of a query; replace a table of this name."""

    def insert(self, table: str, rows: pa.Table) -> None:
        """Create a table from these rows; replace a table of this name."""

    def drop(self, *tables: str) -> None:
        """Delete tables that are not needed any more."""

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query in batches of columns."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a small result."""


class DuckDb:
    """The tables of a data set in DuckDB. Tables that exceed the memory are in a temporary folder."""

    def __init__(
        self, data_set: Path, *, memory_mib: int, threads: int, temporary_folder: Path | None = None
    ) -> None:
        """Open a data set. Raise InputError if the folder has no complete one."""
        if not (data_set / MANIFEST_FILE).is_file():
            raise InputError(f"no export in {data_set}", "create it with `lostfound export`")
        self._temporary = tempfile.TemporaryDirectory(prefix="lostfound-sql-", dir=temporary_folder)
        folder = Path(self._temporary.name)
        # Tables in a file are compressed, and can be evicted from memory.
        self._connection = duckdb.connect(str(folder / "tables.duckdb"))
        self._connection.execute(f"SET memory_limit = '{memory_mib}MiB'")
        self._connection.execute(f"SET threads = {threads}")
        self._connection.execute(f"SET temp_directory = '{_quote(str(folder / 'spill'))}'")
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET enable_progress_bar = false")
        for table, schema in TABLES.items():
            self._add_view(data_set, table, schema)

    def _add_view(self, data_set: Path, table: str, schema: pa.Schema) -> None:
        pattern = files_pattern(table)
        if any(data_set.glob(pattern)):
            source = f"SELECT * FROM read_parquet('{_quote(glob.escape(str(data_set)))}/{pattern}')"
            self._connection.execute(f"CREATE VIEW {table} AS {source}")
        else:
            self.insert(table, schema.empty_table())

    def create(self, table: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE TABLE {table} AS {query}")

    def insert(self, table: str, rows: pa.Table) -> None:
        self._connection.register("inserted_rows", rows)
        self.create(table, "SELECT * FROM inserted_rows")
        self._connection.unregister("inserted_rows")

    def drop(self, *tables: str) -> None:
        for table in tables:
            self._connection.execute(f"DROP TABLE {table}")

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        reader: pa.RecordBatchReader = self._connection.sql(query).to_arrow_reader(_ROWS_PER_BATCH)
        yield from reader

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()

    def close(self) -> None:
        self._connection.close()
        self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _quote(path: str) -> str:
    return path.replace("'", "''")

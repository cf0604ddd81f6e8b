"""Run the SQL of the analyses over an exported data set, with DuckDB.

The analyses only need the methods of `SqlEngine`. Each step creates a table from a query, so that a long chain of
steps is not planned and run as one statement, and a failure names its step.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from streams.export.data_set import read_lock
from streams.export.duckdb_connection import SqlLimits, connect, quote
from streams.export.schema import TABLES, files_pattern

_ROWS_PER_BATCH = 1 << 16

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A pure function of columns. Spark runs it on many machines, so it must not refer to files or connections."""


class SqlEngine(Protocol):
    """Executes SQL in the dialect that DuckDB and Spark share."""

    def create(self, table: str, query: str) -> None:
        """Create a table from the result of a query, or replace it."""

    def create_mapped(self, table: str, query: str, function: BatchFunction, schema: pa.Schema) -> None:
        """Apply a function to each batch of a query's result, and create a table from the returned batches."""

    def insert(self, table: str, rows: pa.Table) -> None:
        """Create a table from these rows, or replace it."""

    def drop(self, *tables: str) -> None:
        """Delete tables."""

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query in batches of columns."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a small result."""


class DuckDb:
    """The tables of a data set in DuckDB. Tables that exceed the memory are stored in a temporary folder."""

    def __init__(
        self, data_set: Path, *, memory_mib: int, threads: int, temporary_folder: Path | None = None
    ) -> None:
        """Open a data set. Exports to its folder wait until the engine is closed.

        Raise InputError if the folder contains no complete data set, and StateError if a file is damaged.
        """
        with ExitStack() as resources:
            resources.enter_context(read_lock(data_set))
            self._connection = resources.enter_context(connect(SqlLimits(memory_mib, threads), temporary_folder))
            for table, schema in TABLES.items():
                self._add_view(data_set, table, schema)
            self._resources = resources.pop_all()

    def _add_view(self, data_set: Path, table: str, schema: pa.Schema) -> None:
        pattern = files_pattern(table)
        if any(data_set.glob(pattern)):
            source = f"SELECT * FROM read_parquet('{quote(glob.escape(str(data_set)))}/{pattern}')"
            self._connection.execute(f"CREATE VIEW {table} AS {source}")
        else:
            self.insert(table, schema.empty_table())

    def create(self, table: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE TABLE {table} AS {query}")

    def create_mapped(self, table: str, query: str, function: BatchFunction, schema: pa.Schema) -> None:
        self.insert(table, pa.Table.from_batches(map(function, self.batches(query)), schema))

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
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.__exit__(error_type, error, traceback)  # `connect` translates the errors of DuckDB

"""Run the SQL of the analyses over an exported data set, with Spark.

Spark itself is configured as usual: `SPARK_CONF_DIR` or `spark-submit` name the cluster. All its machines need
access to the data set and to the folder of the tables. pyspark is an optional dependency.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from streams.analyses.sql_engine import BatchFunction
from streams.export.data_set import read_lock
from streams.export.schema import TABLES, files_pattern

_GLOB_CHARACTERS = str.maketrans({character: f"\\{character}" for character in "\\*?[]{},"})


def start_session() -> SparkSession:
    """Return the session that the configuration of Spark describes.

    Workers run the Python of this process unless PYSPARK_PYTHON names a different one: it must have this package.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName("lostfound").getOrCreate()


class Spark:
    """The tables of a data set in a Spark session. Each table is a folder of Parquet files."""

    def __init__(self, data_set: Path, session: SparkSession, temporary_folder: Path | None = None) -> None:
        """Open a data set. Raise InputError if the folder contains no complete data set."""
        self._session = session
        self._tables_created = 0
        self._table_folders: dict[str, Path] = {}
        with ExitStack() as resources:
            resources.enter_context(read_lock(data_set))
            folder = tempfile.TemporaryDirectory(prefix="lostfound-sql-", dir=temporary_folder)
            self._folder = Path(resources.enter_context(folder))
            for table, schema in TABLES.items():
                self._add_view(data_set.absolute(), table, schema)
            self._resources = resources.pop_all()

    def _add_view(self, data_set: Path, table: str, schema: pa.Schema) -> None:
        pattern = files_pattern(table)
        if any(data_set.glob(pattern)):
            files = f"{str(data_set).translate(_GLOB_CHARACTERS)}/{pattern}"
            self._session.read.parquet(files).createOrReplaceTempView(table)
        else:
            self.insert(table, schema.empty_table())

    def create(self, table: str, query: str) -> None:
        self._write(table, self._session.sql(query))

    def create_mapped(self, table: str, query: str, function: BatchFunction, schema: pa.Schema) -> None:
        def map_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return map(function, batches)

        self._write(table, self._session.sql(query).mapInArrow(map_batches, from_arrow_schema(schema)))

    def insert(self, table: str, rows: pa.Table) -> None:
        self._write(table, self._session.createDataFrame(rows, from_arrow_schema(rows.schema)))

    def _write(self, table: str, rows: DataFrame) -> None:
        """Write a table to a new folder, because the query may read the table that it replaces."""
        self._tables_created += 1
        folder = self._folder / f"{table}-{self._tables_created}"
        rows.write.parquet(str(folder))
        self._session.read.schema(rows.schema).parquet(str(folder)).createOrReplaceTempView(table)
        self._delete_files(table)
        self._table_folders[table] = folder

    def drop(self, *tables: str) -> None:
        for table in tables:
            self._session.catalog.dropTempView(table)
            self._delete_files(table)

    def _delete_files(self, table: str) -> None:
        if folder := self._table_folders.pop(table, None):
            shutil.rmtree(folder)

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        yield from self._session.sql(query).toArrow().to_batches()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._session.sql(query).collect()]

    def close(self) -> None:
        for table in {*TABLES, *self._table_folders}:
            self._session.catalog.dropTempView(table)
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

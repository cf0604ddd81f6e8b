"""Connect to DuckDB with limited memory. Tables that exceed it are stored in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec

from streams.errors import StateError


class SqlLimits(msgspec.Struct, frozen=True):
    """Limits on the memory and the threads of DuckDB."""

    memory_mib: int = 1024
    threads: int = 0  # 0: one per core


@contextmanager
def connect(limits: SqlLimits, temporary_folder: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database, which is deleted when the block ends.

    Raise StateError if a statement in the block needs too much memory, or if files cannot be read or written.
    """
    try:
        with _connect(limits, temporary_folder) as connection:
            yield connection
    except duckdb.OutOfMemoryException as error:
        hint = "raise analyses.memory_mib, or free space on the disk of the temporary tables"
        raise StateError(f"the SQL engine needs more memory than its {limits.memory_mib} MiB", hint) from error
    except (duckdb.IOException, duckdb.InvalidInputException) as error:
        reason = str(error).partition("\n")[0]
        hint = "check that the disk has space; if a file of the data set is damaged, export again"
        raise StateError(f"the SQL engine cannot read or write a file: {reason}", hint) from error


@contextmanager
def _connect(limits: SqlLimits, temporary_folder: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    with tempfile.TemporaryDirectory(prefix="lostfound-sql-", dir=temporary_folder) as name:
        folder = Path(name)
        # Tables in a file are compressed, and can be evicted from memory.
        with duckdb.connect(str(folder / "tables.duckdb")) as connection:
            connection.execute(f"SET memory_limit = '{limits.memory_mib}MiB'")
            if limits.threads:
                connection.execute(f"SET threads = {limits.threads}")
            connection.execute(f"SET temp_directory = '{quote(str(folder / 'spill'))}'")
            connection.execute("SET preserve_insertion_order = false")
            connection.execute("SET enable_progress_bar = false")
            yield connection


def quote(text: str) -> str:
    """Return text for use between the quotes of an SQL string literal."""
    return text.replace("'", "''")

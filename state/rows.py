"""Protocols for reading and writing the rows of a state.

Four stores implement the protocols: the RocksDB store (`state.store`), the store that is sharded over Kafka workers,
the store that is read through one of these workers (both in `streams.kafka.rows.sharded_store`), and the in-memory
store of the tests. The contract test `tests/state/test_rows.py` runs against all four. Code that only reads or writes
rows uses a protocol, never a concrete store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from state.changes import Changes
from state.families import Family

if TYPE_CHECKING:
    from state.row_blocks import RowBlock

Row = tuple[bytes, bytes]
"""A key and its value."""
ROW_OVERHEAD_BYTES = 128  # memory that Python needs for a row in addition to the bytes of its key and value


class RowReader(Protocol):
    """Reads rows, in ascending order of their keys."""

    @property
    def path(self) -> Path:
        """The folder that has the rows; for a server, its name as a path. Used in messages."""

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of many keys, in the order of the keys; sorted keys are read fastest."""

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        """Yield the rows whose keys begin with `prefix`, starting at the key `start`."""

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        """Return at most `limit` keys that begin with `prefix`, starting at the key `start`."""

    def rows_under(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        """Return the rows under each prefix, at most `limit` per prefix."""

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """Return at most `limit` keys under each prefix."""

    def catch_up(self) -> None:
        """Make the latest commits of the writer visible. Do nothing in a store that is always up to date."""


class LocalReader(RowReader, Protocol):
    """Reads rows on this machine, including in descending order, which operators require."""

    def read_rows(
        self, family: Family, prefixes: Sequence[bytes], limit: int | None, start: bytes | None, bytes_max: int
    ) -> tuple[list[list[Row]], bytes | None]:
        """Read prefixes in order, at most `limit` rows each, and stop once the rows reach `bytes_max`.

        Return the rows of the prefixes read, and the key at which the rows under the last of them continue, or None
        if all are included. At least one row is returned if any exists, so that repeated calls make progress. `start`
        is the first key to read; it is allowed only with a single prefix.
        """

    def blocks(self, family: Family) -> Iterator[RowBlock]:
        """Yield all rows in blocks, which is faster than `scan` for compiled code."""

    def scan_reverse(self, family: Family, prefix: bytes, start: bytes) -> Iterator[Row]:
        """Yield the rows whose keys begin with `prefix`, descending from the key `start`."""

    def last_rows_under(self, family: Family, prefixes: Sequence[bytes]) -> list[Row | None]:
        """Return the row with the greatest key under each prefix, or None.

        Keys must be at most 32 bytes longer than their prefix.
        """

    def may_have_rows(self, family: Family, prefixes: Sequence[bytes]) -> list[bool]:
        """Return whether each prefix may have rows, without reading rows. False means that it has no rows."""


class RowWriter(Protocol):
    """Writes changes atomically."""

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        """Commit all changes or none. With `sync`, return only when they are on disk."""


class RowStore(RowReader, RowWriter, Protocol):
    """Reads rows and writes changes."""

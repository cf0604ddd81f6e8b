"""Rows by key: the protocols of all stores of state rows.

Four stores implement them: the RocksDB store (`state.store`), the store that is sharded over Kafka workers, the store
that is read through one of these workers (both in `streams.kafka.rows.sharded_store`), and the in-memory store of the
tests. One contract test runs against all of them: `tests/state/test_rows.py`. Code that only reads or writes rows
uses a protocol, never a concrete store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from state.changes import Changes
from state.families import Family

Row = tuple[bytes, bytes]
"""A key and its value."""


class RowReader(Protocol):
    """Reads rows, in ascending order of key."""

    @property
    def path(self) -> Path:
        """Where the rows are, for messages."""

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of many keys, in the order of the keys; sorted keys are read fastest."""

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        """Yield the rows whose key begins with `prefix`, starting at the key `start`."""

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        """Return at most `limit` keys that begin with `prefix`, starting at the key `start`."""

    def scan_prefixes(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        """Return the rows under each prefix, at most `limit` per prefix."""

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """Return at most `limit` keys under each prefix."""

    def catch_up(self) -> None:
        """Make the writer's latest commits visible. Do nothing if rows are always current."""


class LocalReader(RowReader, Protocol):
    """Reads local rows, also backwards, as operators require."""

    def scan_reverse(self, family: Family, prefix: bytes, start: bytes) -> Iterator[Row]:
        """Yield the rows whose key begins with `prefix`, descending from the key `start`."""

    def last_under(self, family: Family, prefixes: Sequence[bytes]) -> list[Row | None]:
        """Return the row with the greatest key under each prefix, or None.

        Keys must be at most 32 bytes longer than their prefix.
        """

    def may_have_rows(self, family: Family, prefixes: Sequence[bytes]) -> list[bool]:
        """Return whether each prefix can have rows, without reading rows; False only if it has none."""


class RowWriter(Protocol):
    """Writes changes atomically."""

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        """Commit all changes or none; with `sync`, they are on disk when this returns."""


class RowStore(RowReader, RowWriter, Protocol):
    """Reads rows and writes changes."""

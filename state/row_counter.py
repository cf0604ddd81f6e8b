"""Count the rows that a scan reads, to show the progress of commands that read the whole state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

from state.families import Family
from state.rows import Row, RowReader

Reader = TypeVar("Reader", bound=RowReader)


class RowCounter(Generic[Reader]):
    """Counts the rows that scans read. `rows` is the given store with counted scans."""

    def __init__(self, store: Reader) -> None:
        self.count = 0
        self.rows = cast(Reader, _CountedRows(store, self))


class _CountedRows:
    """Delegates every method to the store, and counts the rows of its scans."""

    def __init__(self, store: RowReader, counter: RowCounter[Any]) -> None:
        self._store, self._counter = store, counter

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        for row in self._store.scan(family, prefix, start):
            self._counter.count += 1
            yield row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

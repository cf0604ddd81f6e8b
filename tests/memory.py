"""An in-memory `RowStore`: the reference for other stores, and a partition in the simulation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from state.changes import Changes, merge
from state.families import Family
from state.row_blocks import RowBlock, read_blocks
from state.rows import ROW_OVERHEAD_BYTES, Row


class MemoryStore:
    """Sorted dicts by family."""

    path = Path("memory")

    def __init__(self) -> None:
        self.rows: dict[Family, dict[bytes, bytes]] = {family: {} for family in Family}
        self._keys: dict[Family, list[bytes]] = {family: [] for family in Family}
        self.unlisted: set[bytes] = set()  # prefixes that are missing from the prefix index

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self.rows[family].get(key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.rows[family].get(key) for key in keys]

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        rows, keys = self.rows[family], self._keys[family]
        at = bisect_left(keys, prefix if start is None else max(start, prefix))
        while at < len(keys) and keys[at].startswith(prefix):
            yield keys[at], rows[keys[at]]
            at += 1

    def blocks(self, family: Family) -> Iterator[RowBlock]:
        return read_blocks(self.scan(family))

    def scan_reverse(self, family: Family, prefix: bytes, start: bytes) -> Iterator[Row]:
        rows, keys = self.rows[family], self._keys[family]
        at = bisect_right(keys, start) - 1
        while at >= 0 and keys[at].startswith(prefix):
            yield keys[at], rows[keys[at]]
            at -= 1

    def last_rows_under(self, family: Family, prefixes: Sequence[bytes]) -> list[Row | None]:
        return [next(self.scan_reverse(family, prefix, prefix + b"\xff" * 32), None) for prefix in prefixes]

    def may_have_rows(self, _: Family, prefixes: Sequence[bytes]) -> list[bool]:
        return [prefix not in self.unlisted for prefix in prefixes]

    def rows_under(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        return [list(islice(self.scan(family, prefix), limit)) for prefix in prefixes]

    def read_rows(
        self, family: Family, prefixes: Sequence[bytes], limit: int | None, start: bytes | None, bytes_max: int
    ) -> tuple[list[list[Row]], bytes | None]:
        results: list[list[Row]] = []
        size = 0
        for prefix in prefixes:
            if results and size >= bytes_max:
                break
            results.append([])
            for row in islice(self.scan(family, prefix, start), limit):
                if results[-1] and size >= bytes_max:
                    return results, row[0]
                results[-1].append(row)
                size += ROW_OVERHEAD_BYTES + sum(map(len, row))
            size += ROW_OVERHEAD_BYTES
        return results, None

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        return [key for key, _ in islice(self.scan(family, prefix, start), limit)]

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        return [self.keys(family, prefix, limit) for prefix in prefixes]

    def catch_up(self) -> None:
        """Rows are always current."""

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        """Write as the embedded engine's store does: puts overwrite."""
        self._apply(changes, merged=False)

    def merge(self, changes: Changes) -> None:
        """Write as a partition does: puts are facts, which are merged."""
        self._apply(changes, merged=True)

    def _apply(self, changes: Changes, *, merged: bool) -> None:
        for family, keys in changes.deletes.items():
            for key in keys:
                if self.rows[family].pop(key, None) is not None:
                    keys_left = self._keys[family]
                    del keys_left[bisect_left(keys_left, key)]
        for family, puts in changes.puts.items():
            rows = self.rows[family]
            for key, value in puts.items():
                old = rows.get(key)
                if old is None:
                    insort(self._keys[family], key)
                rows[key] = merge(family, old, value) if merged else value

    def copy(self, *families: Family) -> MemoryStore:
        """Return a copy of these families, or of all."""
        other = MemoryStore()
        for family in families or Family:
            other.rows[family] = dict(self.rows[family])
            other._keys[family] = list(self._keys[family])
        return other

"""A collection that is spread over partitions, read as one store: every query of the embedded engine works on it.

A key tells its owner, as in `routing`: one partition is asked. Rows that lie with a document and are looked up by
something else (samples, words, edges), and prefixes that name no owner, are asked of all partitions. An answer of
which a part is missing is an error, never a smaller answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import msgspec

from state import meta
from state.changes import Changes
from state.errors import StateError
from state.families import Family
from state.model import PREFIX_BYTES
from state.scheme import Scheme
from state.store import Store
from streams.kafka.rows.row_query import Row, RowQuery, combined, together
from streams.operators.routing import partition_of

Source = Callable[[RowQuery], Any]
Job = tuple[Source, RowQuery]
Write = Callable[[Mapping[int, Changes]], None]
PAGE_ROWS, PAGE_ROWS_MAX = 64, 4096  # the first page is small: most scans are cut short
_BY_DOCUMENT = frozenset({Family.DOCUMENTS, Family.TEXTS, Family.PARENTS, Family.LOCATIONS, Family.MEMBERS})
_SWEEP = b"s"


class RemoteRows(Store):
    """A store whose rows come from elsewhere, by questions; what needs a folder of its own is not there."""

    def __init__(self, name: str) -> None:
        self.path = Path(name)
        self.writable = False

    def ask(self, ask: RowQuery) -> Any:
        """The answer to a question about the whole collection."""
        raise NotImplementedError

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of one key."""
        return self.get_many(family, [key])[0]

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys, in their order."""
        return list(self.ask(RowQuery("get", family, list(keys)))) if keys else []

    def scan_prefixes(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        """For each prefix the rows under it, at most `limit`."""
        if not prefixes or limit == 0:
            return [[] for _ in prefixes]
        return list(self.ask(RowQuery("firsts", family, list(prefixes), limit=limit or 0)))

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """For each prefix at most `limit` keys under it."""
        return [[key for key, _ in rows] for rows in self.scan_prefixes(family, prefixes, limit)]

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        """Rows whose key begins with `prefix`, ascending, from `start` on; a page at a time."""
        limit = PAGE_ROWS
        while True:
            page = self.ask(RowQuery("page", family, [prefix], start=start, limit=limit))
            yield from page
            if len(page) < limit:
                return
            start, limit = page[-1][0] + b"\0", min(2 * limit, PAGE_ROWS_MAX)

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        """At most `limit` keys that begin with `prefix`, ascending, from `start` on."""
        return [key for key, _ in self.ask(RowQuery("page", family, [prefix], start=start, limit=limit))]

    def catch_up(self) -> None:
        """Rows are always read as they are."""

    def close(self) -> None:
        """Nothing is held."""


class ShardedStore(RemoteRows):
    """The collection as the workers that hold its partitions answer for it."""

    def __init__(
        self,
        name: str,
        scheme: Scheme,
        sources: Mapping[int, tuple[str, Source]],
        partitions: int,
        sweeps: Mapping[bytes, bytes],
        write: Write | None = None,
        threads: Executor | None = None,
    ) -> None:
        """`sources` has, for each partition, who answers for it and how; `sweeps` are their rows.

        With `threads`, several sources are asked at once.

        Raises StateError when nobody answers for some of the partitions.
        """
        super().__init__(name)
        if missing := sorted(set(range(partitions)) - set(sources)):
            raise StateError(
                f"nobody holds partitions {', '.join(map(str, missing))} of {partitions}",
                "ask again once the workers have taken them over; /readyz of each says how far it is",
            )
        self.scheme, self.partitions, self.sweeps = scheme, partitions, sweeps
        self._sources, self._write, self._threads = sources, write, threads
        self.writable = write is not None

    def ask(self, ask: RowQuery) -> Any:
        """Ask owners, and put their answers together."""
        if ask.family is Family.SWEEPS and (rows := self._sweep_rows(ask)) is not None:
            return rows
        if ask.what == "page":
            return self._page(ask)
        owners = [self.owner(ask.family, key) for key in ask.keys]
        found: dict[int, Any] = {}
        by_source: defaultdict[str, list[int]] = defaultdict(list)
        anywhere: list[int] = []
        for place, owner in enumerate(owners):
            (anywhere if owner is None else by_source[self._sources[owner][0]]).append(place)
        jobs: list[Job] = []
        for places in by_source.values():
            numbers = [owner for place in places if (owner := owners[place]) is not None]
            jobs.append((self._sources[numbers[0]][1], _part(ask, places, sorted(set(numbers)), numbers)))
        for places, values in zip(by_source.values(), self._all(jobs), strict=True):
            found.update(zip(places, values, strict=True))
        if anywhere:
            everyone = self._by_source(range(self.partitions))
            answers = self._all([(source, _part(ask, anywhere, numbers)) for source, numbers in everyone])
            found.update(zip(anywhere, together(ask, answers), strict=True))
        return [found[place] for place in range(len(ask.keys))]

    def _all(self, jobs: Sequence[Job]) -> list[Any]:
        """The answers to several questions, asked side by side where there are threads for it."""
        if self._threads is None or len(jobs) < 2:
            return [source(ask) for source, ask in jobs]
        return list(self._threads.map(lambda job: job[0](job[1]), jobs))

    def _page(self, ask: RowQuery) -> list[Row]:
        owner = self.owner(ask.family, ask.keys[0])
        sources = self._by_source(range(self.partitions) if owner is None else [owner])
        parts = [msgspec.structs.replace(ask, partitions=numbers) for _, numbers in sources]
        pages = self._all([(source, part) for (source, _), part in zip(sources, parts, strict=True)])
        return list(combined(ask.family, pages))[: ask.limit]

    def _by_source(self, partitions: Iterable[int]) -> list[tuple[Source, list[int]]]:
        """Who answers for partitions, each with those that are its."""
        by_name: defaultdict[str, list[int]] = defaultdict(list)
        for number in partitions:
            by_name[self._sources[number][0]].append(number)
        return [(self._sources[numbers[0]][1], numbers) for numbers in by_name.values()]

    def _sweep_rows(self, ask: RowQuery) -> Any:
        """Sweeps are in their log; their captures a host in the partitions. None: ask these."""
        if ask.what == "get" and all(key.startswith(_SWEEP) for key in ask.keys):
            return [self.sweeps.get(key) for key in ask.keys]
        if ask.what == "page" and ask.keys[0].startswith(_SWEEP):
            rows = sorted((key, value) for key, value in self.sweeps.items() if key.startswith(ask.keys[0]))
            return [row for row in rows if ask.start is None or row[0] >= ask.start][: ask.limit]
        return None

    def owner(self, family: Family, key: bytes) -> int | None:
        """The partition that has a key, or all that begin with it; None where any may."""
        if family is Family.META:
            # What it says of itself is the same in all, but for their buckets.
            return None if key.startswith(meta.FULL_BUCKET) else 0
        if family is Family.CAPTURES:
            end = key.find(b"\0")
            return partition_of(key[:end], self.partitions) if end >= 0 else None
        if family is Family.BANDS and len(key) == self.scheme.bucket_bytes:
            return partition_of(key, self.partitions)
        if family in _BY_DOCUMENT and len(key) >= PREFIX_BYTES:
            return partition_of(key[:PREFIX_BYTES], self.partitions)
        return None

    def write(self, changes: Changes, *, sync: bool = False) -> None:  # noqa: ARG002
        """Have changes that overwrite taken by the owners of their rows."""
        if self._write is None:
            raise StateError(f"{self.path} is only read", "send what changes it to a worker")
        parts: defaultdict[int, Changes] = defaultdict(Changes)
        for family, keys in changes.deletes.items():
            for key in keys:
                for number in self._writers(family, key):
                    parts[number].delete(family, key)
        for family, rows in changes.puts.items():
            for key, value in rows.items():
                for number in self._writers(family, key):
                    parts[number].put(family, key, value)
        self._write(parts)

    def _writers(self, family: Family, key: bytes) -> Sequence[int]:
        if family in (Family.SWEEPS, Family.META):
            return ()  # derived by each partition from its own captures
        owner = self.owner(family, key)
        # Samples and words end with the prefix of the document that they lie with.
        if family in (Family.SAMPLES, Family.WORDS):
            owner = partition_of(key[-PREFIX_BYTES:], self.partitions)
        return range(self.partitions) if owner is None else (owner,)


def _part(ask: RowQuery, places: list[int], partitions: list[int], owners: list[int] | None = None) -> RowQuery:
    """The question about some of its keys, for those who hold some partitions."""
    keys = [ask.keys[place] for place in places]
    return RowQuery(ask.what, ask.family, keys, partitions, owners or [], limit=ask.limit)

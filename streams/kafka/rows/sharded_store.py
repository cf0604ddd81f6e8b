"""A collection whose rows are sharded over partitions, read as one store by every query of the embedded engine.

The owner of a row follows from its key as in `routing`, so that one partition is read. Two kinds of reads go to all
partitions: rows that are stored with a document but looked up by another key (samples, words, edges), and prefixes
too short to identify an owner. A partition that does not answer is an error: partial answers are never returned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from state import meta
from state.changes import Changes
from state.errors import StateError
from state.families import Family
from state.model import PREFIX_BYTES
from state.rows import Row
from state.scheme import Scheme
from streams.kafka.rows.row_query import (
    GetQuery,
    LookupQuery,
    PrefixQuery,
    RowQuery,
    RowSource,
    ScanQuery,
    merge_answers,
    merge_rows,
)
from streams.operators.routing import partition_of

PAGE_ROWS, PAGE_ROWS_MAX = 64, 4096  # the first page is small: most scans end early
_BY_DOCUMENT = frozenset({Family.DOCUMENTS, Family.TEXTS, Family.PARENTS, Family.LOCATIONS, Family.MEMBERS})
_BY_SUFFIX = frozenset({Family.SAMPLES, Family.WORDS})  # their keys end with the prefix of the owner's document
_DERIVED = frozenset({Family.SWEEPS, Family.META})
_SWEEP = b"s"


class QueryStore(ABC):
    """A `RowReader` that sends every read as a query."""

    def __init__(self, name: str) -> None:
        self.path = Path(name)

    @abstractmethod
    def query(self, query: RowQuery) -> Any:
        """Return the answer of the whole collection."""

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self.get_many(family, [key])[0]

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of many keys, in the order of the keys."""
        return list(self.query(GetQuery(family=family, keys=list(keys)))) if keys else []

    def scan_prefixes(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        """Return the rows under each prefix, at most `limit` per prefix."""
        if not prefixes or limit == 0:
            return [[] for _ in prefixes]
        return list(self.query(PrefixQuery(family=family, keys=list(prefixes), limit=limit)))

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """Return at most `limit` keys under each prefix."""
        return [[key for key, _ in rows] for rows in self.scan_prefixes(family, prefixes, limit)]

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        """Yield the rows whose key begins with `prefix`, beginning at the key `start`; reads page by page."""
        limit = PAGE_ROWS
        while True:
            page = self.query(ScanQuery(family=family, prefix=prefix, start=start, limit=limit))
            yield from page
            if len(page) < limit:
                return
            start, limit = page[-1][0] + b"\0", min(2 * limit, PAGE_ROWS_MAX)

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        """Return at most `limit` keys that begin with `prefix`, beginning at the key `start`."""
        return [key for key, _ in self.query(ScanQuery(family=family, prefix=prefix, start=start, limit=limit))]

    def catch_up(self) -> None:  # noqa: B027 - nothing to do, in every subclass
        """Do nothing: every read sees the current rows."""


class Worker(msgspec.Struct, frozen=True):
    """A source of the rows of some partitions."""

    name: str
    query: RowSource


class ShardedStore(QueryStore):
    """The collection, read from the workers that serve its partitions."""

    def __init__(
        self,
        name: str,
        scheme: Scheme,
        workers: Mapping[int, Worker],
        *,
        partitions: int,
        sweep_rows: Mapping[bytes, bytes],
        threads: Executor | None = None,
    ) -> None:
        """Take the worker of each partition and the rows of sweeps, which are in their log.

        With `threads`, several workers are queried at the same time. Raise StateError if a partition has no worker.
        """
        super().__init__(name)
        if missing := sorted(set(range(partitions)) - set(workers)):
            raise StateError(
                f"no worker serves partitions {', '.join(map(str, missing))} of {partitions}",
                "ask again once workers have taken them over; /readyz of each worker shows its progress",
            )
        self.scheme, self.partitions = scheme, partitions
        self._workers, self._sweep_rows, self._threads = workers, sweep_rows, threads

    def query(self, query: RowQuery) -> Any:
        """Query the owners of the rows and merge their answers."""
        if query.family is Family.SWEEPS:
            return self._query_sweeps(query)
        return self._query_workers(query)

    def _query_sweeps(self, query: RowQuery) -> Any:
        """Merge the sweeps, which are in their log, with their captures per host, which are in the partitions."""
        keys = [query.prefix] if isinstance(query, ScanQuery) else query.keys
        logged = _query_rows(self._sweep_rows, query)
        if all(key.startswith(_SWEEP) for key in keys):
            return logged
        if isinstance(query, ScanQuery):
            return list(islice(merge_rows(query.family, [logged, self._query_workers(query)]), query.limit))
        return merge_answers(query, [logged, self._query_workers(query)])

    def _query_workers(self, query: RowQuery) -> Any:
        if isinstance(query, ScanQuery):
            owner = self.owner(query.family, query.prefix)
            pages = self._query_each(query, range(self.partitions) if owner is None else [owner])
            return list(islice(merge_rows(query.family, pages), query.limit))
        owners = {index: self.owner(query.family, key) for index, key in enumerate(query.keys)}
        answer = self._query_owners(query, {index: owner for index, owner in owners.items() if owner is not None})
        if ownerless := [index for index, owner in owners.items() if owner is None]:
            part = msgspec.structs.replace(query, keys=[query.keys[index] for index in ownerless])
            merged = merge_answers(part, self._query_each(part, range(self.partitions)))
            answer.update(zip(ownerless, merged, strict=True))
        return [answer[index] for index in owners]

    def _query_owners(self, query: LookupQuery, owners: Mapping[int, int]) -> dict[int, Any]:
        """Query the owner of each key; `owners` and the answer are by the index of the key in the query."""
        indexes_by_worker: defaultdict[str, list[int]] = defaultdict(list)
        for index, owner in owners.items():
            indexes_by_worker[self._workers[owner].name].append(index)
        jobs: list[tuple[RowSource, RowQuery]] = []
        for indexes in indexes_by_worker.values():
            numbers = [owners[index] for index in indexes]
            keys = [query.keys[index] for index in indexes]
            part = msgspec.structs.replace(query, keys=keys, partitions=sorted(set(numbers)), owners=numbers)
            jobs.append((self._workers[numbers[0]].query, part))
        answer: dict[int, Any] = {}
        for indexes, values in zip(indexes_by_worker.values(), self._run(jobs), strict=True):
            answer.update(zip(indexes, values, strict=True))
        return answer

    def _query_each(self, query: RowQuery, partitions: Iterable[int]) -> list[Any]:
        """Return the answers of the workers of these partitions, one per worker."""
        partitions_by_worker: defaultdict[str, list[int]] = defaultdict(list)
        for number in partitions:
            partitions_by_worker[self._workers[number].name].append(number)
        return self._run(
            [
                (self._workers[numbers[0]].query, msgspec.structs.replace(query, partitions=numbers))
                for numbers in partitions_by_worker.values()
            ]
        )

    def _run(self, jobs: Sequence[tuple[RowSource, RowQuery]]) -> list[Any]:
        if self._threads is None or len(jobs) < 2:
            return [source(query) for source, query in jobs]
        return list(self._threads.map(lambda job: job[0](job[1]), jobs))

    def owner(self, family: Family, key: bytes) -> int | None:
        """Return the partition of all rows whose key begins with `key`; None when any partition may have some."""
        if family is Family.META:
            # All partitions have the same rows, apart from those about their own full buckets.
            return None if key.startswith(meta.FULL_BUCKET) else 0
        if family is Family.CAPTURES:
            end = key.find(b"\0")
            return partition_of(key[:end], self.partitions) if end >= 0 else None
        if family is Family.BANDS and len(key) == self.scheme.bucket_bytes:
            return partition_of(key, self.partitions)
        if family in _BY_DOCUMENT and len(key) >= PREFIX_BYTES:
            return partition_of(key[:PREFIX_BYTES], self.partitions)
        return None

    def divide(self, changes: Changes) -> dict[int, Changes]:
        """Divide changes by the partitions that own their rows.

        Rows of META and SWEEPS are left out: each partition derives them from its own captures and documents.
        """
        parts: defaultdict[int, Changes] = defaultdict(Changes)
        for family in Family:
            if family in _DERIVED:
                continue
            for key in changes.deletes.get(family, ()):
                for number in self._writers(family, key):
                    parts[number].delete(family, key)
            for key, value in changes.puts.get(family, {}).items():
                for number in self._writers(family, key):
                    parts[number].put(family, key, value)
        return dict(parts)

    def _writers(self, family: Family, key: bytes) -> Sequence[int]:
        """Return the partitions that may have the row of a complete key."""
        if family in _BY_SUFFIX:
            return (partition_of(key[-PREFIX_BYTES:], self.partitions),)
        owner = self.owner(family, key)
        return range(self.partitions) if owner is None else (owner,)


def _query_rows(rows: Mapping[bytes, bytes], query: RowQuery) -> Any:
    """Execute a query on a few rows in memory."""
    if isinstance(query, GetQuery):
        return [rows.get(key) for key in query.keys]
    prefixes = [query.prefix] if isinstance(query, ScanQuery) else query.keys
    start = query.start if isinstance(query, ScanQuery) else None
    matches = [
        sorted(row for row in rows.items() if row[0].startswith(prefix) and row[0] >= (start or prefix))
        for prefix in prefixes
    ]
    pages = [page[: query.limit] for page in matches]
    return pages[0] if isinstance(query, ScanQuery) else pages

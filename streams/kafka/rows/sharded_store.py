"""Present a collection that is sharded over partitions as a single store, like that of the embedded engine.

Usually only one partition is read per key: the owner, which `routing` derives from the key. All partitions are
read for:

- rows that are stored with a document but whose keys do not begin with its id (samples, words, edges)
- chunks of links, which are stored with the pages that contain the links
- prefixes that are too short to identify an owner

If a partition does not answer, the read fails: partial answers are never returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
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
from streams.kafka.rows.row_query import Answer, GetQuery, PrefixQuery, RowQuery, RowSource, merge_answers, read_all
from streams.operators.routing import partition_of

_FIRST_CHUNK_ROWS, _CHUNK_ROWS_MAX = 64, 4096  # the first chunk is small, because most scans end early
_KEYS_STARTING_WITH_DOCUMENT = frozenset(
    {Family.DOCUMENTS, Family.TEXTS, Family.PARENTS, Family.LOCATIONS, Family.MEMBERS}
)
_KEYS_STARTING_WITH_URL = frozenset({Family.CAPTURES, Family.DECISIONS, Family.LINK_LISTS})  # URL key, NUL, rest
# These keys end with the prefix of a document id, which determines the owner.
_KEYS_ENDING_WITH_DOCUMENT = frozenset({Family.SAMPLES, Family.WORDS})
_SWEEP_TAG = b"s"  # the first byte of a sweep's key; rows with other keys contain counts of captures per host


class QueryStore:
    """A `RowReader` that sends every read as a query to `source`, which answers for the whole collection."""

    def __init__(self, name: str, source: RowSource) -> None:
        self.path = Path(name)
        self._source = source

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self.get_many(family, [key])[0]

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, or None, in the order of the keys."""
        return read_all(self._source, GetQuery(family=family, keys=list(keys)))

    def rows_under(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        """Return the rows under each prefix, at most `limit` per prefix."""
        return read_all(self._source, PrefixQuery(family=family, keys=list(prefixes), limit=limit))

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """Return at most `limit` keys under each prefix."""
        return [[key for key, _ in rows] for rows in self.rows_under(family, prefixes, limit)]

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        """Yield the rows whose keys begin with `prefix`, starting at the key `start`. Rows are read in chunks."""
        limit, start = _FIRST_CHUNK_ROWS, prefix if start is None else start
        while True:
            answer = self._source(PrefixQuery(family=family, keys=[prefix], limit=limit, start=start))
            (rows,) = answer.values
            yield from rows
            if answer.next_key is None and len(rows) < limit:
                return
            start, limit = answer.next_key or rows[-1][0] + b"\0", min(2 * limit, _CHUNK_ROWS_MAX)

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        """Return at most `limit` keys that begin with `prefix`, starting at the key `start`."""
        start = prefix if start is None else start
        (rows,) = read_all(self._source, PrefixQuery(family=family, keys=[prefix], limit=limit, start=start))
        return [key for key, _ in rows]

    def catch_up(self) -> None:
        """Do nothing, because every read sees the current rows."""


class ShardedStore(QueryStore):
    """A collection, read from the workers that serve its partitions."""

    def __init__(
        self,
        name: str,
        scheme: Scheme,
        sources: Mapping[int, RowSource],
        *,
        partition_count: int,
        read_sweep_rows: Callable[[], Mapping[bytes, bytes]],
        threads: Executor | None = None,
    ) -> None:
        """Raise StateError if a partition has no worker.

        `sources` maps each partition to its source. `read_sweep_rows` returns the rows derived from the sweep log.
        Workers are queried concurrently with `threads`, and one after another without.
        """
        super().__init__(name, self.query)
        if missing := sorted(set(range(partition_count)) - set(sources)):
            raise StateError(
                f"no worker serves partitions {', '.join(map(str, missing))} of {partition_count}",
                "retry once other workers have taken over these partitions; /readyz shows the progress of a worker",
            )
        self.scheme, self.partition_count = scheme, partition_count
        self._sources, self._read_sweep_rows, self._threads = sources, read_sweep_rows, threads
        self._partitions_by_source: defaultdict[RowSource, list[int]] = defaultdict(list)
        for number in range(partition_count):
            self._partitions_by_source[sources[number]].append(number)

    def query(self, query: RowQuery) -> Answer:
        """Query the partitions that may have the rows, and merge their answers."""
        if query.family is not Family.SWEEPS:
            return self._query_workers(query)
        # The sweeps are derived from the sweep log. Their counts of captures per host are stored in the partitions.
        includes_sweeps = any(key.startswith(_SWEEP_TAG) or not key for key in query.keys)
        sweep_rows = self._read_sweep_rows() if includes_sweeps else {}
        log_answer = Answer([_find_rows(sweep_rows, query, key) for key in query.keys])
        if all(key.startswith(_SWEEP_TAG) for key in query.keys):
            return log_answer
        all_indexes = range(len(query.keys))
        return merge_answers(query, [all_indexes, all_indexes], [log_answer, self._query_workers(query)])

    def _query_workers(self, query: RowQuery) -> Answer:
        """Send each worker one query, for the keys of its partitions and the keys that several partitions may own."""
        owners = [self.owner(query.family, key) for key in query.keys]
        indexes_by_source: defaultdict[RowSource, list[int]] = defaultdict(list)
        for index, owner in enumerate(owners):
            for source in self._partitions_by_source if owner is None else (self._sources[owner],):
                indexes_by_source[source].append(index)
        queries = []
        for source, indexes in indexes_by_source.items():
            part_owners = [owners[index] for index in indexes]
            needed_owners = set(part_owners)  # if one is None, all of the worker's partitions are needed
            partitions = [n for n in self._partitions_by_source[source] if {n, None} & needed_owners]
            keys = [query.keys[index] for index in indexes]
            bytes_max = query.bytes_max // len(indexes_by_source)
            queries.append(
                msgspec.structs.replace(
                    query, keys=keys, partitions=partitions, owners=part_owners, bytes_max=bytes_max
                )
            )
        if self._threads is None or len(queries) < 2:
            answers = [source(worker_query) for source, worker_query in zip(indexes_by_source, queries, strict=True)]
        else:
            answers = list(
                self._threads.map(lambda source, worker_query: source(worker_query), indexes_by_source, queries)
            )
        return merge_answers(query, indexes_by_source.values(), answers)

    def owner(self, family: Family, key: bytes) -> int | None:
        """Return the only partition that can have rows whose keys begin with `key`, or None if several can."""
        if family is Family.META:
            # All partitions have the same rows, except the rows about full buckets.
            return None if key.startswith(meta.FULL_BUCKET) else 0
        if family in _KEYS_STARTING_WITH_URL:
            url_end = key.find(b"\0")  # negative if `key` is a prefix of URL keys
            return partition_of(key[:url_end], self.partition_count) if url_end >= 0 else None
        if family is Family.BANDS and len(key) == self.scheme.bucket_bytes:
            return partition_of(key, self.partition_count)
        if family in _KEYS_STARTING_WITH_DOCUMENT and len(key) >= PREFIX_BYTES:
            return partition_of(key[:PREFIX_BYTES], self.partition_count)
        return None

    def divide(self, changes: Changes) -> dict[int, Changes]:
        """Divide changes by the partitions that own their rows.

        Rows of META and SWEEPS are omitted: each partition derives them from its captures and documents.
        """
        parts: defaultdict[int, Changes] = defaultdict(Changes)
        for family in Family:
            if family in (Family.META, Family.SWEEPS):
                continue
            for key in changes.deletes.get(family, ()):
                for number in self._possible_owners(family, key):
                    parts[number].delete(family, key)
            for key, value in changes.puts.get(family, {}).items():
                for number in self._possible_owners(family, key):
                    parts[number].put(family, key, value)
        return dict(parts)

    def _possible_owners(self, family: Family, key: bytes) -> Sequence[int]:
        """Return the partitions that may have a row with this key."""
        if family in _KEYS_ENDING_WITH_DOCUMENT:
            return (partition_of(key[-PREFIX_BYTES:], self.partition_count),)
        owner = self.owner(family, key)
        return range(self.partition_count) if owner is None else (owner,)


def _find_rows(sweep_rows: Mapping[bytes, bytes], query: RowQuery, key: bytes) -> Any:
    """Answer a query for one key from the rows derived from the sweep log."""
    if isinstance(query, GetQuery):
        return sweep_rows.get(key)
    start = query.start or b""
    rows = sorted(row for row in sweep_rows.items() if row[0].startswith(key) and row[0] >= start)
    return rows[: query.limit]

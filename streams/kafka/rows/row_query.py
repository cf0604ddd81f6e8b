"""Queries for rows: their types, their execution on the stores of partitions, and the merging of answers.

    GetQuery      the value of each key, or None
    PrefixQuery   the rows under each key prefix

Workers send queries to one another as msgpack. If several partitions have a row with the same key, the values are
merged into one.

The sizes of queries and answers are bounded, so that no client can exhaust the memory of a worker. An answer may
cover only the first keys of its query, and only the first rows under the last of these prefixes. `read_all` requests
the rest. The worker keeps nothing between two requests.
"""

from __future__ import annotations

import heapq
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import msgspec

from state.changes import merge
from state.errors import StateError
from state.families import Family
from state.rows import ROW_OVERHEAD_BYTES, LocalReader, Row

ANSWER_BYTES_MAX = 1 << 20  # unless a worker has a lower limit
QUERY_KEYS_BYTES_MAX = 256 << 10  # a query whose keys have more bytes is sent in parts
KEY_OVERHEAD_BYTES = 8  # added to each key by its owner and by msgpack
_FIRST_KEYS, _KEYS_MAX = 8, 1024  # keys read at a time: few at first, because a text may have megabytes
_CAPTURE_COUNT = struct.Struct(">Q")


class _Query(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query with one answer per key."""

    family: Family
    keys: list[bytes]  # in a PrefixQuery, key prefixes
    partitions: list[int] | None = None  # the partitions to read; None: the whole collection
    owners: list[int | None] = []  # per key: the only partition to read; None: all of `partitions`
    bytes_max: int = ANSWER_BYTES_MAX  # approximate size of the answer, which has at least one value or row


class GetQuery(_Query, frozen=True, tag="get"):
    """A query for the values of keys."""

    def read(self, store: LocalReader, keys: Sequence[bytes], bytes_max: int) -> Answer:
        """Return the values of the first keys in one partition, until they reach `bytes_max`."""
        values: list[bytes | None] = []
        size, count = 0, _FIRST_KEYS
        while len(values) < len(keys) and (size < bytes_max or not values):
            chunk = store.get_many(self.family, keys[len(values) : len(values) + count])
            values += chunk
            size += sum(ROW_OVERHEAD_BYTES + len(value or b"") for value in chunk)
            count = max(1, min(_KEYS_MAX, (bytes_max - size) * len(values) // size))  # as many as fit, by mean size
        return Answer(values)

    def merge(self, values: Iterable[bytes | None]) -> bytes | None:
        """Merge the values that several partitions have for one key."""
        present = [value for value in values if value is not None]
        return reduce(partial(merge_values, self.family), present) if present else None


class PrefixQuery(_Query, frozen=True, tag="prefixes"):
    """A query for the rows under key prefixes."""

    limit: int | None = None  # rows per prefix; None: all
    start: bytes | None = None  # the key from which to read; allowed only if `keys` contains one prefix

    def read(self, store: LocalReader, keys: Sequence[bytes], bytes_max: int) -> Answer:
        """Return the rows under the first prefixes in one partition, until they reach `bytes_max`."""
        return Answer(*store.read_rows(self.family, keys, self.limit, self.start, bytes_max))

    def merge(self, scans: Iterable[Iterable[Row]]) -> list[Row]:
        """Merge the rows that several partitions have under one prefix."""
        return list(islice(merge_rows(self.family, scans), self.limit))


RowQuery = GetQuery | PrefixQuery


class Source(msgspec.Struct, frozen=True):
    """The worker that read some partitions for an answer, and the generation of the group in which it owned them."""

    url: str
    generation: int
    partitions: list[int]


class Answer(msgspec.Struct, frozen=True):
    """The answer to the first keys of a query, as many as its `bytes_max` allows; `read_all` requests the rest."""

    values: list[Any]  # per key: a value, or the rows under a prefix
    next_key: bytes | None = None  # where the rows under the last of these prefixes continue; None: all are included
    sources: list[Source] = []


class _GetAnswer(Answer, frozen=True):
    values: list[bytes | None]


class _PrefixAnswer(Answer, frozen=True):
    values: list[list[Row]]


RowSource = Callable[[RowQuery], Answer]
"""A function that answers row queries, from the stores of this process or through another worker."""
ANSWER_TYPES: dict[type, type[Answer]] = {GetQuery: _GetAnswer, PrefixQuery: _PrefixAnswer}


def read_all(source: RowSource, query: RowQuery) -> list[Any]:
    """Return the complete answer to a query, with as many requests as its size requires."""
    values: list[Any] = []
    while len(values) < len(query.keys):
        answer = source(msgspec.structs.replace(query, keys=_first_keys(query.keys, len(values))))
        if not answer.values:
            raise StateError("an answer to a query has no values", "use the same version of lostfound as the worker")
        values += answer.values
        while answer.next_key is not None:
            assert isinstance(query, PrefixQuery)
            rows = values[-1]
            limit = None if query.limit is None else query.limit - len(rows)
            prefix = query.keys[len(values) - 1]
            answer = source(msgspec.structs.replace(query, keys=[prefix], start=answer.next_key, limit=limit))
            rows += answer.values[0]
    return values


def _first_keys(keys: Sequence[bytes], start: int) -> list[bytes]:
    """Return the keys from the index `start` that fit into one query."""
    size, end = 0, start
    while end < len(keys) and (end == start or size < QUERY_KEYS_BYTES_MAX):
        size += len(keys[end]) + KEY_OVERHEAD_BYTES
        end += 1
    return list(keys[start:end])


def run_query(stores: Mapping[int, LocalReader], query: RowQuery) -> Answer:
    """Execute a query on the stores of its partitions.

    Raise KeyError if a partition has no store, and ValueError if `partitions` or `owners` are not set.
    """
    if not query.partitions or len(query.owners) != len(query.keys):
        raise ValueError("the query lacks partitions, or an owner for each key")
    if isinstance(query, PrefixQuery) and query.start is not None and len(query.keys) != 1:
        raise ValueError("the query has a start, but not exactly one prefix")
    indexes_by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for index, owner in enumerate(query.owners):
        for partition in query.partitions if owner is None else (owner,):
            indexes_by_partition[partition].append(index)
    answers = [
        query.read(
            stores[partition], [query.keys[index] for index in indexes], query.bytes_max // len(indexes_by_partition)
        )
        for partition, indexes in indexes_by_partition.items()
    ]
    return merge_answers(query, indexes_by_partition.values(), answers)


def merge_answers(query: RowQuery, indexes_by_part: Iterable[Sequence[int]], answers: Iterable[Answer]) -> Answer:
    """Merge the answers to the parts of a query. `indexes_by_part` locates the keys of each part in `query.keys`.

    The merged answer ends before the first key that a part has not read, and its last rows end before the first row
    that a part has not read.
    """
    values_by_index: list[list[Any]] = [[] for _ in query.keys]
    sources: list[Source] = []
    end, next_keys = len(query.keys), defaultdict[int, list[bytes]](list)
    for indexes, answer in zip(indexes_by_part, answers, strict=True):
        sources += answer.sources
        for index, value in zip(indexes, answer.values, strict=False):
            values_by_index[index].append(value)
        if len(answer.values) < len(indexes):
            end = min(end, indexes[len(answer.values)])
        if answer.next_key is not None:
            last = indexes[len(answer.values) - 1]
            next_keys[last].append(answer.next_key)
            end = min(end, last + 1)
    merged: list[Any] = [values[0] if len(values) == 1 else query.merge(values) for values in values_by_index[:end]]
    check_generations(sources)
    if end - 1 not in next_keys:
        return Answer(merged, sources=sources)
    assert isinstance(query, PrefixQuery)
    next_key = min(next_keys[end - 1])
    merged[-1] = [row for row in merged[-1] if row[0] < next_key]
    return Answer(merged, None if len(merged[-1]) == query.limit else next_key, sources)


def check_generations(sources: Sequence[Source]) -> None:
    """Raise StateError if workers owned their partitions in different generations of the consumer group.

    A worker that has lost its connection to the broker still considers itself the owner, while another worker already
    changes the same partitions.
    """
    by_generation = {source.generation: source for source in sources}
    if len(by_generation) > 1:
        descriptions = "; ".join(
            f"generation {generation}: {source.url} with partitions {', '.join(map(str, source.partitions))}"
            for generation, source in sorted(by_generation.items())
        )
        raise StateError(
            f"the partitions are being reassigned, and the parts of the answer do not match: {descriptions}",
            "retry once all workers are ready; if the error remains, restart the worker with the older generation",
        )


def single_generation(source: RowSource) -> RowSource:
    """Return a source that raises StateError if the partitions are reassigned between two of its answers."""
    first_sources: list[Source] = []

    def checked_source(query: RowQuery) -> Answer:
        answer = source(query)
        check_generations([*first_sources, *answer.sources])
        first_sources[:] = first_sources or answer.sources[:1]
        return answer

    return checked_source


def merge_rows(family: Family, scans: Iterable[Iterable[Row]]) -> Iterator[Row]:
    """Merge sorted rows of several partitions into one sorted sequence without duplicate keys."""
    for key, rows in groupby(heapq.merge(*scans, key=itemgetter(0)), key=itemgetter(0)):
        yield key, reduce(partial(merge_values, family), (value for _, value in rows))


def merge_values(family: Family, first: bytes, second: bytes) -> bytes:
    """Merge the values that two partitions have for one key.

    In the family SWEEPS, partitions contain only counts of captures per host, which are added up; the sweeps
    themselves are in the sweep log. Values of all other families are merged like two changes to one row.
    """
    if family is not Family.SWEEPS:
        return merge(family, first, second)
    assert len(first) == len(second) == _CAPTURE_COUNT.size, "partitions contain only counts in the family SWEEPS"
    return _CAPTURE_COUNT.pack(_CAPTURE_COUNT.unpack(first)[0] + _CAPTURE_COUNT.unpack(second)[0])

"""Queries for rows of partitions: their types, their execution on local stores, and merging their answers.

    GetQuery      keys           the value of each key, or None
    PrefixQuery   key prefixes   the rows under each prefix
    ScanQuery     a key prefix   one page of the rows under it

Every query is executed on the stores of some partitions and sent between workers as msgpack. Several partitions may
have rows with the same key: their values are merged into one.
"""

from __future__ import annotations

import heapq
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from state.changes import merge
from state.families import Family
from state.rows import Row, RowReader

_COUNT = struct.Struct(">Q")


class _Lookup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query for several keys or key prefixes, with one answer per key."""

    family: Family
    keys: list[bytes]
    partitions: list[int] | None = None  # None: the whole collection
    owners: list[int] | None = None  # the partition to read each key from; None: read every key from all partitions


class GetQuery(_Lookup, frozen=True, tag="get"):
    """Reads the values of keys."""

    def read(self, store: RowReader, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key in one partition."""
        return store.get_many(self.family, keys)

    def merge(self, values: Iterable[bytes | None]) -> bytes | None:
        """Merge the values that several partitions have for one key."""
        present = [value for value in values if value is not None]
        return reduce(partial(merge_values, self.family), present) if present else None


class PrefixQuery(_Lookup, frozen=True, tag="prefixes"):
    """Reads the rows under key prefixes."""

    limit: int | None = None  # rows per prefix; None: all

    def read(self, store: RowReader, keys: Sequence[bytes]) -> list[list[Row]]:
        """Return the rows under each prefix in one partition."""
        return store.scan_prefixes(self.family, keys, self.limit)

    def merge(self, parts: Iterable[list[Row]]) -> list[Row]:
        """Merge the rows that several partitions have under one prefix."""
        return list(islice(merge_rows(self.family, list(parts)), self.limit))


class ScanQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="scan"):
    """Reads one page of the rows under a prefix, in order of key."""

    family: Family
    prefix: bytes
    limit: int
    start: bytes | None = None  # the first key of the page; None: the first one under the prefix
    partitions: list[int] | None = None  # None: the whole collection


LookupQuery = GetQuery | PrefixQuery
RowQuery = GetQuery | PrefixQuery | ScanQuery
ANSWER_TYPES: dict[type, Any] = {
    GetQuery: list[bytes | None],
    PrefixQuery: list[list[Row]],
    ScanQuery: list[Row],
}


class RowSource(Protocol):
    """Answers row queries: a worker, or the stores of this process."""

    def __call__(self, query: RowQuery, /) -> Any:
        """Return the answer, of the type that ANSWER_TYPES has for the query."""
        ...


def run_query(stores: Mapping[int, RowReader], query: RowQuery) -> Any:
    """Execute a query on the stores of its partitions.

    Raises KeyError for a partition that has no store, ValueError for a query that names no partitions.
    """
    if not query.partitions:
        raise ValueError("the query names no partitions")
    if isinstance(query, ScanQuery):
        scans = [stores[number].scan(query.family, query.prefix, query.start) for number in query.partitions]
        return list(islice(merge_rows(query.family, scans), query.limit))
    if query.owners is None:
        return merge_answers(query, [query.read(stores[number], query.keys) for number in query.partitions])
    indexes_by_owner: defaultdict[int, list[int]] = defaultdict(list)
    for index, (owner, _) in enumerate(zip(query.owners, query.keys, strict=True)):
        indexes_by_owner[owner].append(index)
    answer: list[Any] = [None] * len(query.keys)
    for owner, indexes in indexes_by_owner.items():
        values = query.read(stores[owner], [query.keys[index] for index in indexes])
        for index, value in zip(indexes, values, strict=True):
            answer[index] = value
    return answer


def merge_answers(query: LookupQuery, answers: Sequence[Sequence[Any]]) -> list[Any]:
    """Merge the answers of several partitions to one query, key by key."""
    if len(answers) == 1:
        return list(answers[0])
    return [query.merge(parts) for parts in zip(*answers, strict=True)]


def merge_rows(family: Family, scans: Sequence[Iterable[Row]]) -> Iterator[Row]:
    """Merge sorted rows of several partitions into one sorted sequence without duplicate keys."""
    previous: Row | None = None
    for row in heapq.merge(*scans, key=itemgetter(0)):
        if previous is not None and previous[0] == row[0]:
            previous = (row[0], merge_values(family, previous[1], row[1]))
            continue
        if previous is not None:
            yield previous
        previous = row
    if previous is not None:
        yield previous


def merge_values(family: Family, one: bytes, other: bytes) -> bytes:
    """Merge the values that two partitions have for one key.

    The rows that partitions have in the family of sweeps are captures per host, which add up; the sweeps themselves
    are in the log of sweeps. All other values are facts.
    """
    if family is not Family.SWEEPS:
        return merge(family, one, other)
    assert len(one) == len(other) == _COUNT.size, "partitions only have counts in the family of sweeps"
    return _COUNT.pack(_COUNT.unpack(one)[0] + _COUNT.unpack(other)[0])

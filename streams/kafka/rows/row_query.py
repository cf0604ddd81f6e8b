"""Queries for rows: their types, their execution on the stores of partitions, and the merging of answers.

    GetQuery      the value of each key, or None
    PrefixQuery   the rows under each key prefix

Workers send queries to one another as msgpack. If several partitions have a row with the same key, the values are
merged into one.
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
from state.families import Family
from state.rows import Row, RowReader

_CAPTURE_COUNT = struct.Struct(">Q")


class _Query(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query with one answer per key."""

    family: Family
    keys: list[bytes]  # in a PrefixQuery, key prefixes
    partitions: list[int] | None = None  # the partitions to read; None: the whole collection
    owners: list[int | None] = []  # per key: the only partition to read; None: all of `partitions`


class GetQuery(_Query, frozen=True, tag="get"):
    """A query for the values of keys."""

    def read(self, store: RowReader, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key in one partition."""
        return store.get_many(self.family, keys)

    def merge(self, values: Iterable[bytes | None]) -> bytes | None:
        """Merge the values that several partitions have for one key."""
        present = [value for value in values if value is not None]
        return reduce(partial(merge_values, self.family), present) if present else None


class PrefixQuery(_Query, frozen=True, tag="prefixes"):
    """A query for the rows under key prefixes."""

    limit: int | None = None  # rows per prefix; None: all
    start: bytes | None = None  # the key from which to read; allowed only if `keys` contains one prefix

    def read(self, store: RowReader, keys: Sequence[bytes]) -> list[list[Row]]:
        """Return the rows under each prefix in one partition."""
        return store.rows_under(self.family, keys, self.limit)

    def merge(self, scans: Iterable[Iterable[Row]]) -> list[Row]:
        """Merge the rows that several partitions have under one prefix."""
        return list(islice(merge_rows(self.family, scans), self.limit))


RowQuery = GetQuery | PrefixQuery
RowSource = Callable[[RowQuery], Any]
"""A function that answers row queries, from the stores of this process or through another worker."""
ANSWER_TYPES: dict[type, Any] = {GetQuery: list[bytes | None], PrefixQuery: list[list[Row]]}


def run_query(stores: Mapping[int, RowReader], query: RowQuery) -> list[Any]:
    """Execute a query on the stores of its partitions.

    Raise KeyError if a partition has no store, and ValueError if `partitions` or `owners` are not set.
    """
    if not query.partitions or len(query.owners) != len(query.keys):
        raise ValueError("the query lacks partitions, or an owner for each key")
    if isinstance(query, PrefixQuery) and query.start is not None:
        # The merge is lazy: it stops reading at the limit.
        (prefix,) = query.keys
        scans = [stores[partition].scan(query.family, prefix, query.start) for partition in query.partitions]
        return [query.merge(scans)]
    indexes_by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for index, owner in enumerate(query.owners):
        for partition in query.partitions if owner is None else (owner,):
            indexes_by_partition[partition].append(index)
    answers = [
        query.read(stores[partition], [query.keys[index] for index in indexes])
        for partition, indexes in indexes_by_partition.items()
    ]
    return merge_answers(query, indexes_by_partition.values(), answers)


def merge_answers(
    query: RowQuery, indexes_by_part: Iterable[Iterable[int]], answers: Iterable[Iterable[Any]]
) -> list[Any]:
    """Merge the answers to the parts of a query. `indexes_by_part` locates the keys of each part in `query.keys`."""
    values_by_index: list[list[Any]] = [[] for _ in query.keys]
    for indexes, values in zip(indexes_by_part, answers, strict=True):
        for index, value in zip(indexes, values, strict=True):
            values_by_index[index].append(value)
    return [values[0] if len(values) == 1 else query.merge(values) for values in values_by_index]


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

"""Reading rows of partitions: one question and its answer, the same for a folder here and for a worker elsewhere.

get     keys                -> a value or None each
firsts  prefixes            -> the rows under each, at most `limit` of each (0: all)
page    rows under a prefix -> at most `limit`, in order

Keys have an owner each, which alone is asked, or are looked for in all partitions named. What these say of one key
becomes one answer.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice
from operator import itemgetter
from typing import Any, Literal

import msgspec

from state.changes import merge
from state.families import Family
from state.store import Store

Row = tuple[bytes, bytes]
_COUNT = struct.Struct(">Q")


class RowQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question. `partitions` empty: of the whole collection; `owners` empty: of all of them, whatever the key."""

    what: Literal["get", "page", "firsts"]
    family: Family
    keys: list[bytes] = []  # or prefixes; one prefix for a page
    partitions: list[int] = []
    owners: list[int] = []  # the partition of each key
    start: bytes | None = None
    limit: int = 0


Values = list[bytes | None]
Rows = list[Row]
ANSWERS: dict[str, Any] = {
    "get": Values,
    "page": Rows,
    "firsts": list[Rows],
}


def answer(stores: Mapping[int, Store], ask: RowQuery) -> Any:
    """The answer of these partitions; KeyError when one of those that are asked is not among them."""
    held = [stores[number] for number in ask.partitions]
    if ask.what == "page":
        return list(islice(combined(ask.family, [_scan(store, ask) for store in held]), ask.limit))
    if not ask.owners:
        return together(ask, [_of(store, ask, ask.keys) for store in held])
    found: list[Any] = [None] * len(ask.keys)
    for owner in dict.fromkeys(ask.owners):
        places = [place for place, each in enumerate(ask.owners) if each == owner]
        values = _of(stores[owner], ask, [ask.keys[place] for place in places])
        for place, value in zip(places, values, strict=True):
            found[place] = value
    return found


def _of(store: Store, ask: RowQuery, keys: list[bytes]) -> list[Any]:
    if ask.what == "get":
        return list(store.get_many(ask.family, keys))
    return list(store.scan_prefixes(ask.family, keys, ask.limit or None))


def together(ask: RowQuery, answers: Sequence[Sequence[Any]]) -> list[Any]:
    """What several partitions answer to one question as one answer, key by key."""
    if len(answers) == 1:
        return list(answers[0])
    if ask.what == "firsts":
        most = ask.limit or None
        return [list(islice(combined(ask.family, each), most)) for each in zip(*answers, strict=True)]
    held = ([value for value in each if value is not None] for each in zip(*answers, strict=True))
    return [reduce(partial(combine, ask.family), values) if values else None for values in held]


def _scan(store: Store, ask: RowQuery) -> Iterator[Row]:
    (prefix,) = ask.keys
    return store.scan(ask.family, prefix, ask.start)


def combined(family: Family, scans: Sequence[Iterable[Row]]) -> Iterator[Row]:
    """Rows of several partitions in one order; those of one key become one."""
    last: Row | None = None
    for row in heapq.merge(*scans, key=itemgetter(0)):
        if last is not None and last[0] == row[0]:
            last = (row[0], combine(family, last[1], row[1]))
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def combine(family: Family, one: bytes, other: bytes) -> bytes:
    """What two partitions say of one key: counts of captures add up, everything else is a fact."""
    if family is Family.SWEEPS:
        return _COUNT.pack(_COUNT.unpack(one)[0] + _COUNT.unpack(other)[0])
    return merge(family, one, other)

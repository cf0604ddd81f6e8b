"""Workers for tests: stores of this process, read directly or through the encoding that workers use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from state.changes import Changes
from state.families import Family
from state.rows import RowReader
from state.scheme import Scheme
from streams.kafka.rows.row_query import ANSWER_TYPES, RowQuery, run_query
from streams.kafka.rows.sharded_store import ShardedStore, Worker
from tests.memory import MemoryStore

PARTITIONS = 3


def local_worker(stores: Mapping[int, RowReader]) -> Worker:
    """A worker whose stores are in this process."""
    return Worker("local", lambda query: run_query(stores, query))


def remote_worker(stores: Mapping[int, RowReader], queries: list[RowQuery]) -> Worker:
    """A worker whose queries and answers are encoded; it appends the queries to a list."""

    def query(query: RowQuery) -> Any:
        queries.append(query)
        received = msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=RowQuery)
        answer = msgspec.msgpack.encode(run_query(stores, received))
        return msgspec.msgpack.decode(answer, type=ANSWER_TYPES[type(query)])

    return Worker("remote", query)


@contextmanager
def sharded_store(rows: Mapping[bytes, bytes], family: Family) -> Iterator[ShardedStore]:
    """A store of two workers; a row without an owner is in a partition that follows from its length."""
    stores = {number: MemoryStore() for number in range(PARTITIONS)}
    local, remote = local_worker({0: stores[0]}), remote_worker({1: stores[1], 2: stores[2]}, [])
    workers = {0: local, 1: remote, 2: remote}
    store = ShardedStore("sharded", Scheme(), workers, partitions=PARTITIONS, sweep_rows={})
    for key, value in rows.items():
        changes = Changes()
        changes.put(family, key, value)
        owner = store.owner(family, key)
        stores[len(key) % PARTITIONS if owner is None else owner].write(changes)
    yield store

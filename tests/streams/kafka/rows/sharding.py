"""Workers for tests: stores of this process, read directly or through the encoding that workers use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from state.changes import Changes
from state.families import Family
from state.rows import LocalReader
from state.scheme import Scheme
from streams.kafka.rows.row_query import ANSWER_BYTES_MAX, ANSWER_TYPES, RowQuery, RowSource, run_query
from streams.kafka.rows.sharded_store import QueryStore, ShardedStore
from tests.memory import MemoryStore

PARTITIONS = 3


def local_worker(stores: Mapping[int, LocalReader]) -> RowSource:
    """A worker whose stores are in this process."""
    return lambda query: run_query(stores, query)


def encoded(source: RowSource, queries: list[RowQuery], bytes_max: int = ANSWER_BYTES_MAX) -> RowSource:
    """The same source behind an encoding; it appends the queries to a list."""

    def query(query: RowQuery) -> Any:
        queries.append(query)
        received = msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=RowQuery)
        received = msgspec.structs.replace(received, bytes_max=min(bytes_max, query.bytes_max))
        return msgspec.msgpack.decode(msgspec.msgpack.encode(source(received)), type=ANSWER_TYPES[type(query)])

    return query


def sharded_store(rows: Mapping[bytes, bytes], family: Family) -> ShardedStore:
    """A store of two workers; a row without an owner is in a partition that follows from its length."""
    stores = {number: MemoryStore() for number in range(PARTITIONS)}
    remote = encoded(local_worker({1: stores[1], 2: stores[2]}), [])
    workers = {0: local_worker({0: stores[0]}), 1: remote, 2: remote}
    store = ShardedStore("sharded", Scheme(), workers, partition_count=PARTITIONS, read_sweep_rows=dict)
    for key, value in rows.items():
        changes = Changes()
        changes.put(family, key, value)
        owner = store.owner(family, key)
        stores[len(key) % PARTITIONS if owner is None else owner].write(changes)
    return store


def remote_store(rows: Mapping[bytes, bytes], family: Family, bytes_max: int = ANSWER_BYTES_MAX) -> QueryStore:
    """The same collection, as the client of a worker reads it, in answers of about `bytes_max`."""
    return QueryStore("http://127.0.0.1", encoded(sharded_store(rows, family).query, [], bytes_max))

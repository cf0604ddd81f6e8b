"""Compare a collection sharded over partitions and workers with one store that has all its rows."""

from __future__ import annotations

from random import Random

import pytest

from state.changes import Changes
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES
from state.scheme import Scheme
from streams.errors import StateError
from streams.kafka.rows.row_query import Answer, RowQuery
from streams.kafka.rows.sharded_store import ShardedStore
from streams.operators.routing import partition_of
from tests.memory import MemoryStore
from tests.streams.kafka.rows.sharding import encoded, local_worker

PARTITIONS = 5
LOCAL, REMOTE = (0, 3), (1, 2, 4)


class Sharded:
    """One store, the same rows in partitions, and the queries that the other worker received."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.whole = MemoryStore()
        self.parts = {number: MemoryStore() for number in range(PARTITIONS)}
        self.queries: list[RowQuery] = []
        self.documents = [rng.randbytes(ID_BYTES) for _ in range(40)]
        self.urls = [b"org,%d)/%d" % (rng.randrange(6), number) for number in range(30)]
        for document in self.documents:
            number = partition_of(document[:PREFIX_BYTES], PARTITIONS)
            self.put(number, Family.DOCUMENTS, document, rng.randbytes(3))
            for url in rng.sample(self.urls, 3):
                self.put(number, Family.LOCATIONS, document + url, b"1")
            for word in rng.sample(range(8), 4):
                self.put(number, Family.WORDS, b"site%04d" % word + document[:PREFIX_BYTES], b"")
        for url in self.urls:
            for sweep in range(rng.randrange(1, 4)):
                self.put(partition_of(url, PARTITIONS), Family.CAPTURES, url + b"\0%d" % sweep, b"c")
        remote = encoded(local_worker({number: self.parts[number] for number in REMOTE}), self.queries)
        local = local_worker({number: self.parts[number] for number in LOCAL})
        workers = {**dict.fromkeys(LOCAL, local), **dict.fromkeys(REMOTE, remote)}
        self.sweep_rows = {b"s\0\0\0\1": b"first", b"s\0\0\0\2": b"second"}
        self.store = ShardedStore(
            "x", Scheme(), workers, partition_count=PARTITIONS, read_sweep_rows=lambda: self.sweep_rows
        )

    def put(self, number: int, family: Family, key: bytes, value: bytes) -> None:
        changes = Changes()
        changes.put(family, key, value)
        self.whole.write(changes)
        self.parts[number].write(changes)


@pytest.fixture(params=range(3))
def sharded(request: pytest.FixtureRequest) -> Sharded:
    return Sharded(request.param)


def test_reads_match_one_store_with_all_rows(sharded: Sharded) -> None:
    whole, store = sharded.whole, sharded.store
    documents = [*sharded.documents, bytes(ID_BYTES)]
    assert store.get_many(Family.DOCUMENTS, documents) == whole.get_many(Family.DOCUMENTS, documents)
    prefixes_by_family = {
        Family.LOCATIONS: documents,
        Family.CAPTURES: [url + b"\0" for url in [*sharded.urls, b"org,9)/"]] + [b"org,1)/", b"org,2)/1"],
        Family.WORDS: [b"site%04d" % word for word in range(9)],
        Family.DOCUMENTS: [document[:PREFIX_BYTES] for document in documents],
    }
    for family, prefixes in prefixes_by_family.items():
        for limit in (None, 0, 1, 3):
            assert store.rows_under(family, prefixes, limit) == whole.rows_under(family, prefixes, limit)
        assert store.keys_under(family, prefixes, 2) == whole.keys_under(family, prefixes, 2)
        assert list(store.scan(family)) == list(whole.scan(family))


def test_reading_many_keys_sends_one_query_to_each_worker(sharded: Sharded) -> None:
    sharded.store.rows_under(Family.LOCATIONS, sharded.documents, 16)
    sharded.store.keys_under(Family.WORDS, [b"site%04d" % word for word in range(8)], 9)
    families = [query.family for query in sharded.queries]
    assert families == [Family.LOCATIONS, Family.WORDS]
    assert all(set(query.partitions or ()) == set(REMOTE) for query in sharded.queries)


def test_captures_per_host_of_several_partitions_add_up() -> None:
    sharded = Sharded(1)
    key = b"h\0\0\0\1org,a)"
    sharded.put(1, Family.SWEEPS, key, (2).to_bytes(8, "big"))
    assert sharded.store.get(Family.SWEEPS, key) == (2).to_bytes(8, "big")
    sharded.put(3, Family.SWEEPS, key, (5).to_bytes(8, "big"))
    assert sharded.store.get(Family.SWEEPS, key) == (7).to_bytes(8, "big")


def test_sweeps_come_from_their_log_and_captures_per_host_from_the_partitions() -> None:
    sharded = Sharded(1)
    host = (b"h\0\0\0\1org,a)", (2).to_bytes(8, "big"))
    sharded.put(1, Family.SWEEPS, *host)
    logged = sorted(sharded.sweep_rows.items())
    store = sharded.store
    assert list(store.scan(Family.SWEEPS)) == [host, *logged]
    assert list(store.scan(Family.SWEEPS, b"s", logged[1][0])) == logged[1:]
    assert store.keys(Family.SWEEPS, b"", 2) == [host[0], logged[0][0]]
    assert store.rows_under(Family.SWEEPS, [b"s", b"h", b""], 1) == [logged[:1], [host], [host]]
    assert store.get_many(Family.SWEEPS, [logged[0][0], host[0], b"s"]) == [logged[0][1], host[1], None]


def test_changes_are_divided_by_owner_without_rows_that_partitions_derive() -> None:
    sharded = Sharded(1)
    document, prefix = sharded.documents[0], sharded.documents[0][:PREFIX_BYTES]
    changes = Changes()
    changes.put(Family.META, b"counters", b"1")
    changes.delete(Family.SWEEPS, b"h\0\0\0\1org,a)")
    changes.delete(Family.DOCUMENTS, document)
    changes.put(Family.WORDS, b"site0001" + prefix, b"")
    parts = sharded.store.divide(changes)
    assert parts.keys() == {partition_of(prefix, PARTITIONS)}
    (part,) = parts.values()
    assert part.deletes.get(Family.DOCUMENTS) == {document}
    assert part.puts_of(Family.WORDS) == {b"site0001" + prefix: b""}
    assert len(part) == 2


def test_a_collection_without_a_worker_for_every_partition_is_refused() -> None:
    with pytest.raises(StateError, match="no worker serves partitions 1 of 2"):
        ShardedStore("x", Scheme(), {0: lambda _: Answer([])}, partition_count=2, read_sweep_rows=dict)

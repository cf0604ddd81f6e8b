"""A collection spread over partitions and workers reads as the one store that it is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from state.changes import Changes
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES
from state.scheme import Scheme
from streams.kafka.rows.row_query import ANSWERS, RowQuery, answer
from streams.kafka.rows.sharded_store import ShardedStore
from streams.operators.routing import partition_of
from tests.memory import MemoryStore

PARTITIONS = 5
HERE, THERE = (0, 3), (1, 2, 4)
DOCUMENT_FAMILIES = (Family.DOCUMENTS, Family.TEXTS, Family.PARENTS, Family.LOCATIONS, Family.MEMBERS)


def over_the_wire(stores: dict[int, MemoryStore], asked: list[RowQuery]) -> Callable[[RowQuery], Any]:
    """Another worker: what goes to it and comes back is msgpack."""

    def ask(given: RowQuery) -> Any:
        asked.append(given)
        there = msgspec.msgpack.decode(msgspec.msgpack.encode(given), type=RowQuery)
        said = msgspec.msgpack.encode(answer(stores, there))  # type: ignore[arg-type]
        return msgspec.msgpack.decode(said, type=ANSWERS[given.what])

    return ask


class Spread:
    """One store, the same rows in partitions, and what was asked of the other worker."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.whole = MemoryStore()
        self.parts = {number: MemoryStore() for number in range(PARTITIONS)}
        self.asked: list[RowQuery] = []
        self.documents = [rng.randbytes(ID_BYTES) for _ in range(40)]
        self.urls = [b"org,%d)/%d" % (rng.randrange(6), at) for at in range(30)]
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
        there = ("there", over_the_wire({number: self.parts[number] for number in THERE}, self.asked))
        here = ("here", lambda ask: answer({number: self.parts[number] for number in HERE}, ask))  # type: ignore[misc]
        sources = {**dict.fromkeys(HERE, here), **dict.fromkeys(THERE, there)}
        self.store = ShardedStore("x", Scheme(), sources, PARTITIONS, {})

    def put(self, number: int, family: Family, key: bytes, value: bytes) -> None:
        changes = Changes()
        changes.put(family, key, value)
        self.whole.write(changes)
        self.parts[number].write(changes)


@pytest.fixture(params=range(3))
def spread(request: pytest.FixtureRequest) -> Spread:
    return Spread(request.param)


def test_rows_by_key_and_prefix(spread: Spread) -> None:
    whole, store = spread.whole, spread.store
    documents = [*spread.documents, bytes(ID_BYTES)]
    assert store.get_many(Family.DOCUMENTS, documents) == whole.get_many(Family.DOCUMENTS, documents)
    words = [b"site%04d" % word for word in range(9)]
    histories = [url + b"\0" for url in [*spread.urls, b"org,9)/"]]
    prefixes = [document[:PREFIX_BYTES] for document in documents]
    for family, asked in (
        (Family.LOCATIONS, documents),
        (Family.CAPTURES, histories),
        (Family.WORDS, words),
        (Family.DOCUMENTS, prefixes),
    ):
        for limit in (None, 0, 1, 3):
            assert store.scan_prefixes(family, asked, limit) == whole.scan_prefixes(family, asked, limit)
        assert store.keys_under(family, asked, 2) == whole.keys_under(family, asked, 2)
        assert list(store.scan(family)) == list(whole.scan(family))


def test_many_keys_are_one_question_to_each_worker(spread: Spread) -> None:
    spread.store.scan_prefixes(Family.LOCATIONS, spread.documents, 16)
    spread.store.keys_under(Family.WORDS, [b"site%04d" % word for word in range(8)], 9)
    assert [(ask.family, set(ask.partitions)) for ask in spread.asked] == [
        (Family.LOCATIONS, set(THERE)),
        (Family.WORDS, set(THERE)),
    ]


def test_a_key_that_several_partitions_hold_is_one() -> None:
    spread = Spread(1)
    for number, count in ((1, 2), (3, 5)):
        key = b"h\0\0\0\1org,a)"
        spread.put(number, Family.SWEEPS, key, count.to_bytes(8, "big"))
        assert spread.store.get(Family.SWEEPS, key) == (2 if number == 1 else 7).to_bytes(8, "big")

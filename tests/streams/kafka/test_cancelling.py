"""Cancelling a sweep of which much is under way, and what a worker makes of pages that nobody should send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from state.check import check
from state.families import Family
from state.stats import stats
from streams.kafka.collection.http_server import Server
from streams.kafka.wire.packed_messages import Topic, headers, pack
from streams.kafka.wire.producer import DeadLetter
from streams.kafka.wire.sweep_log import Event, SweepTable
from streams.kafka.worker.metrics import Metrics
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.runner import Message, Runner
from streams.settings import load
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS, Collection

TEXT = "a page of the sweep that is taken back, number"


class SweepLog:
    """The log of sweeps without a broker."""

    def __init__(self, table: SweepTable) -> None:
        self.table = table

    async def append(self, event: Event) -> None:
        self.table.apply(event)

    async def get_or_open(self, name: str) -> int:
        if self.table.find(name) is None:
            self.table.apply(Event(event="open", name=name, time=1))
        held = self.table.find(name)
        assert held is not None
        return held.number

    async def wait_until(self, happened: Callable[[SweepTable], bool]) -> None:
        assert happened(self.table)


class Producer:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[msgspec.Struct] = []
        self.letters: list[DeadLetter] = []

    async def send(self, sends: dict[Any, list[msgspec.Struct]]) -> None:
        self.sent += [value for values in sends.values() for value in values]

    async def send_results(self, found: Any) -> None:
        list(found)

    async def send_dead_letters(self, letters: list[DeadLetter]) -> None:
        self.letters += letters

    async def append_changelog(self, *_: Any, **__: Any) -> list[int]:
        return []


def cancel(made: Collection, name: str) -> None:
    runner: Any = SimpleNamespace(sweep_log=SweepLog(made.table))
    collection: Any = SimpleNamespace(
        runner=runner, app=None, lag=made, store=made.store, apply_retraction=made.apply_retraction
    )
    asyncio.run(Server(collection)._cancel(Event(event="cancel", name=name, time=5), collection))


@pytest.mark.parametrize("stages", range(5))
def test_a_cancelled_sweep_of_which_much_is_under_way_leaves_nothing(tmp_path: Path, stages: int) -> None:
    made = Collection(tmp_path)
    made.events(Event(event="open", name="good", time=1), Event(event="open", name="bad", time=2))
    made.sketch(1, {f"https://a.example/{at}": f"{at} good pages {at} stay where they are {at}" for at in range(4)})
    made.take()
    families = [family for family in Family if family not in (Family.META, Family.SWEEPS)]
    before = {family: list(made.store().scan(family)) for family in families}
    made.sketch(2, {f"https://spam.example/{at}": f"{TEXT} {at}" for at in range(6)})
    for topic in (Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS, Topic.DOCUMENTS)[:stages]:
        for number in made.parts:
            made._take(topic, number)
    cancel(made, "bad")
    made.take()
    assert {family: list(made.store().scan(family)) for family in families} == before
    assert made.table.find("bad") is None


def test_those_that_a_flood_crowded_out_are_posted_again(tmp_path: Path) -> None:
    """As the embedded engine does, and each partition is sound."""
    settings = load(overrides={"limits": {"bucket_postings_max": 2}})
    made = Collection(tmp_path, settings=settings)
    made.events(Event(event="open", name="good", time=1), Event(event="open", name="flood", time=2))
    words = " ".join(f"word{number}" for number in range(150))
    made.sketch(1, {f"https://a.example/{at}": f"{words} {at}" for at in range(2)})
    made.take()
    before = dict(made.store().scan(Family.BANDS))
    made.sketch(2, {f"https://spam.example/{at}": f"{words} more{at}" for at in range(12)})
    made.take()
    assert dict(made.store().scan(Family.BANDS)).items() & before.items() < before.items()
    cancel(made, "flood")
    assert dict(made.store().scan(Family.BANDS)) == before
    for number, partition in made.parts.items():
        assert list(check(partition.store, postings_max=2, owns=made.owns(number))) == []
    assert sum(stats(partition.store).documents for partition in made.parts.values()) == 2


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    table = SweepTable()
    for event in (
        Event(event="open", name="live", time=1),
        Event(event="open", name="gone", time=1),
        Event(event="cancel", name="gone", time=2),
    ):
        table.apply(event)
    table.apply(Event(event="cancelled", name="gone", time=3, number=2))
    held = OpenPartitions(tmp_path, SETTINGS.scheme, SETTINGS.store, PARTITIONS)
    producer: Any = Producer()
    sweep_log: Any = SweepLog(table)
    return Runner(SETTINGS, held, producer, sweep_log, Metrics())


@pytest.mark.parametrize("time", [1_700_000_000_000_000, 1_700_000_000_000_000_000])
@pytest.mark.parametrize("fields", [{"text": TEXT}, {"status": 302, "redirect": "/y"}])
def test_a_page_whose_message_has_no_time_in_ms_is_refused(runner: Runner, time: int, fields: dict[str, Any]) -> None:
    page = json.dumps({"url": "https://a.example/x", "crawl": "live"} | fields).encode()
    producer: Any = runner.producer
    asyncio.run(
        runner.process_pages(
            [Message(partition=0, offset=at, time=each, value=page, headers=[]) for at, each in enumerate((time, 5))]
        )
    )
    assert [(letter.reason, letter.offset) for letter in producer.letters] == [("bad_time", 0)]
    assert [page.capture.time for page in producer.sent] == [5]


def test_a_page_of_a_cancelled_sweep_that_comes_again_is_not_written(tmp_path: Path, runner: Runner) -> None:
    made = Collection(tmp_path / "other")
    for sweep in (1, 2):
        made.sketch(sweep, {"https://a.example/x": TEXT})
    ((_, number), values) = next(iter(made.logs.items()))
    (packed,) = pack(values, 1 << 20)
    runner.partitions.open(number)
    runner.partitions.active = frozenset({number})
    sent = headers(Topic.CAPTURES, SETTINGS.scheme.id)
    message = Message(partition=number, offset=0, time=5, value=packed, headers=sent)
    asyncio.run(runner.process(Topic.CAPTURES, [message]))
    assert len(list(runner.partitions.by_number[number].store.scan(Family.CAPTURES))) == 1
    runner.partitions.close_all()

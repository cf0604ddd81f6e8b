"""A worker's runner with a sweep log and a producer that need no broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from state.changes import Changes
from streams.kafka.wire.producer import DeadLetter
from streams.kafka.wire.sweep_log import Event, SweepTable
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.runner import Runner
from streams.settings import Settings
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS


class FakeSweepLog:
    """The sweep log without a broker."""

    def __init__(self, table: SweepTable) -> None:
        self.table = table
        self.catch_ups = 0

    async def catch_up(self) -> None:
        self.catch_ups += 1

    async def append(self, event: Event) -> None:
        self.table.apply(event)

    async def get_or_open(self, name: str) -> int:
        if self.table.find(name) is None:
            self.table.apply(Event(event="open", name=name, time=1))
        sweep = self.table.find(name)
        assert sweep is not None
        return sweep.number

    async def wait_until(self, happened: Callable[[SweepTable], bool]) -> None:
        assert happened(self.table)


class FakeProducer:
    """Collects what is sent."""

    def __init__(self) -> None:
        self.sent: list[msgspec.Struct] = []
        self.changelog: list[Changes] = []
        self.dead_letters: list[DeadLetter] = []

    async def send(self, sends: dict[Any, list[msgspec.Struct]]) -> None:
        self.sent += [value for values in sends.values() for value in values]

    async def send_results(self, results: Any) -> None:
        list(results)

    async def send_dead_letters(self, dead_letters: list[DeadLetter]) -> None:
        self.dead_letters += dead_letters

    async def append_changelog(self, _partition: int, changes: Changes, **_: Any) -> list[int]:
        self.changelog.append(changes)
        return [len(self.changelog) - 1]


def make_runner(folder: Path, settings: Settings = SETTINGS) -> Runner:
    """Return a runner whose sweep 1, "live", is open and whose sweep 2, "gone", is cancelled."""
    table = SweepTable()
    for event in (
        Event(event="open", name="live", time=1),
        Event(event="open", name="gone", time=1),
        Event(event="cancel", name="gone", time=2),
    ):
        table.apply(event)
    table.apply(Event(event="cancelled", name="gone", time=3, number=2))
    partitions = OpenPartitions(folder, settings.scheme, settings.store, PARTITIONS)
    producer: Any = FakeProducer()
    sweep_log: Any = FakeSweepLog(table)
    return Runner(settings, partitions, producer, sweep_log)

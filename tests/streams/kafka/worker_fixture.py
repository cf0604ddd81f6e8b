"""A worker's runner with a sweep log and a producer that need no broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from state.changes import Changes
from state.codecs import changelog_record
from state.partition import Partition
from streams.kafka.wire.changelog_reader import ChangelogRecord
from streams.kafka.wire.packed_messages import Sender
from streams.kafka.wire.producer import DeadLetter
from streams.kafka.wire.sweep_log import Event, SweepTable
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.runner import Runner
from streams.kafka.worker.stages import Outcome
from streams.settings import Settings
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS


def write(partition: Partition, changes: Changes, *, retraction: bool = False) -> None:
    """Write changes to a partition of which the caller is the only owner, without a changelog."""
    partition.claimed_epoch = partition.epoch
    partition.write(changes, partition.offset + 1, retraction=retraction)


def commit(runner: Runner, partition: Partition, outcome: Outcome) -> None:
    """Claim a partition, and commit an outcome."""

    async def commit() -> None:
        async with runner.partitions.locks[partition.number]:
            await runner.claim(partition)
            await runner.commit(partition, outcome)

    asyncio.run(commit())


class FakeSweepLog:
    """The sweep log without a broker."""

    def __init__(self, table: SweepTable) -> None:
        self.table = table
        self.catch_ups = 0
        self.unread: list[Event] = []  # events that `catch_up` applies

    async def catch_up(self) -> None:
        self.catch_ups += 1
        while self.unread:
            self.table.apply(self.unread.pop(0))

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
        self.changelogs: defaultdict[int, list[ChangelogRecord]] = defaultdict(list)
        self.claims: list[Sender] = []
        self.dead_letters: list[DeadLetter] = []

    async def send_packed(self, sends: dict[Any, list[msgspec.Struct]], _sender: Sender | None = None) -> None:
        self.sent += [value for values in sends.values() for value in values]

    async def send_results(self, results: Any) -> None:
        list(results)

    async def send_dead_letters(self, dead_letters: list[DeadLetter]) -> None:
        self.dead_letters += dead_letters

    async def append_claim(self, sender: Sender) -> int:
        return self._append(sender, Changes(), changelog_record.FACTS)

    async def announce_claim(self, sender: Sender, _partition_count: int) -> None:
        self.claims.append(sender)

    async def append_changelog(self, sender: Sender, changes: Changes, *, retraction: bool) -> list[int]:
        return [self._append(sender, changes, changelog_record.RETRACTION if retraction else changelog_record.FACTS)]

    def _append(self, sender: Sender, changes: Changes, kind: int) -> int:
        log = self.changelogs[sender.partition]
        records = changelog_record.encode(changes, kind=kind)
        log.append(ChangelogRecord(len(log), sender.epoch, records[0] if records else changelog_record.CLAIM))
        return len(log) - 1

    async def read(self, partition: int, start: int, end: int) -> list[ChangelogRecord]:
        """Read the changelog, like a `ChangelogReader`."""
        return self.changelogs[partition][start:end]


def make_runner(folder: Path, settings: Settings = SETTINGS, producer: Any = None) -> Runner:
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
    producer = producer or FakeProducer()
    sweep_log: Any = FakeSweepLog(table)
    return Runner(settings, partitions, producer, sweep_log, producer)

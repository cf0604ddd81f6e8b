"""A collection in memory: partitions, the topics between them as logs, and the stages that take them; no broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from state.changes import Changes
from state.partition import Partition
from state.store import Store
from streams.kafka.collection import readmission, repair
from streams.kafka.rows.row_query import RowQuery, answer
from streams.kafka.rows.sharded_store import ShardedStore, Write
from streams.kafka.wire.barrier import ADMISSION_STAGES, CLUSTERING_STAGES, wait_until_drained
from streams.kafka.wire.packed_messages import MESSAGE_TYPES, Topic
from streams.kafka.wire.sweep_log import Event, SweepTable
from streams.kafka.worker import stages
from streams.operators.messages import SketchedPage
from streams.operators.routing import partition_of
from streams.operators.sketch import SketchStage, Task
from streams.page import Page
from streams.settings import Settings, load

PARTITIONS = 2
SETTINGS = load()


class Collection:
    """What the topics hold, how far each is taken, and the partitions."""

    def __init__(self, folder: Path, rng: Random | None = None, settings: Settings = SETTINGS) -> None:
        """With `rng` the stages go on, a little at a time, whenever the whole is asked something."""
        self._rng = rng
        self.parts = {
            number: Partition(Store(folder / str(number), SETTINGS.store), SETTINGS.scheme, number, PARTITIONS)
            for number in range(PARTITIONS)
        }
        self.table = SweepTable()
        self.context = stages.Context(settings, PARTITIONS)
        self.logs: defaultdict[tuple[Topic, int], list[Any]] = defaultdict(list)
        self.taken: defaultdict[tuple[Topic, int], int] = defaultdict(int)
        self._sketch = SketchStage(SETTINGS.scheme, SETTINGS.policy, SETTINGS.limits)

    def events(self, *events: Event) -> None:
        """Append to the log of sweeps."""
        for event in events:
            self.table.apply(event)

    def sketch(self, sweep: int, texts: Mapping[str, str]) -> None:
        """Have pages, texts by URL, sketched and sent on."""
        self.pages(sweep, [Page(url=url, time=1_700_000_000_000 + sweep, text=text) for url, text in texts.items()])

    def pages(self, sweep: int, pages: list[Page]) -> None:
        """Have pages sketched and sent on."""
        found = [item for results in self._sketch(Task(sweep, pages)) for item in results]
        self.send(stages.sketched([item for item in found if isinstance(item, SketchedPage)], self.context).sends)

    def send(self, sends: Mapping[tuple[Topic, int], Sequence[msgspec.Struct]]) -> None:
        """Append to logs."""
        for place, values in sends.items():
            self.logs[place] += values

    def owns(self, number: int) -> Callable[[bytes], bool]:
        """Which keys are a partition's own."""
        return lambda key: partition_of(key, PARTITIONS) == number

    def take(self, topics: Iterable[Topic] = tuple(MESSAGE_TYPES)) -> None:
        """Take what these topics hold, until they hold no more."""
        topics = list(topics)
        while any(self._take(topic, number) for topic in topics for number in self.parts):
            pass

    def go_on(self, steps_max: int, topics: Sequence[Topic] = tuple(MESSAGE_TYPES)) -> None:
        """Take a little here and there, where stages go on by chance."""
        if self._rng is not None:
            for _ in range(self._rng.randint(0, steps_max)):
                self._take(self._rng.choice(topics), self._rng.randrange(PARTITIONS))

    def _take(self, topic: Topic, number: int) -> bool:
        start = self.taken[topic, number]
        values = self.logs[topic, number][start:]
        if self._rng is not None:
            values = values[: self._rng.randint(1, 3)]
        self.taken[topic, number] += len(values)
        if values:
            partition = self.parts[number]
            outcome = stages.STAGES[topic](partition, values, self.context)
            self.send(outcome.sends)
            partition.write(outcome.changes, [], retraction=outcome.retraction)
        return bool(values)

    def store(self) -> ShardedStore:
        """The collection as one store, as a worker has it."""

        def write(parts: Mapping[int, Changes]) -> None:
            gone = readmission.read_removed_rows(self._spread(None), parts.values())
            self._amend(parts)
            self._drain(ADMISSION_STAGES)
            self.send(readmission.build_readmissions(self._spread(None), gone, self.context))
            repair.repair_clusters(self._spread(self._amend), parts, lambda: self._drain(CLUSTERING_STAGES))

        return self._spread(write)

    def _amend(self, parts: Mapping[int, Changes]) -> None:
        sends = repair.build_retractions(self._spread(None), parts)
        self.go_on(30)
        self.send(sends)
        self.go_on(10)
        self.take([Topic.RETRACTIONS])

    def _drain(self, topics: Sequence[Topic]) -> None:
        asyncio.run(wait_until_drained(self, topics))  # type: ignore[arg-type]

    def _spread(self, write: Write | None) -> ShardedStore:
        def source(ask: RowQuery) -> Any:
            self.go_on(2)
            return answer({number: partition.store for number, partition in self.parts.items()}, ask)

        sources = dict.fromkeys(self.parts, ("here", source))
        return ShardedStore("memory", SETTINGS.scheme, sources, PARTITIONS, self.table.rows(), write)

    # What `Lag` says of it.
    async def end_offsets(self, topic: Topic) -> list[int]:
        """Where a topic ends."""
        return [len(self.logs[topic, number]) for number in self.parts]

    async def has_reached(self, topic: Topic, until: list[int]) -> bool:
        """Whether a topic is taken so far; takes what there is of it."""
        self.take([topic])
        return all(self.taken[topic, number] >= end for number, end in enumerate(until))

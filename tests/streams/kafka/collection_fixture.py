"""A collection without a broker: partitions, topics as lists, and the stages that process them."""

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
from streams.kafka.rows.row_query import RowQuery, run_query
from streams.kafka.rows.sharded_store import ShardedStore
from streams.kafka.wire.consumer_lag import ADMISSION_STAGES, CLUSTERING_STAGES, wait_until_drained
from streams.kafka.wire.packed_messages import VALUE_TYPES, Topic
from streams.kafka.wire.sweep_log import Event, SweepTable
from streams.kafka.worker import stages
from streams.operators.messages import SketchedPage
from streams.operators.routing import partition_of
from streams.operators.sketch import SketchOperator, SketchTask
from streams.page import Page
from streams.settings import Settings, load

PARTITIONS = 2
SETTINGS = load()


class Collection:
    """Partitions, topics, and the position of the stages in each topic."""

    def __init__(self, folder: Path, rng: Random | None = None, settings: Settings = SETTINGS) -> None:
        """With `rng` the stages process a few messages at random whenever the store is read."""
        self._rng = rng
        self.parts = {
            number: Partition(Store(folder / str(number), SETTINGS.store), SETTINGS.scheme, number, PARTITIONS)
            for number in range(PARTITIONS)
        }
        for partition in self.parts.values():
            partition.claimed_epoch = partition.epoch
        self.table = SweepTable()
        self.context = stages.Context(settings, PARTITIONS)
        self.logs: defaultdict[tuple[Topic, int], list[Any]] = defaultdict(list)
        self.positions: defaultdict[tuple[Topic, int], int] = defaultdict(int)
        self._sketch = SketchOperator(SETTINGS.scheme, SETTINGS.policy, SETTINGS.limits)

    def events(self, *events: Event) -> None:
        """Append events to the sweep log."""
        for event in events:
            self.table.apply(event)

    def sketch(self, sweep: int, texts: Mapping[str, str]) -> None:
        """Sketch pages, given as texts by URL, and send them to the stages."""
        self.pages(sweep, [Page(url=url, time=1_700_000_000_000 + sweep, text=text) for url, text in texts.items()])

    def pages(self, sweep: int, pages: list[Page]) -> None:
        """Sketch pages and send them to the stages."""
        items = [item for results in self._sketch(SketchTask(sweep, pages)) for item in results]
        outcome = stages.Outcome(self.context)
        outcome.queue([item for item in items if isinstance(item, SketchedPage)])
        self.send(outcome.messages)

    def send(self, sends: Mapping[tuple[Topic, int], Sequence[msgspec.Struct]]) -> None:
        """Append messages to their topics."""
        for topic_partition, values in sends.items():
            self.logs[topic_partition] += values

    def owns(self, number: int) -> Callable[[bytes], bool]:
        """Return a predicate for the keys that a partition owns."""
        return lambda key: partition_of(key, PARTITIONS) == number

    def process(self, topics: Iterable[Topic] = tuple(VALUE_TYPES)) -> None:
        """Process all messages of some topics, including those sent while it runs."""
        topics = list(topics)
        while any(self.process_some(topic, number) for topic in topics for number in self.parts):
            pass

    def advance(self, steps_max: int, topics: Sequence[Topic] = tuple(VALUE_TYPES)) -> None:
        """Process a few messages of random partitions, if there is an `rng`."""
        if self._rng is not None:
            for _ in range(self._rng.randint(0, steps_max)):
                self.process_some(self._rng.choice(topics), self._rng.randrange(PARTITIONS))

    def process_some(self, topic: Topic, number: int) -> bool:
        """Process the next messages of a partition; return whether there were any."""
        start = self.positions[topic, number]
        values = self.logs[topic, number][start:]
        if self._rng is not None:
            values = values[: self._rng.randint(1, 3)]
        self.positions[topic, number] += len(values)
        if values:
            partition = self.parts[number]
            outcome = stages.STAGES[topic](partition, values, self.context)
            self.send(outcome.messages)
            partition.write(outcome.changes, partition.offset + 1, retraction=outcome.is_retraction)
        return bool(values)

    def sharded_store(self) -> ShardedStore:
        """Return the collection as one store, as a worker reads it."""

        def query(query: RowQuery) -> Any:
            self.advance(2)
            return run_query({number: partition.store for number, partition in self.parts.items()}, query)

        workers = dict.fromkeys(self.parts, query)
        rows = self.table.rows()
        return ShardedStore(
            "memory", SETTINGS.scheme, workers, partition_count=PARTITIONS, read_sweep_rows=lambda: rows
        )

    def apply_retraction(self, changes: Changes) -> None:
        """Apply changes as the collection of a worker does."""
        store = self.sharded_store()
        parts = store.divide(changes)
        removed = readmission.read_removed_rows(store, parts.values())
        self.send_retraction(parts)
        self._drain(ADMISSION_STAGES)
        self.send(readmission.build_readmissions(self.sharded_store(), removed, self.context))
        repair.repair_clusters(
            self.sharded_store(),
            parts,
            drain=lambda: self._drain(CLUSTERING_STAGES),
            commit=lambda repairs: self.send_retraction(store.divide(repairs)),
        )

    def send_retraction(self, parts: Mapping[int, Changes]) -> None:
        """Send changes to their partitions, which apply them."""
        sends = repair.build_retractions(self.sharded_store(), parts)
        self.advance(30)
        self.send(sends)
        self.advance(10)
        self.process([Topic.RETRACTIONS])

    def _drain(self, topics: Sequence[Topic]) -> None:
        asyncio.run(wait_until_drained(self, topics))  # type: ignore[arg-type]

    # The methods of `ConsumerLag` that a barrier calls.
    async def end_offsets(self, topic: Topic) -> list[int]:
        """Return the end offset of each partition of a topic."""
        return [len(self.logs[topic, number]) for number in self.parts]

    async def has_reached(self, topic: Topic, offsets: list[int]) -> bool:
        """Process a topic; return whether the stages have reached some offsets."""
        self.process([topic])
        return all(self.positions[topic, number] >= end for number, end in enumerate(offsets))

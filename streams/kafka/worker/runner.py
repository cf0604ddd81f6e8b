"""Runs batches of messages through the stages, and commits the outcomes so that nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import structlog

from state.model import SweepState
from state.partition import Partition
from streams.kafka.wire import topics
from streams.kafka.wire.packed_messages import BadMessage, Headers, Topic, newer_version, unpack
from streams.kafka.wire.producer import DeadLetter, Producer, to_dead_letter
from streams.kafka.wire.sweep_log import Event, SweepLog, newer_version_error
from streams.kafka.worker.metrics import Metrics
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.stages import STAGES, Context, Outcome
from streams.operators.messages import SketchedPage
from streams.page import Origin, Rejected
from streams.settings import Settings

log = structlog.get_logger(__name__)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a Kafka message that an agent needs."""

    partition: int
    offset: int
    time: int  # ms since the epoch, UTC, as set by the broker or the producer
    value: bytes | None
    headers: Headers


class Runner:
    """Processes batches of packed messages, and commits the outcomes."""

    def __init__(
        self, settings: Settings, partitions: OpenPartitions, producer: Producer, sweep_log: SweepLog
    ) -> None:
        self.settings, self.partitions, self.producer, self.sweep_log = settings, partitions, producer, sweep_log
        self.metrics = Metrics()
        self.context = Context(settings, partitions.partition_count)

    async def process(self, topic: Topic, batch: Sequence[Message]) -> None:
        """Process messages of one topic. Partitions run concurrently; the messages of a partition run in order.

        Raise StateIncompatible, and process nothing, if a message was sent by a newer version.
        """
        await self.refuse_newer(topic, batch)
        by_partition: defaultdict[int, list[Message]] = defaultdict(list)
        for message in batch:
            by_partition[message.partition].append(message)
        await asyncio.gather(*(self._process(topic, number, messages) for number, messages in by_partition.items()))

    async def refuse_newer(self, topic: Topic, batch: Sequence[Message]) -> None:
        """Raise StateIncompatible if a message has a newer version, and the sweep log says that it is in use."""
        for message in batch:
            if version := newer_version(message.headers):
                await self.sweep_log.catch_up()  # a newer worker records its version before it sends messages
                if version <= self.sweep_log.table.message_version:
                    name = topics.full_name(self.settings.kafka, topic)
                    raise newer_version_error(
                        f"the topic {name} (partition {message.partition}, offset {message.offset})", version
                    )

    async def _process(self, topic: Topic, number: int, batch: Sequence[Message]) -> None:
        values, dead_letters = self._unpack(topic, batch)
        if topic is Topic.CAPTURES:
            values = [value for value in values if not self._is_in_cancelled_sweep(value)]
        async with self.partitions.locks[number]:
            partition = self.partitions.by_number.get(number)
            if partition is None or number not in self.partitions.active_numbers:
                # Fail, so that the messages are not acknowledged but delivered again, here or to the new owner.
                raise RuntimeError(f"received a message of partition {number}, which this worker does not own")
            with self.metrics.time_batch(topic, len(values)):
                outcome = STAGES[topic](partition, values, self.context)
            await self.commit(partition, outcome, dead_letters)

    async def commit(self, partition: Partition, outcome: Outcome, dead_letters: Sequence[DeadLetter] = ()) -> None:
        """Send outputs, append changes to the changelog, and write them. The caller holds the partition's lock."""
        assert self.partitions.locks[partition.number].locked()
        await self.send(
            outcome, [*dead_letters, *(to_dead_letter(item, partition.number) for item in outcome.rejected)]
        )
        if len(outcome.changes):
            changes, retraction = outcome.changes, outcome.is_retraction
            offsets = await self.producer.append_changelog(partition.number, changes, retraction=retraction)
            partition.write(changes, offsets, retraction=retraction)
        self.metrics.add_counts(outcome.counts)

    async def send(self, outcome: Outcome, dead_letters: Sequence[DeadLetter]) -> None:
        """Send messages, results and dead letters. Return once the broker has acknowledged all of them."""
        await self.producer.send(outcome.messages)
        await self.producer.send_results(outcome.results)
        await self.producer.send_dead_letters(dead_letters)
        for letter in dead_letters:
            self.metrics.dead_letters.labels(letter.reason).inc()
        for result in outcome.results:
            self.metrics.results.labels(result.topic.value).inc()

    async def report_expired(self, topic: str, partition: int, start: int, end: int) -> None:
        """Report the messages from `start` to before `end`, which were deleted before any worker read them."""
        count = end - start
        log.error("messages expired unread", topic=topic, partition=partition, offset=start, count=count)
        detail = f"{count} messages, up to offset {end - 1}, were deleted before a worker read them"
        letter = to_dead_letter(Rejected("expired", detail, Origin(topic, start)), partition)
        await self.send(Outcome(self.context), [letter])
        now = time.time_ns() // 1_000_000
        event = Event(event="expired", topic=topic, partition=partition, start_offset=start, end_offset=end, time=now)
        await self.sweep_log.append(event)
        self.metrics.expired_messages.labels(topic).inc(count)

    def _is_in_cancelled_sweep(self, page: msgspec.Struct) -> bool:
        """Return whether a page belongs to a cancelled sweep.

        A worker that has not yet noticed the loss of its partition of `pages` may still send such a page.
        """
        assert isinstance(page, SketchedPage)
        sweep = self.sweep_log.table.sweeps.get(page.capture.sweep)
        return sweep is not None and sweep.state is SweepState.CANCELLED

    def _unpack(self, topic: Topic, batch: Iterable[Message]) -> tuple[list[msgspec.Struct], list[DeadLetter]]:
        values: list[msgspec.Struct] = []
        dead_letters = []
        source = topics.full_name(self.settings.kafka, topic)
        for message in batch:
            origin = Origin(source, message.offset)
            try:
                valid, faults = unpack(topic, message.value, message.headers, self.settings.scheme)
            except BadMessage as error:
                dead_letters.append(to_dead_letter(Rejected(error.reason, error.detail, origin), message.partition))
                continue
            values += valid
            if faults:
                detail = f"{len(faults)} of {len(valid) + len(faults)} values are invalid, for example: {faults[0]}"
                dead_letters.append(to_dead_letter(Rejected("bad_message", detail, origin), message.partition))
        return values, dead_letters

"""Runs batches of messages through the stages, and commits the outcomes so that nothing is lost.

A worker that was suspended, or cut off from the broker, may continue a batch after another worker has taken over the
partition. Its late records and messages are void, because the new owner has claimed the partition with a higher
epoch (`state.partition`). The former owner notices this after its next append to the changelog, because records that
it did not write precede its own. It then ends without writing to its store.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import structlog

from state import meta
from state.codecs import changelog_record
from state.partition import Partition
from streams.kafka.wire import topics
from streams.kafka.wire.changelog_reader import ChangelogReader
from streams.kafka.wire.packed_messages import (
    BadMessage,
    Headers,
    Sender,
    Topic,
    decode_sender,
    newer_version,
    unpack,
)
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
        self,
        settings: Settings,
        partitions: OpenPartitions,
        producer: Producer,
        sweep_log: SweepLog,
        changelog: ChangelogReader,
    ) -> None:
        self.settings, self.partitions, self.producer, self.sweep_log = settings, partitions, producer, sweep_log
        self._changelog = changelog
        self.metrics = Metrics()
        self.context = Context(settings, partitions.partition_count)

    async def process(self, topic: Topic, batch: Sequence[Message]) -> None:
        """Process messages of one topic. Process partitions concurrently, and the messages of a partition in order.

        Raise StateIncompatible, and process nothing, if a message was sent by a newer version.
        """
        await self.refuse_newer(topic, batch)
        by_partition: defaultdict[int, list[Message]] = defaultdict(list)
        for message in batch:
            by_partition[message.partition].append(message)
        await asyncio.gather(*(self._process(topic, number, messages) for number, messages in by_partition.items()))

    async def refuse_newer(self, topic: Topic, batch: Sequence[Message]) -> None:
        """Raise StateIncompatible if a message has a newer version that is in use according to the sweep log."""
        for message in batch:
            if version := newer_version(message.headers):
                await self.sweep_log.catch_up()  # a newer worker records its version before it sends messages
                if version <= self.sweep_log.table.message_version:
                    name = topics.full_name(self.settings.kafka, topic)
                    raise newer_version_error(
                        f"the topic {name} (partition {message.partition}, offset {message.offset})", version
                    )

    async def _process(self, topic: Topic, number: int, batch: Sequence[Message]) -> None:
        async with self.partitions.locks[number]:
            partition = self.partitions.by_number.get(number)
            if partition is None or number not in self.partitions.active_numbers:
                # Fail, so that the messages are not acknowledged but delivered again, here or to the new owner.
                raise RuntimeError(f"received a message of partition {number}, which this worker does not own")
            await self.claim(partition)
            current, sender_epochs, dead_letters = self._drop_late_messages(partition, topic, batch)
            values, invalid = self._unpack(topic, current)
            if topic is Topic.CAPTURES:
                values = [value for value in values if not self._is_too_late(value)]
            with self.metrics.time_batch(topic, len(values)):
                outcome = STAGES[topic](partition, values, self.context)
            for sending_partition, epoch in sender_epochs.items():
                meta.put_sender_epoch(outcome.changes, topic, sending_partition, epoch)
            await self.commit(partition, outcome, [*dead_letters, *invalid])
            partition.sender_epochs |= {(topic.value, sender): epoch for sender, epoch in sender_epochs.items()}

    async def claim(self, partition: Partition) -> None:
        """Claim a partition, unless this worker has claimed it already. The caller holds the partition's lock."""
        assert self.partitions.locks[partition.number].locked()
        while not partition.is_claimed:
            sender = Sender(partition.number, partition.epoch + 1)
            offset = await self.producer.append_claim(sender)
            for record in await self._changelog.read(partition.number, partition.offset + 1, offset):
                partition.replay(*record)  # written by the former owner before the claim, and therefore valid
            if partition.epoch >= sender.epoch:
                continue  # another worker has claimed the partition at the same time
            partition.replay(offset, sender.epoch, changelog_record.CLAIM)
            await self.producer.announce_claim(sender, self.context.partition_count)
            partition.claimed_epoch = sender.epoch
            log.info("partition claimed", partition=partition.number, epoch=sender.epoch)

    def _drop_late_messages(
        self, partition: Partition, topic: Topic, batch: Iterable[Message]
    ) -> tuple[list[Message], dict[int, int], list[DeadLetter]]:
        """Drop messages from former owners.

        Return the other messages, the new epochs by sending partition, and dead letters for invalid senders.
        """
        current: list[Message] = []
        epochs: dict[int, int] = {}
        dead_letters: list[DeadLetter] = []
        for message in batch:
            try:
                sender = decode_sender(message.headers)
            except BadMessage as error:
                dead_letters.append(self._dead_letter(topic, message, error.reason, error.detail))
                continue
            if sender is not None:
                known_epoch = epochs.get(sender.partition) or partition.sender_epochs.get(
                    (topic, sender.partition), 0
                )
                if sender.epoch < known_epoch:
                    self.metrics.add_counts({"late_messages": 1})
                    continue
                if sender.epoch > known_epoch:
                    epochs[sender.partition] = sender.epoch
            current.append(message)
        return current, epochs, dead_letters

    async def commit(self, partition: Partition, outcome: Outcome, dead_letters: Sequence[DeadLetter] = ()) -> None:
        """Send outputs, append changes to the changelog, and store them. The caller holds the partition's lock."""
        assert self.partitions.locks[partition.number].locked()
        assert partition.is_claimed
        sender = Sender(partition.number, partition.epoch)
        rejected = [to_dead_letter(item, partition.number) for item in outcome.rejected]
        await self.send(outcome, [*dead_letters, *rejected], sender)
        if len(outcome.changes):
            changes, retraction = outcome.changes, outcome.is_retraction
            offsets = await self.producer.append_changelog(sender, changes, retraction=retraction)
            await self._check_ownership(partition, offsets)
            partition.write(changes, offsets[-1], retraction=retraction)
        self.metrics.add_counts(outcome.counts)

    async def _check_ownership(self, partition: Partition, offsets: Sequence[int]) -> None:
        """Raise RuntimeError if another worker had claimed the partition before the records at these offsets."""
        if offsets[-1] - partition.offset == len(offsets):
            return  # the store contains all records before these
        records = await self._changelog.read(partition.number, partition.offset + 1, offsets[-1])
        if any(record.epoch > partition.epoch for record in records):
            raise RuntimeError(f"another worker has taken over partition {partition.number}")

    async def send(self, outcome: Outcome, dead_letters: Sequence[DeadLetter], sender: Sender | None = None) -> None:
        """Send messages, results and dead letters. Return once the broker has acknowledged all of them."""
        await self.producer.send_packed(outcome.messages, sender)
        await self.producer.send_results(outcome.results)
        await self.producer.send_dead_letters(dead_letters)
        for letter in dead_letters:
            self.metrics.dead_letters.labels(letter.reason).inc()
        for result in outcome.results:
            self.metrics.results.labels(result.topic.value).inc()

    async def report_expired(self, topic: str, partition: int, start: int, end: int) -> None:
        """Report that the messages from offset `start` to `end` - 1 were deleted before any worker read them."""
        count = end - start
        log.error("messages expired unread", topic=topic, partition=partition, offset=start, count=count)
        detail = f"{count} messages, up to offset {end - 1}, were deleted before a worker read them"
        letter = to_dead_letter(Rejected("expired", detail, Origin(topic, start)), partition)
        await self.send(Outcome(self.context), [letter])
        now = time.time_ns() // 1_000_000
        event = Event(event="expired", topic=topic, partition=partition, start_offset=start, end_offset=end, time=now)
        await self.sweep_log.append(event)
        self.metrics.expired_messages.labels(topic).inc(count)

    def _is_too_late(self, page: msgspec.Struct) -> bool:
        """Return whether a page is from a worker that did not notice the loss of its partition of `pages` in time."""
        return isinstance(page, SketchedPage) and self.sweep_log.table.ignores_pages(page.capture.sweep)

    def _unpack(self, topic: Topic, batch: Iterable[Message]) -> tuple[list[msgspec.Struct], list[DeadLetter]]:
        values: list[msgspec.Struct] = []
        dead_letters = []
        for message in batch:
            try:
                valid, problems = unpack(topic, message.value, message.headers, self.settings.scheme)
            except BadMessage as error:
                dead_letters.append(self._dead_letter(topic, message, error.reason, error.detail))
                continue
            values += valid
            if problems:
                detail = (
                    f"{len(problems)} of {len(valid) + len(problems)} values are invalid, for example: {problems[0]}"
                )
                dead_letters.append(self._dead_letter(topic, message, "bad_message", detail))
        return values, dead_letters

    def _dead_letter(self, topic: Topic, message: Message, reason: str, detail: str) -> DeadLetter:
        origin = Origin(topics.full_name(self.settings.kafka, topic), message.offset)
        return to_dead_letter(Rejected(reason, detail, origin), message.partition)

"""The consumer lag of a group of workers, and barriers: waiting until all messages in flight have passed all stages.

    pages ─▶ captures ─▶ captures ─▶ documents ─▶ buckets ─▶ documents ─▶ documents ─▶ joins ─▶ joins ...

Once the group has committed past a topic's recorded end offsets, all derived messages are in the next topic. A
barrier then records the end offsets of that topic and waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import MESSAGE_TYPES, Topic
from streams.kafka.wire.topics import PartitionCounts
from streams.settings import KafkaSettings

POLL_SECONDS = 0.5
JOIN_ROUNDS_MAX = 64  # a union travels from owner to owner along decreasing ids; most take one or two hops
CONSUMED = (Topic.PAGES, *MESSAGE_TYPES)
# A revisit passes `captures` twice: first at the owner of the URL that it repeats. `documents` occurs three times: a
# sighting causes bucket probes, those cause candidate pairs, and those cause verify requests.
ADMISSION_STAGES = (Topic.CAPTURES, Topic.CAPTURES, Topic.DOCUMENTS)  # after them, a page's document is stored
_VERIFICATION_STAGES = (Topic.DOCUMENTS, Topic.BUCKETS, Topic.DOCUMENTS, Topic.DOCUMENTS)
CLUSTERING_STAGES = (*_VERIFICATION_STAGES, *[Topic.JOINS] * 16)  # pending pages are ignored
# `joins` repeats until no new messages appear: at most JOIN_ROUNDS_MAX times, if other sweeps keep sending unions.
STAGES = (Topic.PAGES, *ADMISSION_STAGES[:2], *_VERIFICATION_STAGES, *[Topic.JOINS] * JOIN_ROUNDS_MAX)
log = structlog.get_logger(__name__)


class ConsumerLag:
    """Reads the committed and end offsets of all consumed topics. An async context manager: it connects."""

    def __init__(self, broker: Broker, settings: KafkaSettings, counts: PartitionCounts) -> None:
        self._group = settings.prefix
        self._partitions = {
            topic: [TopicPartition(topics.full_name(settings, topic), n) for n in range(counts.partitions_of(topic))]
            for topic in CONSUMED
        }
        self._admin = AIOKafkaAdminClient(**broker.client())
        self._consumer = AIOKafkaConsumer(**broker.client())

    async def __aenter__(self) -> Self:
        await self._admin.start()
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()
        await self._admin.close()

    async def committed_offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets that the group has committed."""
        offsets = await self._admin.list_consumer_group_offsets(self._group)
        return {partition: metadata.offset for partition, metadata in offsets.items() if metadata.offset >= 0}

    async def end_offsets(self, topic: Topic) -> list[int]:
        """Return the end offset of each partition of a topic."""
        ends = await self._consumer.end_offsets(self._partitions[topic])
        return [ends[partition] for partition in self._partitions[topic]]

    async def is_idle(self) -> bool:
        """Whether the lag is zero; False while the broker cannot answer, for example right after its start."""
        try:
            return not any((await self.by_topic()).values())
        except KafkaError as error:
            log.info("cannot read the consumer lag", error=repr(error))
            return False

    async def by_topic(self) -> dict[Topic, int]:
        """Return the number of uncommitted messages per topic.

        Committed offsets are read before end offsets. The outputs of a committed message were sent before its commit,
        so they lie before an end that is read later: if all counts are zero, no message was in flight.
        """
        committed = await self.committed_offsets()
        lag = {}
        for topic, partitions in self._partitions.items():
            ends = zip(partitions, await self.end_offsets(topic), strict=True)
            lag[topic] = sum(max(0, end - committed.get(partition, 0)) for partition, end in ends)
        return lag

    async def has_reached(self, topic: Topic, offsets: list[int]) -> bool:
        """Whether the group has committed at least these offsets, one per partition of a topic."""
        committed = await self.committed_offsets()
        # A commit can have been requested when the topic had fewer partitions.
        partitions = zip(self._partitions[topic], offsets, strict=False)
        return all(committed.get(partition, 0) >= offset for partition, offset in partitions)


class Barrier:
    """The progress of a consumer group through some stages, from recorded end offsets of the first one."""

    def __init__(self, lag: ConsumerLag, end_offsets: list[int], stages: Sequence[Topic] = STAGES) -> None:
        self._lag, self._end_offsets, self._stages = lag, end_offsets, stages
        self._position = 0  # the index of the stage that is waited for

    async def advance(self) -> bool:
        """Advance past completed stages; return True once all are complete. Raise KafkaError if the broker fails."""
        while self._position < len(self._stages):
            stage = self._stages[self._position]
            if not await self._lag.has_reached(stage, self._end_offsets):
                return False
            self._position += 1
            if self._position < len(self._stages):
                next_ends = await self._lag.end_offsets(self._stages[self._position])
                if stage is Topic.JOINS and next_ends == self._end_offsets:
                    self._position = len(self._stages)  # the last round of joins sent no messages
                self._end_offsets = next_ends
        return True


async def wait_until_drained(lag: ConsumerLag, stages: Sequence[Topic] = STAGES) -> None:
    """Return once every message that is now in the first stage, and all that derive from it, are processed."""
    barrier = None
    while True:
        try:
            barrier = barrier or Barrier(lag, await lag.end_offsets(stages[0]), stages)
            if await barrier.advance():
                return
        except KafkaError as error:
            log.info("cannot read the group's offsets, retrying", error=repr(error))
        await asyncio.sleep(POLL_SECONDS)

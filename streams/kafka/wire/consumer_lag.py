"""The consumer lag of the workers, and barriers, which wait until all messages in flight have passed all stages.

    pages ─▶ captures ─▶ captures ─▶ documents ─▶ buckets ─▶ documents ─▶ documents ─▶ joins ─▶ joins ...

A barrier records the end offsets of a topic. Once the group has committed these offsets, all messages that derive
from the topic are in the next topic. The barrier then records the end offsets of the next topic, and so on.
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
JOIN_ROUNDS_MAX = 64  # a union hops from owner to owner along decreasing ids; most need one or two hops
CONSUMED_TOPICS = (Topic.PAGES, *MESSAGE_TYPES)
# A revisit passes `captures` twice: first it goes to the owner of the repeated URL. `documents` occurs three times: a
# sighting causes bucket probes, the probes cause candidate pairs, and the pairs cause verify requests.
ADMISSION_STAGES = (Topic.CAPTURES, Topic.CAPTURES, Topic.DOCUMENTS)  # after them, the page's document is stored
_VERIFICATION_STAGES = (Topic.DOCUMENTS, Topic.BUCKETS, Topic.DOCUMENTS, Topic.DOCUMENTS)
CLUSTERING_STAGES = (*_VERIFICATION_STAGES, *[Topic.JOINS] * 16)  # pages that are not captured yet are ignored
# `joins` repeats until a round sends no messages. The maximum matters only if other sweeps keep sending unions.
STAGES = (Topic.PAGES, *ADMISSION_STAGES[:2], *_VERIFICATION_STAGES, *[Topic.JOINS] * JOIN_ROUNDS_MAX)
log = structlog.get_logger(__name__)


class ConsumerLag:
    """Reads the committed and end offsets of all consumed topics. Use it as an async context manager to connect."""

    def __init__(self, broker: Broker, settings: KafkaSettings, counts: PartitionCounts) -> None:
        self._group = settings.prefix
        self._partitions = {
            topic: [TopicPartition(topics.full_name(settings, topic), n) for n in range(counts.partitions_of(topic))]
            for topic in CONSUMED_TOPICS
        }
        self._admin = AIOKafkaAdminClient(**broker.client_arguments())
        self._consumer = AIOKafkaConsumer(**broker.client_arguments())

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
        """Return whether the lag is zero. Return False if the broker cannot answer, for example while it starts."""
        try:
            return not any((await self.by_topic()).values())
        except KafkaError as error:
            log.info("cannot read the consumer lag", error=repr(error))
            return False

    async def by_topic(self) -> dict[Topic, int]:
        """Return the number of uncommitted messages per topic.

        Committed offsets are read before end offsets. The outputs of a message are sent before its commit, so the end
        offsets that are read later include them. If all counts are zero, no message was in flight.
        """
        committed = await self.committed_offsets()
        lag = {}
        for topic, partitions in self._partitions.items():
            ends = zip(partitions, await self.end_offsets(topic), strict=True)
            lag[topic] = sum(max(0, end - committed.get(partition, 0)) for partition, end in ends)
        return lag

    async def has_reached(self, topic: Topic, offsets: list[int]) -> bool:
        """Return whether the group has committed at least these offsets, one per partition of a topic."""
        committed = await self.committed_offsets()
        # The topic can have gained partitions since the offsets were read.
        partitions = zip(self._partitions[topic], offsets, strict=False)
        return all(committed.get(partition, 0) >= offset for partition, offset in partitions)


class Barrier:
    """The progress of a consumer group through stages; `end_offsets` are those of the first stage."""

    def __init__(self, lag: ConsumerLag, end_offsets: list[int], stages: Sequence[Topic] = STAGES) -> None:
        self._lag, self._end_offsets, self._stages = lag, end_offsets, stages
        self._position = 0  # the index of the current stage

    async def advance(self) -> bool:
        """Advance past completed stages and return whether all are complete. Raise KafkaError if the broker fails."""
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
    """Return once all messages now in the first stage, and all messages derived from them, are processed."""
    barrier = None
    while True:
        try:
            barrier = barrier or Barrier(lag, await lag.end_offsets(stages[0]), stages)
            if await barrier.advance():
                return
        except KafkaError as error:
            log.info("cannot read the group's offsets, retrying", error=repr(error))
        await asyncio.sleep(POLL_SECONDS)

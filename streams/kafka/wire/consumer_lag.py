"""The consumer lag of the workers, and barriers, which detect that all messages in flight have passed all stages.

In each stage, the agents of one topic process messages and send outputs to the topic of the next stage:

    pages ─▶ captures ─▶ captures ─▶ documents ─▶ buckets ─▶ documents ─▶ documents ─▶ joins ─▶ joins ...

A barrier records the end offsets of a topic. Once the consumer group has committed these offsets, all outputs of the
messages before these offsets are in the next topic. The barrier then records that topic's end offsets, and so on.
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
from streams.kafka.wire.packed_messages import VALUE_TYPES, Topic
from streams.kafka.wire.topics import PartitionCounts
from streams.settings import KafkaSettings

POLL_SECONDS = 0.5
JOIN_ROUNDS_MAX = 64  # a union is forwarded from owner to owner along decreasing ids, but usually only once or twice
CONSUMED_TOPICS = (Topic.PAGES, *VALUE_TYPES)
# `captures` occurs twice, because a revisit is first sent to the owner of the URL whose capture it repeats.
# `documents` occurs three times: for sightings, for the candidate pairs from `buckets`, and for verify requests.
ADMISSION_STAGES = (Topic.CAPTURES, Topic.CAPTURES, Topic.DOCUMENTS)  # after these stages, all documents are stored
_VERIFICATION_STAGES = (Topic.DOCUMENTS, Topic.BUCKETS, Topic.DOCUMENTS, Topic.DOCUMENTS)
CLUSTERING_STAGES = (*_VERIFICATION_STAGES, *[Topic.JOINS] * 16)  # for messages that have passed `captures`
# `joins` repeats until a round sends no messages. JOIN_ROUNDS_MAX is reached only while other sweeps send unions.
STAGES = (Topic.PAGES, *ADMISSION_STAGES[:2], *_VERIFICATION_STAGES, *[Topic.JOINS] * JOIN_ROUNDS_MAX)
log = structlog.get_logger(__name__)


class ConsumerLag:
    """The committed and end offsets of all consumed topics. `async with` connects to the broker.

    A barrier waits for the messages of transactions that are open when it starts. The lag does not count these
    messages: they can be read only once their transaction is committed, and never if it is aborted.
    """

    def __init__(self, broker: Broker, settings: KafkaSettings, counts: PartitionCounts) -> None:
        self._group = settings.prefix
        self._names = {topic: topics.full_name(settings, topic) for topic in CONSUMED_TOPICS}
        self._counts = {topic: counts.count_for(topic) for topic in CONSUMED_TOPICS}
        arguments = broker.client_arguments()
        self._admin = AIOKafkaAdminClient(**arguments)
        self._consumer = AIOKafkaConsumer(**arguments)
        self._stable_consumer = AIOKafkaConsumer(**arguments, isolation_level="read_committed")

    async def __aenter__(self) -> Self:
        await self._admin.start()
        await self._consumer.start()
        await self._stable_consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stable_consumer.stop()
        await self._consumer.stop()
        await self._admin.close()

    async def committed_offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets that the consumer group has committed, by partition."""
        offsets = await self._admin.list_consumer_group_offsets(self._group)
        return {partition: metadata.offset for partition, metadata in offsets.items() if metadata.offset >= 0}

    async def end_offsets(self, topic: Topic) -> list[int]:
        """Return the end offset of each partition of a topic, including messages of open transactions."""
        return list((await self._read_end_offsets(self._consumer, topic)).values())

    async def _read_end_offsets(self, consumer: AIOKafkaConsumer, topic: Topic) -> dict[TopicPartition, int]:
        if topic is Topic.PAGES:  # the only topic that can gain partitions
            self._counts[topic] = await topics.partition_count(self._admin, self._names[topic])
        partitions = [TopicPartition(self._names[topic], number) for number in range(self._counts[topic])]
        end_offsets = await consumer.end_offsets(partitions)
        return {partition: end_offsets[partition] for partition in partitions}

    async def is_idle(self) -> bool:
        """Return whether the lag is zero. Return False if the broker cannot answer, for example while it starts."""
        try:
            return not any((await self.by_topic()).values())
        except KafkaError as error:
            log.info("cannot read the consumer lag", error=repr(error))
            return False

    async def by_topic(self) -> dict[Topic, int]:
        """Return the number of offsets per topic that the group has not passed: all 0 if no message was in flight.

        The outputs of a message are sent before its offset is committed. The end offsets are read after the committed
        offsets, so they include all outputs of committed messages.
        """
        committed = await self.committed_offsets()
        lag = {}
        for topic in CONSUMED_TOPICS:
            end_offsets = await self._read_end_offsets(self._stable_consumer, topic)
            lag[topic] = sum(max(0, end - committed.get(partition, 0)) for partition, end in end_offsets.items())
        return lag

    async def has_reached(self, topic: Topic, offsets: list[int]) -> bool:
        """Return whether the group has committed at least these offsets, one per partition of the topic."""
        committed = await self.committed_offsets()
        name = self._names[topic]
        return all(committed.get(TopicPartition(name, n), 0) >= offset for n, offset in enumerate(offsets))


class Barrier:
    """The progress of the consumer group through stages. `end_offsets` are those of the first stage's topic."""

    def __init__(self, lag: ConsumerLag, end_offsets: list[int], stages: Sequence[Topic] = STAGES) -> None:
        self._lag, self._end_offsets, self._stages = lag, end_offsets, stages
        self._index = 0  # the index of the current stage

    async def advance(self) -> bool:
        """Advance past completed stages. Return whether all are completed. Raise KafkaError if the broker fails."""
        while self._index < len(self._stages):
            stage = self._stages[self._index]
            if not await self._lag.has_reached(stage, self._end_offsets):
                return False
            self._index += 1
            if self._index < len(self._stages):
                next_end_offsets = await self._lag.end_offsets(self._stages[self._index])
                if stage is Topic.JOINS and next_end_offsets == self._end_offsets:
                    self._index = len(self._stages)  # the last round of joins sent no messages
                self._end_offsets = next_end_offsets
        return True


async def wait_until_drained(lag: ConsumerLag, stages: Sequence[Topic] = STAGES) -> None:
    """Return once the messages that are now in the first topic, and all messages derived from them, are processed."""
    barrier = None
    while True:
        try:
            barrier = barrier or Barrier(lag, await lag.end_offsets(stages[0]), stages)
            if await barrier.advance():
                return
        except KafkaError as error:
            log.info("cannot read the group's offsets, retrying", error=repr(error))
        await asyncio.sleep(POLL_SECONDS)

"""The consumer lag of a group of workers: the messages that it has not committed yet."""

from __future__ import annotations

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

log = structlog.get_logger(__name__)
CONSUMED = (Topic.PAGES, *MESSAGE_TYPES)


class ConsumerLag:
    """Reads the committed offsets and the ends of all consumed topics. An async context manager: it connects."""

    def __init__(self, broker: Broker, settings: KafkaSettings, counts: PartitionCounts) -> None:
        self._group = settings.prefix
        self._partitions = {
            topic: [
                TopicPartition(topics.full_name(settings, topic), number)
                for number in range(counts.partitions_of(topic))
            ]
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
        partitions = self._partitions[topic]
        ends = await self._consumer.end_offsets(partitions)
        return [ends[partition] for partition in partitions]

    async def is_idle(self) -> bool:
        """Whether the lag is zero; False while the broker cannot answer, for example right after its start."""
        try:
            return not any((await self.by_topic()).values())
        except KafkaError as error:
            log.info("cannot read the consumer lag", error=repr(error))
            return False

    async def by_topic(self) -> dict[Topic, int]:
        """Return the number of uncommitted messages per topic.

        Committed offsets are read before ends. A committed message had sent its outputs, so they are behind an end
        that is read later: if all counts are zero, no message was in flight.
        """
        committed = await self.committed_offsets()
        lag = {}
        for topic, partitions in self._partitions.items():
            ends = await self.end_offsets(topic)
            lag[topic] = sum(
                max(0, end - committed.get(partition, 0)) for partition, end in zip(partitions, ends, strict=True)
            )
        return lag

    async def has_reached(self, topic: Topic, offsets: list[int]) -> bool:
        """Whether the group has committed at least these offsets, one per partition of a topic."""
        committed = await self.committed_offsets()
        partitions = zip(self._partitions[topic], offsets, strict=False)  # a stored commit may be of fewer partitions
        return all(committed.get(partition, 0) >= offset for partition, offset in partitions)

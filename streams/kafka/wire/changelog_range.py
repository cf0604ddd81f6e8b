"""Read the range of offsets of a changelog, and delete its first records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import Topic
from streams.settings import KafkaSettings

_TIMEOUT_SECONDS = 60.0


class ChangelogRange:
    """Reads and trims the offset ranges of changelogs. Each call opens a connection, because calls are rare."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._broker, self._topic = broker, topics.full_name(settings, Topic.CHANGELOG)

    async def read(self, partitions: Iterable[int]) -> dict[int, range]:
        """Return the offsets of the records of each partition. Raise KafkaError or TimeoutError on failure."""
        topic_partitions = [TopicPartition(self._topic, partition) for partition in partitions]
        if not topic_partitions:
            return {}
        consumer = AIOKafkaConsumer(**self._broker.client_arguments())
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await consumer.start()
            try:
                starts = await consumer.beginning_offsets(topic_partitions)
                ends = await consumer.end_offsets(topic_partitions)
            finally:
                await consumer.stop()
        return {key.partition: range(start, ends[key]) for key, start in starts.items()}

    async def trim(self, partition: int, offset: int) -> None:
        """Delete the records before an offset. Raise KafkaError or TimeoutError on failure."""
        admin = AIOKafkaAdminClient(**self._broker.client_arguments())
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            try:
                await admin.start()
                await admin.delete_records({TopicPartition(self._topic, partition): RecordsToDelete(offset)})
            finally:
                await admin.close()

"""Whether all is consumed: every offset committed is the end of its partition."""

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
    """Reads how far a group of workers is behind; connected while it is entered."""

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
        """Offsets that the group has committed."""
        found = await self._admin.list_consumer_group_offsets(self._group)
        return {place: metadata.offset for place, metadata in found.items() if metadata.offset >= 0}

    async def end_offsets(self, topic: Topic) -> list[int]:
        """Where the partitions of a topic end."""
        places = self._partitions[topic]
        found = await self._consumer.end_offsets(places)
        return [found[place] for place in places]

    async def is_idle(self) -> bool:
        """Whether nothing is left to do; False while the broker cannot tell, as when it has just started."""
        try:
            return not any((await self.by_topic()).values())
        except KafkaError as error:
            log.info("the broker cannot tell how far the group is", error=repr(error))
            return False

    async def by_topic(self) -> dict[Topic, int]:
        """Messages that are not done, by topic.

        Offsets are read before ends: what was committed then had sent its outputs, so these are behind an end read
        later. All zeros say that nothing was under way.
        """
        committed = await self.committed_offsets()
        lag = {}
        for topic, places in self._partitions.items():
            ends = await self.end_offsets(topic)
            behind = (end - committed.get(place, 0) for place, end in zip(places, ends, strict=True))
            lag[topic] = sum(max(0, each) for each in behind)
        return lag

    async def has_reached(self, topic: Topic, until: list[int]) -> bool:
        """Whether the group has got so far in every partition of a topic."""
        committed = await self.committed_offsets()
        return all(committed.get(place, 0) >= end for place, end in zip(self._partitions[topic], until, strict=False))

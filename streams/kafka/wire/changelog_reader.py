"""Read records of a partition's changelog outside Faust's recovery."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import Headers, Topic, decode_sender
from streams.kafka.wire.producer import CHANGELOG_KEY
from streams.settings import KafkaSettings

_TIMEOUT_SECONDS = 60.0


class ChangelogRecord(NamedTuple):
    offset: int
    epoch: int  # of the writer; see `state.partition`
    record: bytes


class ChangelogReader:
    """Reads a range of offsets. Each read opens a connection, because reads are rare."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._broker, self._topic = broker, topics.full_name(settings, Topic.CHANGELOG)

    async def read(self, partition: int, start: int, end: int) -> list[ChangelogRecord]:
        """Return the records with offsets from `start` up to but not including `end`, in order.

        Raise KafkaError or TimeoutError if the broker does not return them in time.
        """
        if start >= end:
            return []
        records: list[ChangelogRecord] = []
        topic_partition = TopicPartition(self._topic, partition)
        consumer = AIOKafkaConsumer(**self._broker.client_arguments(), auto_offset_reset="none")
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await consumer.start()
            try:
                consumer.assign([topic_partition])
                consumer.seek(topic_partition, start)
                while await consumer.position(topic_partition) < end:
                    messages = (await consumer.getmany(timeout_ms=1000)).get(topic_partition, ())
                    records += [
                        ChangelogRecord(message.offset, epoch_of(message.headers), message.value or b"")
                        for message in messages
                        if message.offset < end and message.key == CHANGELOG_KEY
                    ]
            finally:
                await consumer.stop()
        return records


def epoch_of(headers: Headers | None) -> int:
    """Return the epoch of a record's writer, or 0 if the record has no sender."""
    sender = decode_sender(headers or ())
    return sender.epoch if sender is not None else 0

"""The producer: a call returns once the broker has acknowledged its messages, or raises an error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from state.changes import Changes
from state.codecs import changelog_record
from streams.kafka.wire import packed_messages, topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import Result
from streams.page import Rejected
from streams.settings import KafkaSettings

ATTEMPT_MS = 40_000
FIELD_CHARACTERS_MAX = 4096


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected message or page, as JSON in the topic `dead-letters`."""

    reason: str
    detail: str
    url: str
    source: str  # the topic, or the file that the crawler named
    member: str
    offset: int
    partition: int | None = None

    @property
    def key(self) -> str:
        """The key of the message: the same whenever the same message or record is rejected."""
        return "#".join(str(part) for part in (self.source, self.member, self.partition, self.offset))


class Producer:
    """An idempotent producer: retries send no duplicates and keep the order within a partition."""

    def __init__(self, broker: Broker, settings: KafkaSettings, scheme: str) -> None:
        self.settings, self.scheme = settings, scheme
        self._broker = broker
        self._arguments: dict[str, Any] = {
            **broker.client(),
            "enable_idempotence": True,
            "acks": "all",
            "max_batch_size": 1 << 20,
            "max_request_size": settings.message_bytes_max,
            "request_timeout_ms": ATTEMPT_MS,
        }
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect; call it on the event loop that sends."""
        self._producer = AIOKafkaProducer(**self._arguments)
        await self._producer.start()

    async def stop(self) -> None:
        """Send the buffered messages and disconnect."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, sends: Mapping[tuple[Topic, int], Sequence[msgspec.Struct]]) -> None:
        """Pack and send values by topic and partition."""
        pending = []
        for (topic, partition), values in sends.items():
            headers = packed_messages.headers(topic, self.scheme)
            packed = packed_messages.pack(values, self.settings.pack_bytes)
            pending += [await self._enqueue(topic, partition, value, headers) for value in packed]
        await _acknowledge(pending)

    async def append_changelog(self, partition: int, changes: Changes, *, retraction: bool) -> list[int]:
        """Append changes to the changelog; return the offsets of their records."""
        kind = changelog_record.RETRACTION if retraction else changelog_record.FACTS
        records = changelog_record.encode(changes, kind=kind, record_bytes_max=max(self.settings.pack_bytes, 1 << 16))
        # Faust wants a key on every changelog record. It can be constant: the topic is not compacted.
        pending = [await self._enqueue(Topic.CHANGELOG, partition, value, [], key=b"facts") for value in records]
        return [metadata.offset for metadata in await _acknowledge(pending)]

    async def send_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """Send dead letters."""
        encode, headers = msgspec.json.encode, _json_headers(Topic.DEAD_LETTERS)
        await _acknowledge(
            [
                await self._enqueue(Topic.DEAD_LETTERS, 0, encode(letter), headers, letter.key.encode())
                for letter in letters
            ]
        )

    async def send_results(self, results: Iterable[Result]) -> None:
        """Send results, one message per result."""
        await _acknowledge(
            [
                await self._enqueue(
                    result.topic,
                    result.partition,
                    msgspec.json.encode(result.value),
                    _json_headers(result.topic),
                    result.key,
                )
                for result in results
            ]
        )

    async def send_message(
        self, topic: Topic, partition: int, value: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> int:
        """Send one encoded message and return its offset."""
        (metadata,) = await _acknowledge([await self._enqueue(topic, partition, value, headers)])
        return int(metadata.offset)

    async def end_offsets(self, topic: Topic, partitions: int) -> list[int]:
        """Return the end offset of each partition of a topic."""
        assert self._producer is not None, "call start() first"
        name = topics.full_name(self.settings, topic)
        topic_partitions = [TopicPartition(name, number) for number in range(partitions)]
        consumer = AIOKafkaConsumer(**self._broker.client())
        await consumer.start()
        try:
            ends = await consumer.end_offsets(topic_partitions)
        finally:
            await consumer.stop()
        return [ends[topic_partition] for topic_partition in topic_partitions]

    async def _enqueue(
        self,
        topic: Topic,
        partition: int,
        value: bytes,
        headers: Sequence[tuple[str, bytes]],
        key: bytes | None = None,
    ) -> asyncio.Future[Any]:
        assert self._producer is not None, "call start() first"
        name = topics.full_name(self.settings, topic)
        pending: asyncio.Future[Any] = await self._producer.send(
            name, value, key=key, partition=partition, headers=list(headers)
        )
        return pending


def _json_headers(topic: Topic) -> list[tuple[str, bytes]]:
    return [("schema", packed_messages.schema(topic).encode()), ("content-type", b"application/json")]


async def _acknowledge(pending: Sequence[asyncio.Future[Any]]) -> list[Any]:
    """Wait until the broker has acknowledged all messages; return their metadata."""
    return list(await asyncio.gather(*pending))


def dead_letter(item: Rejected, partition: int | None = None) -> DeadLetter:
    """Return the dead letter of a rejected page; fields from outside are truncated to a size that can be sent."""
    origin, limit = item.origin, FIELD_CHARACTERS_MAX
    url, source, member = item.url[:limit], origin.source[:limit], origin.member[:limit]
    return DeadLetter(
        reason=item.reason,
        detail=item.detail[:limit],
        url=url,
        source=source,
        member=member,
        offset=origin.offset,
        partition=partition,
    )

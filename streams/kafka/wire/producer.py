"""Sending: every message is acknowledged by the broker before the caller goes on, or an error is raised."""

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
SAID_CHARACTERS_MAX = 4096


class DeadLetter(msgspec.Struct, frozen=True):
    """A refused message or page, on `dead-letters` as JSON."""

    reason: str
    detail: str
    url: str
    source: str  # topic, or the crawler's own place where it said one
    member: str
    offset: int
    partition: int | None = None

    @property
    def key(self) -> str:
        """The same for the same message or record, however often it is refused."""
        return "#".join(str(part) for part in (self.source, self.member, self.partition, self.offset))


class Producer:
    """An idempotent producer: a retry leaves no second copy, and a partition keeps the order of sending."""

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
        """Connect; must run on the loop that sends."""
        self._producer = AIOKafkaProducer(**self._arguments)
        await self._producer.start()

    async def stop(self) -> None:
        """Send what is under way, then let go of the connection."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, sends: Mapping[tuple[Topic, int], Sequence[msgspec.Struct]]) -> None:
        """Pack and send values by topic and partition; returns when the broker has them all."""
        waiting = []
        for (topic, partition), values in sends.items():
            given = packed_messages.headers(topic, self.scheme)
            packed = packed_messages.pack(values, self.settings.pack_bytes)
            waiting += [await self._start(topic, partition, value, given) for value in packed]
        await _all(waiting)

    async def append_changelog(self, partition: int, changes: Changes, *, retraction: bool) -> list[int]:
        """Send changes to the changelog; returns the offsets that their records got."""
        kind = changelog_record.AMENDMENT if retraction else changelog_record.FACTS
        records = changelog_record.encode(changes, kind=kind, record_bytes_max=max(self.settings.pack_bytes, 1 << 16))
        # A key, because the table's changelog must have one; unique is enough, nothing is compacted.
        waiting = [await self._start(Topic.CHANGELOG, partition, value, [], key=b"facts") for value in records]
        return [metadata.offset for metadata in await _all(waiting)]

    async def send_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """Send dead letters."""
        encode, given = msgspec.json.encode, _said(Topic.DEAD_LETTERS)
        await _all(
            [await self._start(Topic.DEAD_LETTERS, 0, encode(each), given, each.key.encode()) for each in letters]
        )

    async def send_results(self, found: Iterable[Result]) -> None:
        """Send results, one message each."""
        encode = msgspec.json.encode
        await _all(
            [
                await self._start(each.topic, each.partition, encode(each.value), _said(each.topic), each.key)
                for each in found
            ]
        )

    async def send_message(
        self, topic: Topic, partition: int, value: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> int:
        """Send one message as it is and return its offset."""
        (metadata,) = await _all([await self._start(topic, partition, value, headers)])
        return int(metadata.offset)

    async def end_offsets(self, topic: Topic, partitions: int) -> list[int]:
        """Where the partitions of a topic end now."""
        assert self._producer is not None, "start() comes first"
        full = topics.full_name(self.settings, topic)
        places = [TopicPartition(full, number) for number in range(partitions)]
        consumer = AIOKafkaConsumer(**self._broker.client())
        await consumer.start()
        try:
            found = await consumer.end_offsets(places)
        finally:
            await consumer.stop()
        return [found[place] for place in places]

    async def _start(
        self,
        topic: Topic,
        partition: int,
        value: bytes,
        headers: Sequence[tuple[str, bytes]],
        key: bytes | None = None,
    ) -> asyncio.Future[Any]:
        assert self._producer is not None, "start() comes first"
        full = topics.full_name(self.settings, topic)
        sent: asyncio.Future[Any] = await self._producer.send(
            full, value, key=key, partition=partition, headers=list(headers)
        )
        return sent


def _said(topic: Topic) -> list[tuple[str, bytes]]:
    """Headers of JSON for others."""
    return [("schema", packed_messages.schema(topic).encode()), ("content-type", b"application/json")]


async def _all(waiting: Sequence[asyncio.Future[Any]]) -> list[Any]:
    return list(await asyncio.gather(*waiting)) if waiting else []


def dead_letter(item: Rejected, partition: int | None = None) -> DeadLetter:
    """The dead letter of a refused page; what others said of it is cut, so that it can be sent."""
    origin, most = item.origin, SAID_CHARACTERS_MAX
    url, source, member = item.url[:most], origin.source[:most], origin.member[:most]
    return DeadLetter(item.reason, item.detail[:most], url, source, member, origin.offset, partition)

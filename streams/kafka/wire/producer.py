"""Send messages to Kafka, and wait until the broker has acknowledged them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from state.changes import Changes
from state.codecs import changelog_record
from streams.kafka.wire import packed_messages, topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import SENDER_TOPICS, Headers, Sender, Topic
from streams.kafka.wire.result_messages import Result
from streams.page import Rejected
from streams.settings import KafkaSettings

_REQUEST_TIMEOUT_MS = 40_000
FIELD_CHARACTERS_MAX = 4096  # keeps a dead letter small enough to be sent
CHANGELOG_KEY = b"facts"  # the key of every record in the changelog, claims and retractions included
_Message = tuple[Topic, int, bytes, Headers, bytes | None]
"""Topic, partition, value, headers and key."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected message or page, sent as JSON to the topic `dead-letters`."""

    reason: str  # a stable code
    detail: str
    url: str
    source: str  # the topic, or the crawl file that contains the record
    member: str  # the file inside a WACZ
    offset: int  # of the message in its partition, or of the record in the file
    partition: int | None = None  # of the message; None for a record of a crawl file

    @property
    def key(self) -> str:
        """The key of the dead letter's message. A message or record that is rejected again gets the same key."""
        return "#".join(str(part) for part in (self.source, self.member, self.partition, self.offset))


class Producer:
    """An idempotent producer: retries do not duplicate messages or reorder them within a partition.

    The methods that send raise an error if the broker does not acknowledge all messages.
    """

    def __init__(self, broker: Broker, settings: KafkaSettings, scheme_id: str) -> None:
        self.settings, self.scheme_id = settings, scheme_id
        self._arguments: dict[str, Any] = {
            **broker.client_arguments(),
            "enable_idempotence": True,
            "acks": "all",
            "compression_type": settings.compression or None,
            "max_batch_size": 1 << 20,
            "max_request_size": settings.message_bytes_max,
            "request_timeout_ms": _REQUEST_TIMEOUT_MS,
        }
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect. Call this on the event loop that will send the messages."""
        self._producer = AIOKafkaProducer(**self._arguments)
        await self._producer.start()

    async def stop(self) -> None:
        """Send the buffered messages and disconnect."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send_packed(
        self,
        values_by_destination: Mapping[tuple[Topic, int], Sequence[msgspec.Struct]],
        sender: Sender | None = None,
    ) -> None:
        """Pack and send the values for each topic and partition.

        `sender` is None if the values were not derived from the rows of a partition.
        """
        await self._send_all(
            (topic, partition, message, packed_messages.headers_for(topic, self.scheme_id, sender), None)
            for (topic, partition), values in values_by_destination.items()
            for message in packed_messages.pack(values, self.settings.pack_bytes)
        )

    async def announce_claim(self, sender: Sender, partition_count: int) -> None:
        """Announce a claim: send an empty message to every partition.

        Receivers then drop any later message from a former owner of the sender's partition.
        """
        await self._send_all(
            (
                topic,
                number,
                packed_messages.EMPTY_MESSAGE,
                packed_messages.headers_for(topic, self.scheme_id, sender),
                None,
            )
            for topic in SENDER_TOPICS
            for number in range(partition_count)
        )

    async def append_claim(self, sender: Sender) -> int:
        """Append a claim to the changelog of the sender's partition, and return the claim's offset."""
        (offset,) = await self._append_records(sender, [changelog_record.CLAIM])
        return offset

    async def append_changelog(self, sender: Sender, changes: Changes, *, retraction: bool) -> list[int]:
        """Append changes to the changelog of the sender's partition, and return the offsets of their records."""
        kind = changelog_record.RETRACTION if retraction else changelog_record.FACTS
        records = changelog_record.encode(changes, kind=kind, record_bytes_max=max(self.settings.pack_bytes, 1 << 16))
        return await self._append_records(sender, records)

    async def _append_records(self, sender: Sender, records: Iterable[bytes]) -> list[int]:
        # Faust requires a key on every changelog record. All keys can be equal because the topic is not compacted.
        headers = [packed_messages.sender_header(sender)]
        return await self._send_all(
            (Topic.CHANGELOG, sender.partition, record, headers, CHANGELOG_KEY) for record in records
        )

    async def send_dead_letters(self, letters: Iterable[DeadLetter]) -> None:
        """Send dead letters."""
        await self._send_all(_json_message(Topic.DEAD_LETTERS, 0, letter, letter.key.encode()) for letter in letters)

    async def send_results(self, results: Iterable[Result]) -> None:
        """Send results, one message per result."""
        await self._send_all(
            _json_message(result.topic, result.partition, result.value, result.key) for result in results
        )

    async def send_encoded(self, topic: Topic, partition: int, value: bytes, headers: Headers) -> int:
        """Send one encoded message and return its offset."""
        (offset,) = await self._send_all([(topic, partition, value, headers, None)])
        return offset

    async def _send_all(self, messages: Iterable[_Message]) -> list[int]:
        """Send messages and return their offsets once the broker has acknowledged all of them."""
        assert self._producer is not None, "call start() first"
        acknowledgements = [
            await self._producer.send(
                topics.full_name(self.settings, topic), value, key=key, partition=partition, headers=list(headers)
            )
            for topic, partition, value, headers, key in messages
        ]
        return [metadata.offset for metadata in await asyncio.gather(*acknowledgements)]


def _json_message(topic: Topic, partition: int, value: msgspec.Struct, key: bytes) -> _Message:
    headers = [("schema", packed_messages.schema(topic).encode()), ("content-type", b"application/json")]
    return topic, partition, msgspec.json.encode(value), headers, key


def to_dead_letter(item: Rejected, partition: int | None = None) -> DeadLetter:
    """Return the dead letter for a rejected page or message, with long strings truncated."""
    origin, length_max = item.origin, FIELD_CHARACTERS_MAX
    return DeadLetter(
        reason=item.reason,
        detail=item.detail[:length_max],
        url=item.url[:length_max],
        source=origin.source[:length_max],
        member=origin.member[:length_max],
        offset=origin.offset,
        partition=partition,
    )

"""Read the topics of results and validate their messages against the JSON schemas."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def check(topic: str, message: dict[str, Any]) -> None:
    """Assert that a message matches its schema and has exactly the fields of the schema."""
    schema = json.loads((SCHEMAS / f"{topic}.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(message)
    assert set(message) == set(schema["properties"])


def read(collection: Any, topic: str) -> list[tuple[str, dict[str, Any]]]:
    """Return all messages of a topic of results with their keys, after validation."""
    messages = [(key, json.loads(value)) for key, value in asyncio.run(_read(collection, topic))]
    for _, message in messages:
        check(topic, message)
    return messages


async def _read(collection: Any, topic: str) -> list[tuple[str, bytes]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=collection.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        count = 1 if topic == "dead-letters" else collection.partitions
        partitions = [TopicPartition(f"{collection.prefix}-{topic}", number) for number in range(count)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        # Sorted by partition, because the order in which partitions are fetched differs between reads.
        messages: dict[TopicPartition, list[tuple[str, bytes]]] = {partition: [] for partition in partitions}
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                for record in records:
                    assert dict(record.headers)["schema"] == f"lostfound.{topic}/1".encode()
                    messages[partition].append((record.key.decode(), record.value))
        return [message for partition in partitions for message in messages[partition]]
    finally:
        await consumer.stop()

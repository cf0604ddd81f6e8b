"""Topics of results, read and held against their schemas."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def check(topic: str, message: dict[str, Any]) -> None:
    """A message fits its schema, and has no field that the schema does not name."""
    schema = json.loads((SCHEMAS / f"{topic}.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(message)
    assert set(message) == set(schema["properties"])


def read(made: Any, topic: str) -> list[tuple[str, dict[str, Any]]]:
    """All messages of a topic of results with their keys, each checked."""
    found = [(key, json.loads(value)) for key, value in asyncio.run(_read(made, topic))]
    for _, message in found:
        check(topic, message)
    return found


async def _read(made: Any, topic: str) -> list[tuple[str, bytes]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=made.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        count = 1 if topic == "dead-letters" else made.partitions
        places = [TopicPartition(f"{made.prefix}-{topic}", number) for number in range(count)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        # Sorted by partition, because the order in which partitions are fetched differs between reads.
        found: dict[TopicPartition, list[tuple[str, bytes]]] = {place: [] for place in places}
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for place, records in (await consumer.getmany(timeout_ms=500)).items():
                for record in records:
                    assert dict(record.headers)["schema"] == f"lostfound.{topic}/1".encode()
                    found[place].append((record.key.decode(), record.value))
        return [message for place in places for message in found[place]]
    finally:
        await consumer.stop()

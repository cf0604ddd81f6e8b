"""Test that a worker with another scheme, or with an older version, stops before it changes the collection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from state.scheme import Scheme
from streams.kafka.wire.packed_messages import SCHEMA_VERSION
from tests.broker.results import read
from tests.broker.test_refusals import wait_for_exit
from tests.broker.test_worker import SWEEPS, publish_all

SEED = 7


async def send(collection: Any, topic: str, value: bytes, headers: list[tuple[str, bytes]]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=collection.bootstrap) as producer:
        await producer.send_and_wait(f"{collection.prefix}-{topic}", value, partition=0, headers=headers)


async def committed(collection: Any, topic: str) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=collection.bootstrap)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(collection.prefix)
    finally:
        await admin.close()
    return int(offsets[TopicPartition(f"{collection.prefix}-{topic}", 0)].offset)


def test_a_worker_with_another_scheme_ends_before_it_joins_the_group(
    make_collection: Callable[..., Any], embedded: Callable[..., Any]
) -> None:
    collection = make_collection(2)
    collection.run_workers("a")
    config = collection.config.read_text()
    collection.config.write_text(config + f"[scheme]\nseed = {SEED}\n")
    publish_all(collection)
    code, message = wait_for_exit(collection, "b", collection.worker("b"))
    assert code == 4
    schemes = f"has scheme {Scheme().id}, but the settings have {Scheme(seed=SEED).id}"
    assert message.splitlines() == [
        f"lostfound: the collection {collection.prefix!r} {schemes}",
        "  use the [scheme] settings of its first worker, or a different --prefix",
    ]
    assert "oining group" in (collection.folder / "a.log").read_text()
    assert "oining group" not in (collection.folder / "b.log").read_text()
    collection.config.write_text(config)
    collection.run_workers("a", "c")
    assert collection.clusters("a", "c") == embedded(SWEEPS)
    assert read(collection, "dead-letters") == []


def test_an_older_worker_refuses_newer_messages_without_acknowledging_them(
    make_collection: Callable[..., Any],
) -> None:
    collection = make_collection(1)
    publish_all(collection)
    collection.run_workers("a")
    collection.serve("a")
    (*_, worker) = collection.running
    end = asyncio.run(committed(collection, "captures"))
    version = SCHEMA_VERSION + 1
    headers = [("schema", f"lostfound.captures/{version}".encode()), ("scheme", Scheme().id.encode())]
    event = {"event": "format", "scheme": Scheme().id, "version": version, "time": 1}
    asyncio.run(send(collection, "sweeps", json.dumps(event).encode(), []))
    asyncio.run(send(collection, "captures", b"\x90", headers))
    refusal = f"but this version of lostfound reads only versions up to {SCHEMA_VERSION}"
    for process in (worker, collection.worker("a")):  # the second one ends when it starts
        code, message = wait_for_exit(collection, "a", process)
        assert code == 4
        assert refusal in message
    assert f"offset {end}) has messages of version {version}, {refusal}" in message
    assert asyncio.run(committed(collection, "captures")) == end
    assert read(collection, "dead-letters") == []

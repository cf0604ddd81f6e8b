"""Test partitions that are added to the topic `pages` of a running collection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from tests.broker.test_crawlers import TEXT, page
from tests.broker.test_transactions import sweeps
from tests.broker.test_worker import SWEEPS, wait_for


async def add_partitions(collection: Any, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=collection.bootstrap)
    await admin.start()
    try:
        await admin.create_partitions({f"{collection.prefix}-pages": NewPartitions(count)})
    finally:
        await admin.close()


async def send(collection: Any, name: str, partition: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=collection.bootstrap) as producer:
        value = page(name, text=TEXT * 3, crawl="crawled")
        await producer.send_and_wait(f"{collection.prefix}-pages", value, partition=partition)


def test_partitions_added_to_pages_are_read(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(2)
    (url, _) = collection.serve_all(["a", "b"])
    (first, *later) = SWEEPS.items()
    collection("publish", first[1], "--sweep", first[0])
    asyncio.run(add_partitions(collection, 5))
    for name, path in later:
        collection("publish", path, "--sweep", name)
    wait_for(lambda: [sweep["state"] for sweep in sweeps(collection, url)] == ["committed"] * 3)
    asyncio.run(send(collection, "added", 4))
    wait_for(lambda: "crawled" in [sweep["sweep"] for sweep in sweeps(collection, url)])
    collection.run("sweep", "commit", "crawled", "--server", url)
    wait_for(lambda: sweeps(collection, url)[-1]["state"] == "committed")
    assert sweeps(collection, url)[-1]["captures"] == 1
    collection.stop()
    asyncio.run(send(collection, "after-a-restart", 3))
    collection.run_workers("a", "b")
    urls = {url for _, urls in collection.clusters("a", "b") for url in urls}
    assert {"http://crawled.example/added", "http://crawled.example/after-a-restart"} < urls
    collection.check("a", "b")

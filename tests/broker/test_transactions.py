"""Test pages of transactional producers, and pages that expire before a worker reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.broker.results import read
from tests.broker.test_crawlers import page, write_sample
from tests.broker.test_worker import end_offsets, wait_for

TEXT = "Every evening the keeper lit the lamp, wrote the weather into a book and waited for the ships to pass by. "


@asynccontextmanager
async def transaction(collection: Any, name: str, *, commit: bool = True) -> AsyncIterator[AIOKafkaProducer]:
    """Commit or abort a transaction at the end of the context."""
    producer = AIOKafkaProducer(
        bootstrap_servers=collection.bootstrap, transactional_id=f"{collection.prefix}-{name}"
    )
    await producer.start()
    try:
        await producer.begin_transaction()
        yield producer
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    finally:
        await producer.stop()


async def send(collection: Any, producer: AIOKafkaProducer, *names: str) -> None:
    """Send two pages with each name to each partition."""
    for name in names:
        for number in range(2 * collection.partitions):
            value = page(f"{name}/{number}", text=TEXT * (2 + number), crawl="weekly")
            await producer.send_and_wait(
                f"{collection.prefix}-pages", value, partition=number % collection.partitions
            )


def sweeps(collection: Any, url: str) -> list[dict[str, Any]]:
    lines = collection.run_until_success("sweep", "list", "--json", "--server", url).splitlines()
    return [json.loads(line) for line in lines]


def test_only_pages_of_committed_transactions_are_read(make_collection: Callable[..., Any], tmp_path: Path) -> None:
    collection = make_collection(2)

    async def crawl() -> None:
        async with transaction(collection, "a") as first, transaction(collection, "b", commit=False) as second:
            await send(collection, first, "committed")
            await send(collection, second, "aborted")
            await send(collection, first, "committed-later")
        async with transaction(collection, "b", commit=False) as second:
            await send(collection, second, "aborted-last")

    asyncio.run(crawl())
    collection("publish", write_sample(tmp_path), "--sweep", "weekly")
    asyncio.run(crawl())
    # The command returns only when no message waits and the sweep is committed.
    collection.run_workers("a", "b")
    expected = {f"http://crawled.example/{name}/{n}" for name in ("committed", "committed-later") for n in range(4)}
    expected.add("http://crawled.example/published")
    assert {url for _, urls in collection.clusters("a", "b") for url in urls} == expected
    url = collection.serve("a")
    (sweep,) = sweeps(collection, url)
    assert (sweep["state"], sweep["captures"]) == ("committed", 17)  # the committed pages were sent twice
    assert read(collection, "dead-letters") == []


def test_a_commit_waits_for_open_transactions(make_collection: Callable[..., Any], tmp_path: Path) -> None:
    collection = make_collection(2)
    url = collection.serve("a")

    async def crawl() -> None:
        async with transaction(collection, "a") as producer:
            await send(collection, producer, "open")
            await asyncio.to_thread(collection, "publish", write_sample(tmp_path), "--sweep", "weekly")
            await asyncio.sleep(5)
            assert [sweep["state"] for sweep in sweeps(collection, url)] == ["open"]
        async with transaction(collection, "a") as producer:
            await send(collection, producer, "later")
            await asyncio.to_thread(wait_for, lambda: sweeps(collection, url)[0]["state"] == "committed")
            assert sweeps(collection, url)[0]["captures"] == 5

    asyncio.run(crawl())


def test_pages_that_expired_before_they_were_read_are_reported(
    make_collection: Callable[..., Any], tmp_path: Path
) -> None:
    collection = make_collection(2)
    topic = f"{collection.prefix}-pages"

    async def send_and_expire() -> None:
        async with AIOKafkaProducer(bootstrap_servers=collection.bootstrap) as producer:
            await send(collection, producer, "expired")
        (_, end) = await asyncio.to_thread(end_offsets, collection, "pages")
        admin = AIOKafkaAdminClient(bootstrap_servers=collection.bootstrap)
        await admin.start()
        try:
            await admin.delete_records({TopicPartition(topic, 1): RecordsToDelete(end)})
        finally:
            await admin.close()

    asyncio.run(send_and_expire())  # before any worker runs
    collection("publish", write_sample(tmp_path), "--sweep", "weekly", "--keep-open")
    collection.run_workers("a")
    asyncio.run(send_and_expire())
    collection.run_workers("a")  # the messages that are gone do not count as waiting
    letters = [letter for _, letter in read(collection, "dead-letters")]
    assert [(letter["reason"], letter["source"], letter["partition"]) for letter in letters] == 2 * [
        ("expired", topic, 1)
    ]
    assert [letter["offset"] for letter in letters] == [0, letters[1]["offset"]]
    detail = "2 messages, up to offset {}, were deleted before a worker read them"
    assert [letter["detail"] for letter in letters] == [detail.format(letter["offset"] + 1) for letter in letters]
    url = collection.serve("a")
    assert [sweep["expired_messages"] for sweep in sweeps(collection, url)] == [4]

"""Test the Faust engine on a real broker with real processes: its clusters equal those of the embedded engine."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from tests.samples import words

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "streams" / "demo" / "sample"
SWEEPS = {name: SAMPLE / f"{name}.jsonl" for name in ("2023-03", "2024-05", "2025-09")}


def publish_all(collection: Any) -> None:
    for name, path in SWEEPS.items():
        collection("publish", path, "--sweep", name)


@pytest.mark.parametrize(
    ("partitions", "workers"), [(1, ["a"]), pytest.param(3, ["a"], marks=pytest.mark.long), (3, ["a", "b"])]
)
def test_same_clusters_as_the_embedded_engine(
    make_collection: Callable[..., Any], embedded: Callable[..., Any], partitions: int, workers: list[str]
) -> None:
    collection = make_collection(partitions)
    publish_all(collection)
    collection.run_workers(*workers)
    assert collection.clusters(*workers) == embedded(SWEEPS)


def test_same_clusters_as_the_embedded_engine_on_a_real_site(
    make_collection: Callable[..., Any], embedded: Callable[..., Any], shared_data: Path
) -> None:
    paths = sorted((shared_data / "moves" / "flink").glob("sweep-[12]-*.jsonl.zst"))
    sweeps = {path.name: path for path in paths}
    collection = make_collection(3)
    for name, path in sweeps.items():
        collection("publish", path, "--sweep", name)
    collection.run_workers("a", "b")
    assert collection.clusters("a", "b") == embedded(sweeps)


def test_a_killed_worker_loses_no_pages(
    make_collection: Callable[..., Any], embedded: Callable[..., Any], tmp_path: Path
) -> None:
    # Most pages wait in the queue of the agent, which processes one at a time, while offsets are committed.
    collection = make_collection(6, take_pages=1)
    pages = tmp_path / "pages.jsonl"
    write_pages(pages, 200)
    collection("publish", pages, "--sweep", "one")
    # Wait for records, not for seconds, because machines differ in speed.
    for records in (5, 20):
        process = collection.worker("a")
        wait_for(partial(has_records, collection, records))
        process.send_signal(signal.SIGKILL)
        process.wait()
    collection.run_workers("a", "b")
    assert collection.clusters("a", "b") == embedded({"one": pages})


def write_pages(path: Path, count: int) -> None:
    """Write pages of which every second is a near-duplicate of the one before."""
    rng = random.Random(0)
    text: list[str] = []
    with path.open("w") as file:
        for number in range(count):
            text = words(rng, 400) if number % 2 == 0 else [*text, "changed"]
            page = {"url": f"https://a.example/{number}", "time": "2024-01-01T00:00:00Z", "text": " ".join(text)}
            file.write(json.dumps(page) + "\n")


def test_pages_published_twice_change_nothing(
    make_collection: Callable[..., Any], embedded: Callable[..., Any]
) -> None:
    collection = make_collection(2)
    publish_all(collection)
    collection.run_workers("a")
    publish_all(collection)
    collection.run_workers("a")
    assert collection.clusters("a") == embedded(SWEEPS)


def test_a_deleted_folder_is_restored_from_the_changelog(
    make_collection: Callable[..., Any], embedded: Callable[..., Any]
) -> None:
    collection = make_collection(2)
    publish_all(collection)
    collection.run_workers("a")
    shutil.rmtree(collection.folder / "a")
    collection.run_workers("a")
    assert collection.clusters("a") == embedded(SWEEPS)


def test_a_worker_that_only_sketches_feeds_the_others(
    make_collection: Callable[..., Any], embedded: Callable[..., Any]
) -> None:
    collection = make_collection(2)
    publish_all(collection)
    sketching = collection.worker("s", "--operators", "sketch")
    wait_for(lambda: sum(end_offsets(collection, "captures")) > 0)
    collection.run_workers("a")
    sketching.terminate()
    assert sketching.wait(40) == 0
    assert collection.clusters("a") == embedded(SWEEPS)


def test_topics_with_another_number_of_partitions_are_refused(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(2)
    collection("topics", "create", "--partitions", 3, code=2)
    collection("topics", "create", "--partitions", 2)


def test_a_single_partition_topic_with_two_partitions_is_refused(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(2)
    full = f"{collection.prefix}-sweeps"

    async def add_partition() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=collection.bootstrap)
        await admin.start()
        try:
            await admin.create_partitions({full: NewPartitions(2)})
        finally:
            await admin.close()

    asyncio.run(add_partition())
    assert f"the topic {full} has 2 partitions and must have 1" in collection("topics", "create", code=2)


def has_records(collection: Any, count_min: int) -> bool:
    return sum(end_offsets(collection, "state-changelog")) >= count_min


def wait_for(condition: Callable[[], bool], seconds_max: float = 90.0) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def end_offsets(collection: Any, topic: str) -> list[int]:
    async def read_offsets() -> list[int]:
        consumer = AIOKafkaConsumer(bootstrap_servers=collection.bootstrap)
        await consumer.start()
        try:
            partitions = [
                TopicPartition(f"{collection.prefix}-{topic}", number) for number in range(collection.partitions)
            ]
            offsets = await consumer.end_offsets(partitions)
            return [offsets[partition] for partition in partitions]
        finally:
            await consumer.stop()

    return asyncio.run(read_offsets())


async def read(collection: Any, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=collection.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(f"{collection.prefix}-{topic}", 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while len(values) < end:
            values += [record.value for record in (await consumer.getmany(timeout_ms=1000)).get(partition, [])]
        return values
    finally:
        await consumer.stop()

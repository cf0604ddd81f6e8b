"""The Faust engine on a real broker, with real processes: the clusters of the embedded engine, whatever happens."""

from __future__ import annotations

import asyncio
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

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "streams" / "demo" / "sample"
SWEEPS = {name: SAMPLE / f"{name}.jsonl" for name in ("2023-03", "2024-05", "2025-09")}


def publish_all(made: Any) -> None:
    for name, path in SWEEPS.items():
        made("publish", path, "--sweep", name)


@pytest.mark.parametrize(("partitions", "workers"), [(1, ["a"]), (3, ["a"]), (3, ["a", "b"])])
def test_same_clusters_as_the_embedded_engine(
    collection: Callable[..., Any], embedded: Callable[..., Any], partitions: int, workers: list[str]
) -> None:
    made = collection(partitions)
    publish_all(made)
    made.work(*workers)
    assert made.clusters(*workers) == embedded(SWEEPS)


def test_same_clusters_of_a_real_site(
    collection: Callable[..., Any], embedded: Callable[..., Any], shared_data: Path
) -> None:
    paths = sorted((shared_data / "moves" / "flink").glob("sweep-[12]-*.jsonl.zst"))
    sweeps = {path.name: path for path in paths}
    made = collection(3)
    for name, path in sweeps.items():
        made("publish", path, "--sweep", name)
    made.work("a", "b")
    assert made.clusters("a", "b") == embedded(sweeps)


def test_a_worker_killed_midway_loses_nothing(collection: Callable[..., Any], embedded: Callable[..., Any]) -> None:
    made = collection(3, take_pages=4)
    publish_all(made)
    # By work done, not by time: machines differ.
    for records in (2, 12):
        process = made.worker("a")
        wait_for(partial(_recorded, made, records))
        process.send_signal(signal.SIGKILL)
        process.wait()
    made.work("a", "b")
    assert made.clusters("a", "b") == embedded(SWEEPS)


def test_pages_published_twice_change_nothing(collection: Callable[..., Any], embedded: Callable[..., Any]) -> None:
    made = collection(2)
    publish_all(made)
    made.work("a")
    publish_all(made)
    made.work("a")
    assert made.clusters("a") == embedded(SWEEPS)


def test_a_wiped_folder_comes_back_from_the_changelog(
    collection: Callable[..., Any], embedded: Callable[..., Any]
) -> None:
    made = collection(2)
    publish_all(made)
    made.work("a")
    shutil.rmtree(made.folder / "a")
    made.work("a")
    assert made.clusters("a") == embedded(SWEEPS)


def test_sketching_runs_apart_from_the_state(collection: Callable[..., Any], embedded: Callable[..., Any]) -> None:
    made = collection(2)
    publish_all(made)
    sketching = made.worker("s", "--operators", "sketch")
    wait_for(lambda: sum(ends(made, "captures")) > 0)
    made.work("a")
    sketching.terminate()
    assert sketching.wait(40) == 0
    assert made.clusters("a") == embedded(SWEEPS)


def test_topics_of_another_count_are_refused(collection: Callable[..., Any]) -> None:
    made = collection(2)
    made("topics", "create", "--partitions", 3, code=2)
    made("topics", "create", "--partitions", 2)


def test_a_topic_of_one_partition_that_has_more_is_refused(collection: Callable[..., Any]) -> None:
    made = collection(2)
    full = f"{made.prefix}-sweeps"

    async def remake() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=made.bootstrap)
        await admin.start()
        try:
            await admin.create_partitions({full: NewPartitions(2)})
        finally:
            await admin.close()

    asyncio.run(remake())
    assert f"the topic {full} has 2 partitions and must have 1" in made("topics", "create", code=2)


def _recorded(made: Any, least: int) -> bool:
    return sum(ends(made, "state-changelog")) >= least


def wait_for(happened: Callable[[], bool], seconds_max: float = 90.0) -> None:
    until = time.monotonic() + seconds_max
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.1)


def ends(made: Any, topic: str) -> list[int]:
    async def ask() -> list[int]:
        consumer = AIOKafkaConsumer(bootstrap_servers=made.bootstrap)
        await consumer.start()
        try:
            places = [TopicPartition(f"{made.prefix}-{topic}", number) for number in range(made.partitions)]
            return list((await consumer.end_offsets(places)).values())
        finally:
            await consumer.stop()

    return asyncio.run(ask())


async def read(made: Any, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=made.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        place = TopicPartition(f"{made.prefix}-{topic}", 0)
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        found: list[bytes] = []
        while len(found) < end:
            found += [record.value for record in (await consumer.getmany(timeout_ms=1000)).get(place, [])]
        return found
    finally:
        await consumer.stop()

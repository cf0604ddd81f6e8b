"""Test snapshots on a real broker: a worker without its folder continues from a snapshot and the rest of a changelog
that was trimmed, also if it is killed while it takes a snapshot.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from state import snapshots
from tests.broker.running import Collection
from tests.broker.test_worker import SWEEPS, end_offsets, wait_for

PARTITIONS = 2
SECONDS_MAX = 90.0
RECORDS = 1  # between two snapshots


@pytest.fixture
def collection(make_collection: Callable[..., Any]) -> Collection:
    """A collection with a shared snapshot folder."""
    collection: Collection = make_collection(PARTITIONS, take_pages=4)
    collection.share_snapshots(RECORDS)
    return collection


def folder(collection: Collection, number: int) -> Path:
    return collection.folder / "shared" / collection.prefix / str(number)


def starts(collection: Collection) -> list[int]:
    """Return the offset of the first record of each changelog."""

    async def read_offsets() -> list[int]:
        consumer = AIOKafkaConsumer(bootstrap_servers=collection.bootstrap)
        await consumer.start()
        try:
            topic = f"{collection.prefix}-state-changelog"
            partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            offsets = await consumer.beginning_offsets(partitions)
            return [offsets[partition] for partition in partitions]
        finally:
            await consumer.stop()

    return asyncio.run(read_offsets())


def ingest_and_trim(collection: Collection) -> None:
    """Ingest everything with one worker, and end it once both changelogs are trimmed."""
    url = collection.serve("a")
    for count, (name, path) in enumerate(SWEEPS.items(), start=1):
        collection("publish", path, "--sweep", name)
        collection.wait_until_committed(url, count)
        wait_for(lambda: newest(collection) == [end - 1 for end in end_offsets(collection, "state-changelog")])
    wait_for(lambda: min(starts(collection)) > 0)
    collection.stop()


def newest(collection: Collection) -> list[int]:
    """Return the offset of the newest snapshot of each partition, or -1."""
    folders = [folder(collection, number) for number in range(PARTITIONS)]
    return [next(iter(snapshots.list_offsets(path)), -1) for path in folders]


def test_a_deleted_folder_is_restored_from_a_snapshot_and_a_trimmed_changelog(
    collection: Collection, embedded: Callable[..., Any]
) -> None:
    ingest_and_trim(collection)
    shutil.rmtree(collection.folder / "a")
    collection.run_workers("a", "b")
    assert collection.clusters("a", "b") == embedded(SWEEPS)
    collection.check("a", "b")
    logs = "".join((collection.folder / f"{name}.log").read_text() for name in "ab")
    assert "partition restored from a snapshot" in logs


def test_without_snapshots_a_trimmed_changelog_is_refused(collection: Collection) -> None:
    ingest_and_trim(collection)
    shutil.rmtree(collection.folder / "a")
    shutil.rmtree(collection.folder / "shared" / collection.prefix)
    worker = collection.worker("a", "--until-idle")
    assert worker.wait(90) == 4
    assert "has no intact snapshot that fills the gap" in (collection.folder / "a.log").read_text()


@pytest.mark.long
def test_a_worker_killed_during_snapshots_loses_nothing(collection: Collection, embedded: Callable[..., Any]) -> None:
    for name, path in SWEEPS.items():
        collection("publish", path, "--sweep", name)
        offsets, left = newest(collection), partial(collection)
        worker = collection.worker("a")
        deadline = time.monotonic() + SECONDS_MAX
        while partial(collection) <= left and newest(collection) == offsets:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        shutil.rmtree(collection.folder / "a")
    collection.run_workers("a", "b")
    assert collection.clusters("a", "b") == embedded(SWEEPS)
    collection.check("a", "b")


def partial(collection: Collection) -> set[Path]:
    """Return the snapshots that are being written, or were when their worker was killed."""
    return {path for number in range(PARTITIONS) for path in folder(collection, number).glob("partial-*")}

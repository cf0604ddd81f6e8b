"""Test when snapshots are taken, when the changelog is trimmed, and from what a partition is restored."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from state import snapshots as snapshot_files
from state.changes import Changes
from state.errors import StateError
from state.families import Family
from state.partition import Partition
from state.snapshots import SnapshotDescription
from streams.errors import InputError
from streams.kafka.worker import partition_snapshots as module
from streams.kafka.worker.metrics import Metrics
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.partition_snapshots import Snapshots
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS
from tests.streams.kafka.worker_fixture import write

RECORDS = 10


class FakeRange:
    """The ranges of the changelogs without a broker."""

    def __init__(self) -> None:
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)  # the starts
        self.end = 1000

    async def read(self, numbers: Iterable[int]) -> dict[int, range]:
        return {number: range(self.offsets[number], self.end) for number in numbers}

    async def trim(self, number: int, offset: int) -> None:
        self.offsets[number] = max(offset, self.offsets[number])


class Worker:
    """The partitions of a worker, which owns partition 0, and their snapshots."""

    def __init__(self, folder: Path, changelog: FakeRange, shared: Path | None, records: int = RECORDS) -> None:
        self.partitions = OpenPartitions(folder, SETTINGS.scheme, SETTINGS.store, PARTITIONS)
        self.metrics = Metrics()
        settings = msgspec.structs.replace(
            SETTINGS.kafka, snapshot_folder=str(shared or ""), snapshot_records=records
        )
        changelog_range: Any = changelog
        self.snapshots = Snapshots(settings, self.partitions, changelog_range, self.metrics)
        self.partitions.active_numbers = frozenset({0})

    def prepare(self) -> Partition:
        asyncio.run(self.snapshots.prepare([0]))
        self.partitions.recovered = True
        return self.partitions.by_number[0]

    def append(self, count: int) -> None:
        """Write records, as after a claim."""
        partition = self.partitions.by_number[0]
        for _ in range(count):
            changes = Changes()
            changes.put(Family.PARENTS, partition.offset.to_bytes(8, "big", signed=True), b"row")
            write(partition, changes)

    def take_if_due(self) -> list[int]:
        """Take a snapshot if it is due, and return the offsets of all snapshots."""
        asyncio.run(self.snapshots._take_if_due(0))
        return snapshot_files.list_offsets(self.snapshots.folder(0))

    def count(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"lostfound_{name}_total") or 0.0

    def wipe(self) -> None:
        self.partitions.close_all()
        shutil.rmtree(self.partitions.path(0))


@pytest.fixture
def changelog() -> FakeRange:
    return FakeRange()


def test_a_shared_folder_that_is_not_mounted_is_refused(tmp_path: Path) -> None:
    module.check_folder(msgspec.structs.replace(SETTINGS.kafka, snapshot_folder=""))
    module.check_folder(msgspec.structs.replace(SETTINGS.kafka, snapshot_folder=str(tmp_path)))
    with pytest.raises(InputError, match="does not exist"):
        module.check_folder(msgspec.structs.replace(SETTINGS.kafka, snapshot_folder=str(tmp_path / "absent")))


def test_the_owner_takes_a_snapshot_after_each_interval(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "a", changelog, None)
    worker.prepare()
    worker.append(RECORDS - 1)
    assert worker.take_if_due() == []
    worker.append(1)
    assert worker.take_if_due() == [RECORDS - 1]
    worker.append(RECORDS - 1)
    assert worker.take_if_due() == [RECORDS - 1]
    worker.append(1)
    assert worker.take_if_due() == [2 * RECORDS - 1], "a local folder keeps only the newest"
    assert changelog.offsets[0] == 0, "no other worker can read a local folder"
    assert worker.count("snapshots") == 2
    assert sorted(path.name for path in (tmp_path / "a" / "checkpoints").iterdir()) == []


def test_a_worker_that_does_not_own_the_partition_takes_no_snapshot(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "a", changelog, None)
    partition = worker.prepare()
    worker.append(RECORDS)
    partition.epoch += 1  # another worker has claimed it
    assert worker.take_if_due() == []
    worker.partitions.active_numbers = frozenset()
    assert worker.take_if_due() == []


def test_snapshots_take_at_most_a_tenth_of_the_time(
    tmp_path: Path, changelog: FakeRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_once = snapshot_files.write

    def write_slowly(*arguments: Any) -> Path:
        time.sleep(0.2)
        return write_once(*arguments)

    worker = Worker(tmp_path / "a", changelog, None)
    worker.prepare()
    worker.append(RECORDS)
    monkeypatch.setattr(snapshot_files, "write", write_slowly)
    worker.take_if_due()
    assert worker.snapshots._next_time > time.monotonic() + 9 * 0.19


def test_without_an_interval_no_snapshots_are_taken(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "a", changelog, None, records=0)
    worker.prepare()
    worker.append(RECORDS)
    assert worker.take_if_due() == []


def test_the_changelog_is_trimmed_before_the_older_of_two_shared_snapshots(
    tmp_path: Path, changelog: FakeRange
) -> None:
    worker = Worker(tmp_path / "a", changelog, tmp_path / "shared")
    worker.prepare()
    starts = []
    for _ in range(3):
        worker.append(RECORDS)
        worker.take_if_due()
        starts.append(changelog.offsets[0])
    assert starts == [0, 9, 19]
    assert snapshot_files.list_offsets(worker.snapshots.folder(0)) == [29, 19]


def test_another_worker_restores_the_newest_snapshot(tmp_path: Path, changelog: FakeRange) -> None:
    filled(tmp_path, changelog)
    other = Worker(tmp_path / "b", changelog, tmp_path / "shared")
    partition = other.prepare()
    assert partition.offset == 29
    assert len(list(partition.store.scan(Family.PARENTS))) == 30
    assert other.count("snapshots_restored") == 1
    assert other.prepare() is partition, "nothing is restored twice"


def filled(tmp_path: Path, changelog: FakeRange) -> Worker:
    """Return a worker with three intervals of records and the snapshots 29 and 19; the changelog starts at 19."""
    worker = Worker(tmp_path / "a", changelog, tmp_path / "shared")
    worker.prepare()
    for _ in range(3):
        worker.append(RECORDS)
        worker.take_if_due()
    return worker


def test_a_copy_that_is_a_little_behind_is_not_replaced(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "b", changelog, tmp_path / "shared")
    worker.prepare()
    worker.append(25)
    filled(tmp_path, changelog)
    worker.partitions.close_all()
    assert worker.prepare().offset == 24
    assert worker.count("snapshots_restored") == 0


def test_a_copy_that_is_far_behind_is_replaced_when_it_is_opened(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "b", changelog, tmp_path / "shared")
    worker.prepare()
    worker.append(19)
    filled(tmp_path, changelog)
    changelog.offsets[0] = 0
    assert worker.prepare().offset == 18, "Faust is replaying records to this copy"
    worker.partitions.close_all()
    assert worker.prepare().offset == 29


def test_an_open_partition_is_checked_while_a_batch_holds_its_lock(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "b", changelog, None)
    worker.prepare()

    async def run() -> None:
        async with worker.partitions.locks[0], asyncio.timeout(5):
            await worker.snapshots.prepare([0])

    asyncio.run(run())


def test_a_copy_that_lacks_deleted_records_is_replaced(tmp_path: Path, changelog: FakeRange) -> None:
    worker = Worker(tmp_path / "b", changelog, tmp_path / "shared", records=1000)
    worker.prepare()
    worker.append(15)
    filled(tmp_path, changelog)
    assert worker.prepare().offset == 29


def test_a_damaged_snapshot_is_replaced_by_the_older_one(tmp_path: Path, changelog: FakeRange) -> None:
    worker = filled(tmp_path, changelog)
    damage(worker, 29)
    worker.wipe()
    assert worker.prepare().offset == 19
    assert worker.count("snapshots_unusable") == 1


def damage(worker: Worker, offset: int) -> None:
    manifest = next(snapshot_files.path_of(worker.snapshots.folder(0), offset).glob("MANIFEST-*"))
    manifest.write_bytes(manifest.read_bytes()[:-1] + b"?")


def test_a_snapshot_that_its_owner_has_just_removed_is_replaced_by_a_newer_one(
    tmp_path: Path, changelog: FakeRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, worker = filled(tmp_path, changelog), Worker(tmp_path / "b", changelog, tmp_path / "shared")
    list_once = snapshot_files.list_offsets

    def list_and_remove(folder: Path) -> list[int]:
        offsets = list_once(folder)
        if offsets == [29, 19]:
            monkeypatch.undo()
            shutil.rmtree(folder)
            owner.append(RECORDS)
            checkpoint = tmp_path / "checkpoint"
            partition = owner.partitions.by_number[0]
            partition.store.checkpoint(checkpoint)
            snapshot_files.write(folder, checkpoint, SnapshotDescription.of(partition, PARTITIONS))
            changelog.offsets[0] = 39
        return offsets

    monkeypatch.setattr(snapshot_files, "list_offsets", list_and_remove)
    assert worker.prepare().offset == 39


def test_damaged_snapshots_do_no_harm_to_a_complete_changelog(tmp_path: Path, changelog: FakeRange) -> None:
    worker = filled(tmp_path, changelog)
    damage(worker, 29)
    damage(worker, 19)
    worker.wipe()
    changelog.offsets[0] = 0
    assert worker.prepare().offset == -1, "Faust replays the whole changelog"
    assert worker.count("snapshots_unusable") == 2


def test_a_snapshot_of_an_earlier_collection_is_not_used(tmp_path: Path, changelog: FakeRange) -> None:
    worker = filled(tmp_path, changelog)
    worker.wipe()
    changelog.offsets[0], changelog.end = 0, 25
    assert worker.prepare().offset == 19
    worker.wipe()
    changelog.end = 19
    assert worker.prepare().offset == -1


def test_a_trimmed_changelog_without_an_intact_snapshot_is_refused(tmp_path: Path, changelog: FakeRange) -> None:
    worker = filled(tmp_path, changelog)
    damage(worker, 29)
    damage(worker, 19)
    worker.wipe()
    with pytest.raises(StateError, match=r"starts at offset 19, but the partition ends at offset -1"):
        worker.prepare()
    changelog.offsets[0] = 30
    worker.partitions.close_all()
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(StateError, match="has no intact snapshot"):
        worker.prepare()


def test_a_trim_after_the_partition_was_opened_ends_the_process(
    tmp_path: Path, changelog: FakeRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(module, "end_process", lambda: ended.append(True))
    worker = filled(tmp_path, changelog)
    worker.snapshots.ensure_complete(0, 29)
    worker.snapshots.ensure_complete(1, 29)  # not open
    assert not ended
    worker.snapshots.ensure_complete(0, 30)
    assert ended


def test_a_failed_snapshot_is_counted_and_tried_again_later(
    tmp_path: Path, changelog: FakeRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    worker = Worker(tmp_path / "a", changelog, tmp_path / "shared")
    worker.prepare()
    worker.append(RECORDS)
    with monkeypatch.context() as patch:
        patch.setattr(snapshot_files, "write", fail)
        assert worker.take_if_due() == []
    assert worker.count("snapshots_failed") == 1
    assert worker.snapshots._next_time > time.monotonic() + 50.0
    assert changelog.offsets[0] == 0
    assert worker.take_if_due() == [RECORDS - 1]

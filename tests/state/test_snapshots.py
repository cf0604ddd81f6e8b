"""Test the files of snapshots: they are complete or absent, and damage is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from state import disk_sync, snapshots
from state.changes import Changes
from state.errors import StateCorrupt, StateIncompatible
from state.families import Family
from state.partition import Partition
from state.scheme import Scheme
from state.snapshots import SnapshotDescription
from state.store import Store
from tests.streams.kafka.worker_fixture import write

NUMBER, COUNT = 3, 8


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(Store(tmp_path / "partition"), Scheme(), NUMBER, COUNT)


def put(partition: Partition, key: bytes, epoch: int = 1) -> None:
    changes = Changes()
    changes.put(Family.PARENTS, key, bytes(500))
    partition.epoch = epoch
    write(partition, changes)


def take(partition: Partition, folder: Path) -> Path:
    checkpoint = folder.parent / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    partition.store.checkpoint(checkpoint)
    return snapshots.write(folder, checkpoint, SnapshotDescription.of(partition, COUNT))


def test_a_restored_snapshot_is_the_partition_at_its_offset(partition: Partition, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    put(partition, b"before", epoch=7)
    taken = take(partition, folder)
    put(partition, b"after")
    assert snapshots.list_offsets(folder) == [0]
    restored = snapshots.restore(folder, 0, tmp_path / "restored", SnapshotDescription.of(partition, COUNT))
    assert (restored.offset, restored.epoch) == (0, 7)
    assert sorted(restored.files) == sorted(path.name for path in taken.iterdir() if path.name != "snapshot.json")
    copy = Partition(Store(tmp_path / "restored"), Scheme(), NUMBER, COUNT)
    assert (copy.offset, copy.epoch) == (0, 7)
    assert [key for key, _ in copy.store.scan(Family.PARENTS)] == [b"before"]
    copy.close()


def test_every_damaged_or_missing_file_is_found(partition: Partition, tmp_path: Path) -> None:
    put(partition, b"key")
    expected, intact = SnapshotDescription.of(partition, COUNT), take(partition, tmp_path / "snapshots")
    names = sorted(path.name for path in intact.iterdir())
    assert len(names) > 4
    for name in names:
        damages: list[Callable[[Path], object]] = [flip, cut, Path.unlink]
        for number, damage in enumerate(damages):
            folder = tmp_path / f"{name}-{number}"
            shutil.copytree(intact, folder / intact.name)
            damage(folder / intact.name / name)
            with pytest.raises(StateCorrupt):
                snapshots.restore(folder, 0, tmp_path / "restored", expected)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if not content:
        content = bytearray(b"?")  # an empty log that has gained a byte
    content[len(content) // 2] ^= 0x80
    path.write_bytes(content)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] if content else b"?")


@pytest.mark.parametrize("change", [{"partition": 2}, {"partition_count": 4}, {"scheme": "different"}])
def test_a_snapshot_of_another_partition_or_scheme_is_refused(
    partition: Partition, tmp_path: Path, change: dict[str, object]
) -> None:
    put(partition, b"key")
    take(partition, tmp_path / "snapshots")
    expected = msgspec.structs.replace(SnapshotDescription.of(partition, COUNT), **change)
    with pytest.raises(StateIncompatible, match="does not match"):
        snapshots.restore(tmp_path / "snapshots", 0, tmp_path / "restored", expected)
    assert not (tmp_path / "restored").exists()


def test_a_file_outside_of_the_snapshot_is_not_copied(partition: Partition, tmp_path: Path) -> None:
    put(partition, b"key")
    taken = take(partition, tmp_path / "snapshots")
    (tmp_path / "secret").write_text("secret")
    description = taken / snapshots.DESCRIPTION_FILE
    description.write_text(description.read_text().replace('"CURRENT"', '"../../secret"'))
    with pytest.raises(StateCorrupt, match="not a plain file name"):
        snapshots.restore(tmp_path / "snapshots", 0, tmp_path / "restored", SnapshotDescription.of(partition, COUNT))


def test_a_partial_snapshot_is_not_listed_and_is_removed_by_the_next_owner(
    partition: Partition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "snapshots"
    put(partition, b"key", epoch=2)
    with monkeypatch.context() as patch:
        patch.setattr(disk_sync, "sync", raise_error)
        with pytest.raises(OSError, match="killed"):
            take(partition, folder)
    (folder / "partial-0000000009").mkdir()
    assert snapshots.list_offsets(folder) == []
    assert [path.name for path in sorted(folder.iterdir())] == ["partial-0000000002", "partial-0000000009"]
    put(partition, b"key", epoch=3)
    take(partition, folder)
    assert snapshots.list_offsets(folder) == [1]
    assert sorted(path.name for path in folder.iterdir()) == [f"{1:020}", "partial-0000000009"], "a later owner's"


def raise_error(_: Path) -> None:
    raise OSError("killed")


def test_unchanged_tables_are_linked_to_the_previous_snapshot(partition: Partition, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    put(partition, b"a")
    first = take(partition, folder)
    put(partition, b"b")
    second = take(partition, folder)
    tables = {path.name: path.stat().st_ino for path in first.glob("*.sst")}
    assert tables
    assert {name: (second / name).stat().st_ino for name in tables} == tables


def test_a_damaged_table_is_not_linked_to_the_next_snapshot(partition: Partition, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    put(partition, b"a")
    table = next(take(partition, folder).glob("*.sst"))
    content = table.read_bytes()
    table.unlink()  # so that the link in the partition stays intact
    table.write_bytes(content)
    flip(table)
    put(partition, b"b")
    take(partition, folder)
    assert snapshots.restore(folder, 1, tmp_path / "restored", SnapshotDescription.of(partition, COUNT)).offset == 1


def test_a_folder_without_links_gets_copies(
    partition: Partition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(partition, b"a")
    monkeypatch.setattr(os, "link", lambda *_: raise_error(tmp_path))
    take(partition, tmp_path / "snapshots")
    assert snapshots.restore(
        tmp_path / "snapshots", 0, tmp_path / "restored", SnapshotDescription.of(partition, COUNT)
    )


def test_old_snapshots_are_removed_even_after_an_interruption(partition: Partition, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    taken = []
    for key in (b"a", b"b", b"c"):
        put(partition, key)
        taken.append(take(partition, folder))
    (taken[0] / snapshots.DESCRIPTION_FILE).unlink()  # an earlier removal was interrupted here
    assert snapshots.list_offsets(folder) == [2, 1]
    assert snapshots.remove_old(folder, 3) is None
    assert snapshots.remove_old(folder, 2) == 1
    assert sorted(folder.iterdir()) == taken[1:]
    assert snapshots.remove_old(folder, 1) == 2
    assert sorted(folder.iterdir()) == taken[2:]
    assert snapshots.remove_old(tmp_path, 1) is None

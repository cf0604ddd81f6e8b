"""Snapshots of partitions: complete copies, each of which replaces the changelog up to its offset.

    FOLDER/partial-00000007/        a snapshot being written; the number is the epoch of the owner that writes it
    FOLDER/00000000000000012345/    a complete snapshot; the name is its offset in the changelog
        snapshot.json               its description, with the size and the checksum of each file
        000042.sst, ...

A snapshot gets its final name only once all of its files are on disk, so a crash never leaves an incomplete snapshot
under such a name. The snapshot with the highest offset in its name is the newest. This is true even if a former owner
of the partition continues to write, because its snapshots have lower offsets. The former owner's snapshots are valid
too: a worker writes to its store only records that precede the next owner's claim.

RocksDB never modifies a table file (`.sst`), so table files that the previous snapshot already contains are
hard-linked if possible, not copied.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from state import disk_sync
from state.errors import StateCorrupt, StateIncompatible
from state.partition import Partition

DESCRIPTION_FILE = "snapshot.json"
_PARTIAL = "partial-"
_HINT = "delete the folder of the snapshot; the worker then uses an older snapshot or the changelog"


class FileDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The description of a file of a snapshot."""

    size: int  # in bytes
    sha256: str


class SnapshotDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a snapshot."""

    partition: int
    partition_count: int
    scheme: str  # the id of the scheme
    offset: int  # of the last changelog record that the snapshot contains
    epoch: int
    files: dict[str, FileDescription] = {}

    @classmethod
    def of(cls, partition: Partition, partition_count: int) -> SnapshotDescription:
        """Return the description, without files, of a snapshot of the partition as it is now."""
        return cls(
            partition=partition.number,
            partition_count=partition_count,
            scheme=partition.scheme.id,
            offset=partition.offset,
            epoch=partition.epoch,
        )


def list_offsets(folder: Path) -> list[int]:
    """Return the offsets of all complete snapshots, newest first."""
    names = (path.parent.name for path in folder.glob(f"*/{DESCRIPTION_FILE}"))
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def path_of(folder: Path, offset: int) -> Path:
    return folder / f"{offset:020}"


def write(folder: Path, checkpoint: Path, snapshot: SnapshotDescription) -> Path:
    """Write a snapshot from a checkpoint of the partition's store, and return its folder.

    A crash leaves a partial snapshot, which the next call removes. Raise OSError if the folder cannot be written.
    """
    for path in folder.glob(f"{_PARTIAL}*"):
        # The next owner, which has a higher epoch, may be writing the other partial snapshots.
        if path.name <= _partial_name(snapshot.epoch):
            shutil.rmtree(path)
    target = path_of(folder, snapshot.offset)
    if (target / DESCRIPTION_FILE).exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    partial = folder / _partial_name(snapshot.epoch)
    partial.mkdir(parents=True)
    previous = [path_of(folder, offset) for offset in list_offsets(folder)[:1]]
    files = {}
    for source in sorted(checkpoint.iterdir()):
        files[source.name] = file = _describe(source)
        candidates = [path / source.name for path in previous if _is_intact(path / source.name, file)]
        _link_or_copy(source, [*candidates, source], partial / source.name)
    description = msgspec.json.encode(msgspec.structs.replace(snapshot, files=files))
    (partial / DESCRIPTION_FILE).write_bytes(description)
    for path in (*partial.iterdir(), partial):
        disk_sync.sync(path)
    partial.rename(target)
    disk_sync.sync(folder)
    return target


def _partial_name(epoch: int) -> str:
    return f"{_PARTIAL}{epoch:010}"


def _is_intact(path: Path, file: FileDescription) -> bool:
    """Return whether a file still has the described content. The next snapshot must not contain a damaged file."""
    try:
        return path.stat().st_size == file.size and _describe(path) == file
    except OSError:
        return False


def _link_or_copy(source: Path, candidates: Iterable[Path], target: Path) -> None:
    """Hard-link a table file to the first candidate for which this works. Copy any other file.

    All candidates have the same content as `source`. The table file is copied, too, if no link can be made.
    """
    if source.suffix == ".sst":
        for candidate in candidates:
            with suppress(OSError):  # another file system, or one without links
                os.link(candidate, target)
                return
    shutil.copyfile(source, target)


def restore(folder: Path, offset: int, target: Path, expected: SnapshotDescription) -> SnapshotDescription:
    """Copy a snapshot to a new folder, and return its description. `expected` describes the partition to restore.

    Raise StateCorrupt if files are missing or damaged, and StateIncompatible if the snapshot is of a different
    partition or scheme.
    """
    path = path_of(folder, offset)
    snapshot = _read(path)
    for name in ("partition", "partition_count", "scheme"):
        if (actual := getattr(snapshot, name)) != (needed := getattr(expected, name)):
            what = name.replace("_", " ")
            message = f"the snapshot in {path} does not match: its {what} is {actual}, expected {needed}"
            raise StateIncompatible(message, "use a separate kafka.snapshot_folder for each broker")
    if snapshot.offset != offset:
        raise StateCorrupt(
            f"the snapshot in {path} is damaged: {DESCRIPTION_FILE} gives the offset {snapshot.offset}", _HINT
        )
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, file in snapshot.files.items():
        try:
            shutil.copyfile(path / name, target / name)
        except FileNotFoundError as error:
            raise StateCorrupt(f"the snapshot in {path} lacks the file {name}", _HINT) from error
        if _describe(target / name) != file:
            raise StateCorrupt(f"the snapshot in {path} is damaged: the file {name} has changed", _HINT)
    for copy in (*target.iterdir(), target):
        disk_sync.sync(copy)
    return snapshot


def _read(path: Path) -> SnapshotDescription:
    file = path / DESCRIPTION_FILE
    try:
        snapshot = msgspec.json.decode(file.read_bytes(), type=SnapshotDescription)
    except FileNotFoundError as error:
        raise StateCorrupt(f"the snapshot in {path} is incomplete: it has no {DESCRIPTION_FILE}", _HINT) from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and MsgspecError are ValueErrors
        raise StateCorrupt(f"{file} is damaged: {error}", _HINT) from error
    if unsafe_names := [name for name in snapshot.files if Path(name).name != name]:
        raise StateCorrupt(f"{file} is damaged: {unsafe_names[0]!r} is not a plain file name", _HINT)
    return snapshot


def _describe(path: Path) -> FileDescription:
    with path.open("rb") as file:
        return FileDescription(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def remove_old(folder: Path, keep: int) -> int | None:
    """Remove all but the newest `keep` snapshots, and return the offset of the oldest one that remains.

    Return None if there are fewer than `keep`. If a crash interrupts this, the next call removes the rest.
    """
    remaining = list_offsets(folder)[:keep]
    if len(remaining) < keep:
        return None
    for path in folder.iterdir():
        if path.name.isdecimal() and int(path.name) < remaining[-1]:
            (path / DESCRIPTION_FILE).unlink(missing_ok=True)  # first: without it, the snapshot is not complete
            shutil.rmtree(path)
    return remaining[-1]

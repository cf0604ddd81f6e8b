"""The folder of a data set: its manifest, its locks, and the replacement of its files in one step.

An export writes new files below FOLDER/export.tmp/RUN. To commit, it removes the manifest, moves the new files into
place, deletes obsolete files, and writes the new manifest. An export that is interrupted before
the commit leaves the old data set intact. One that is interrupted during the commit leaves no manifest, and the next
export writes all files again. RUN is a random name, so that a worker that has not yet noticed the end of an
interrupted export does not disturb the next one.

A reader holds a shared lock on the folder, for which a commit waits. A reader therefore never sees files of two
exports. Another lock, on FOLDER/export.lock, keeps two exports from writing to the same folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from state import disk_sync
from streams.errors import InputError
from streams.export.schema import MANIFEST_FILE, SWEEP_TABLES, TABLES

FORMAT = 1  # incremented whenever the columns, the hashes or the checksums change
_NEW_FILES, _LOCK_FILE = "export.tmp", "export.lock"
TableName = Literal["captures", "documents", "clusters", "links", "hosts"]
Count = Annotated[int, Meta(ge=0)]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a table that come from one partition and, in most tables, from one sweep."""

    table: TableName
    sweep: Count | None = None  # the number of the sweep
    partition: Count = 0
    rows: int
    bytes: int  # size of the file; a part without rows has no file, and its size is 0
    checksum: int  # of the rows of the state from which it was written; independent of their order

    @property
    def key(self) -> tuple[str, int | None, int]:
        return self.table, self.sweep, self.partition


class ExportedSweep(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep of a data set."""

    number: int
    name: str
    committed: bool


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of export.json."""

    format: int = FORMAT
    scheme: str = ""  # the id of the scheme of the sketches
    state: str = ""  # the version of the state that was exported; empty if it is unknown
    sweeps: list[ExportedSweep] = []
    parts: list[Part] = []


def part_name(table: str, sweep: int | None, partition: int) -> str:
    """Return the path of a file below the folder of the data set."""
    folder = f"{table}/{sweep:08}" if table in SWEEP_TABLES else table
    return f"{folder}/part-{partition:05}.parquet"


class Workspace(NamedTuple):
    """The folder of a data set, and the name of the subfolder for the new files of one export."""

    folder: Path
    run: str

    @property
    def new_files(self) -> Path:
        return self.folder / _NEW_FILES / self.run

    def new_file(self, table: str, sweep: int | None, partition: int) -> Path:
        """Return the path of a file that has not been committed yet."""
        return self.new_files / part_name(table, sweep, partition)

    def current_file(self, part: Part) -> Path:
        """Return the path of a part's file: the new file if the part was written again, otherwise the old one."""
        path = self.new_file(*part.key)
        return path if path.exists() else self.folder / part_name(*part.key)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest, or None if it is missing, damaged or in an unknown format."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=Manifest)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return manifest if manifest.format == FORMAT else None


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Make exports to this folder wait until the block ends.

    Raise InputError if the folder contains no complete data set.
    """
    hint = "create it with `lostfound export`"
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"no export in {folder}: {error.strerror}", hint) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not (folder / MANIFEST_FILE).is_file():
            raise InputError(f"no export in {folder}", hint)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def writing(folder: Path) -> Iterator[tuple[Workspace, Manifest | None]]:
    """Prepare a folder for an export, and yield a workspace and the manifest.

    Remove the new files of an interrupted export. The manifest lacks the parts whose files are missing or have a
    different size, so that they are written again. Raise InputError if another export is writing to the folder, or if
    it contains other files.
    """
    is_data_set = any((folder / name).exists() for name in (MANIFEST_FILE, _LOCK_FILE))
    if folder.is_dir() and any(folder.iterdir()) and not is_data_set:
        raise InputError(f"{folder} contains files that are not an export", "name a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another export is writing to {folder}", "wait until it has ended") from None
        _remove_new_files(folder)
        workspace = Workspace(folder, os.urandom(8).hex())
        workspace.new_files.mkdir(parents=True)
        try:
            yield workspace, _without_damaged_parts(folder, read_manifest(folder))
        finally:
            _remove_new_files(folder)


def _without_damaged_parts(folder: Path, manifest: Manifest | None) -> Manifest | None:
    if manifest is None or all(_is_intact(folder, part) for part in manifest.parts):
        return manifest
    intact = [part for part in manifest.parts if _is_intact(folder, part)]
    return msgspec.structs.replace(manifest, state="", parts=intact)


def _is_intact(folder: Path, part: Part) -> bool:
    path = folder / part_name(*part.key)
    return not part.rows or (path.is_file() and path.stat().st_size == part.bytes)


def commit(workspace: Workspace, manifest: Manifest, on_wait: Callable[[], None] = lambda: None) -> None:
    """Replace the data set. The parts of the manifest are the new files, and those old files that stay.

    Call `on_wait` before waiting for readers.
    """
    folder = workspace.folder
    new_files = [path for path in (workspace.new_file(*part.key) for part in manifest.parts) if path.exists()]
    for path in new_files:
        disk_sync.sync(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock_exclusively(descriptor, on_wait)
        (folder / MANIFEST_FILE).unlink(missing_ok=True)
        os.fsync(descriptor)
        _replace_files(workspace, new_files, {part_name(*part.key) for part in manifest.parts if part.rows})
        path = workspace.new_files / MANIFEST_FILE
        path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        disk_sync.replace(path, folder / MANIFEST_FILE)
    finally:
        os.close(descriptor)


def _lock_exclusively(descriptor: int, on_wait: Callable[[], None]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _replace_files(workspace: Workspace, new_files: Iterable[Path], needed_names: set[str]) -> None:
    folder, folders = workspace.folder, set()
    for path in new_files:
        target = folder / path.relative_to(workspace.new_files)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        folders.add(target.parent)
    for table in TABLES:
        for path in sorted((folder / table).rglob("part-*.parquet")):
            if path.relative_to(folder).as_posix() not in needed_names:
                path.unlink()
        if table in SWEEP_TABLES and (folder / table).is_dir():
            for sweep_folder in (folder / table).iterdir():
                if sweep_folder.is_dir() and not any(sweep_folder.iterdir()):
                    sweep_folder.rmdir()
    for path in folders:
        disk_sync.sync(path)


def _remove_new_files(folder: Path) -> None:
    shutil.rmtree(folder / _NEW_FILES, ignore_errors=True)

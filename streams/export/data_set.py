"""The folder of a data set: its manifest, its locks, and the replacement of its files in one step.

An export writes new files below FOLDER/export.tmp/RUN. To commit, it removes the manifest, moves the new files into
place, deletes obsolete files, and writes the new manifest. An export that is interrupted before the commit leaves the
old data set intact. An export that is interrupted during the commit leaves no manifest, and the next export writes
all files again. RUN is a random name: a worker that is still writing files for an interrupted export cannot disturb
the next export.

A reader holds a shared lock on the folder, and a commit waits until it is released. A reader therefore never sees
files of two exports. Another lock, on FOLDER/export.lock, keeps two exports from writing to the same folder.
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
NonNegative = Annotated[int, Meta(ge=0)]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a table that come from one partition and, in most tables, from one sweep."""

    table: TableName
    sweep: NonNegative | None = None  # the number of the sweep
    partition: NonNegative = 0
    rows: int
    bytes: int  # size of the file; a part without rows has no file, and its size is 0
    checksum: int  # of the state's rows from which the file was written; independent of their order

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


def relative_path(table: str, sweep: int | None, partition: int) -> str:
    """Return the path of a part's file, relative to the folder of the data set."""
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
        return self.new_files / relative_path(table, sweep, partition)

    def current_file(self, part: Part) -> Path:
        """Return the path of a part's file: the new file if the part was written again, otherwise the old one."""
        path = self.new_file(*part.key)
        return path if path.exists() else self.folder / relative_path(*part.key)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest, or None if it is missing, damaged or in an unknown format."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=Manifest)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return manifest if manifest.format == FORMAT else None


@contextmanager
def read_lock(folder: Path) -> Iterator[None]:
    """Make commits of exports to this folder wait until the block ends.

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
def prepare_export(folder: Path) -> Iterator[tuple[Workspace, Manifest | None]]:
    """Prepare a folder for an export, and yield a workspace and the manifest of the old data set, if it has one.

    Remove the new files of an interrupted export. The manifest lacks the parts whose files are missing or have a
    different size, so that they are written again. Raise InputError if another export is writing to the folder, or if
    the folder is not empty and contains no export.
    """
    is_data_set = any((folder / name).exists() for name in (MANIFEST_FILE, _LOCK_FILE))
    if folder.is_dir() and any(folder.iterdir()) and not is_data_set:
        raise InputError(f"{folder} contains files, but no export", "choose a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another export is writing to {folder}", "wait until it has finished") from None
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
    path = folder / relative_path(*part.key)
    return not part.rows or (path.is_file() and path.stat().st_size == part.bytes)


def commit(workspace: Workspace, manifest: Manifest, on_wait: Callable[[], None] = lambda: None) -> None:
    """Replace the data set: move new files into place, keep old files of the manifest, and delete other part files.

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
        _replace_files(workspace, new_files, {relative_path(*part.key) for part in manifest.parts if part.rows})
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


def _replace_files(workspace: Workspace, new_files: Iterable[Path], kept_paths: set[str]) -> None:
    """Move new files into place. Delete the other part files, except those with a relative path in `kept_paths`."""
    folder, changed_folders = workspace.folder, set()
    for path in new_files:
        target = folder / path.relative_to(workspace.new_files)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        changed_folders.add(target.parent)
    for table in TABLES:
        for path in sorted((folder / table).rglob("part-*.parquet")):
            if path.relative_to(folder).as_posix() not in kept_paths:
                path.unlink()
        if table in SWEEP_TABLES and (folder / table).is_dir():
            for sweep_folder in (folder / table).iterdir():
                if sweep_folder.is_dir() and not any(sweep_folder.iterdir()):
                    sweep_folder.rmdir()
    for path in changed_folders:
        disk_sync.sync(path)


def _remove_new_files(folder: Path) -> None:
    shutil.rmtree(folder / _NEW_FILES, ignore_errors=True)

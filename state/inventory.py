"""The inventory lists the files that a state folder had when it was last closed, to detect incomplete copies.

    files.json    {"CURRENT": "MANIFEST-000123", "bytes": {"000042.sst": 1048576, ...}}

RocksDB checks that all tables exist only when it opens a folder for writing, and never checks whether the logs exist.
A reader falls back to the newest version of the database whose files all exist; this version may be empty. Every
writer starts a new manifest and writes its name to CURRENT. If CURRENT still contains the name in the inventory, no
writer has opened the folder since, so all files must be unchanged.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from state import disk_sync
from state.errors import DiskFull, StateCorrupt, StateError, is_disk_full

FILE_NAME = "files.json"
_PATTERNS = ("*.sst", "*.log", "MANIFEST-*")


class Inventory(msgspec.Struct, frozen=True):
    """The manifest in use, and the length of each file that RocksDB needs."""

    manifest: str = msgspec.field(name="CURRENT")
    lengths: dict[str, int] = msgspec.field(name="bytes")


def write(folder: Path, manifest: str) -> None:
    """Write the inventory of a folder after the writer with this manifest has closed it.

    If another writer has since opened the folder, the current manifest differs and `check` ignores the inventory.
    """
    partial_file = folder / f"{FILE_NAME}.part"  # so that no reader sees an incomplete inventory
    try:
        partial_file.write_bytes(msgspec.json.encode(Inventory(manifest, _file_lengths(folder))))
        disk_sync.replace(partial_file, folder / FILE_NAME)
    except OSError:
        partial_file.unlink(missing_ok=True)
        raise


def remove(folder: Path) -> None:
    (folder / FILE_NAME).unlink(missing_ok=True)


def check(folder: Path) -> None:
    """Raise StateCorrupt if files are missing or have a different length, or if the inventory itself is damaged."""
    inventory = _read(folder)
    if inventory is None or inventory.manifest != current_manifest(folder):
        return
    try:
        lengths = _file_lengths(folder)
    except FileNotFoundError:
        return  # a writer has just opened the folder and deleted a file
    changed = [name for name, length in inventory.lengths.items() if lengths.get(name) != length]
    if changed and (folder / FILE_NAME).exists():  # opening the folder for writing removes the inventory
        raise StateCorrupt(
            f"the state in {folder} is damaged: {len(changed)} of its {len(inventory.lengths)} files are missing"
            f" or have a different length, such as {min(changed)}",
            "restore a complete copy, for example from `lostfound state backup`",
        )


def _read(folder: Path) -> Inventory | None:
    """Return the inventory, or None if the folder has no inventory: it is in use, or its writer was killed."""
    file = folder / FILE_NAME
    try:
        return msgspec.json.decode(file.read_bytes(), type=Inventory)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise StateError(f"cannot read {file}: {error.strerror}", "check the permissions of the folder") from error
    except (OSError, ValueError, RecursionError) as error:  # UnicodeDecodeError and MsgspecError are ValueErrors
        raise StateCorrupt(
            f"{file} is damaged: {error}",
            "restore a backup; if you are sure that all other files are complete, delete this file",
        ) from error


def has_state(folder: Path) -> bool:
    """Return whether a folder contains a state. Raise StateError if the folder cannot be read."""
    try:
        return (folder / "CURRENT").exists()
    except OSError as error:
        hint = "choose a different folder with --data-dir"
        raise StateError(f"cannot read the folder {folder}: {error.strerror}", hint) from error


def create_folder(folder: Path) -> None:
    """Create the folder of a state if it does not exist. Raise StateError on failure."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(folder) from error
        hint = "choose a writable folder with --data-dir"
        raise StateError(f"cannot create a state in {folder}: {error.strerror}", hint) from error


def list_files(folder: Path) -> set[str]:
    """Return the names of the files that a reader of the state needs."""
    return {file.name for pattern in ("CURRENT", *_PATTERNS) for file in folder.glob(pattern)}


def list_logs(folder: Path) -> set[str]:
    """Return the names of the logs, which contain the rows that the writer has not yet flushed to tables."""
    return {file.name for file in folder.glob("*.log")}


def current_files(folder: Path) -> tuple[str, dict[str, int]]:
    """Return the manifest in use and the length of each file. Every commit and every new file changes the result."""
    lengths = {}
    for name in list_files(folder):
        with suppress(FileNotFoundError):  # a writer has just deleted the file
            lengths[name] = (folder / name).stat().st_size
    return current_manifest(folder), lengths


def current_manifest(folder: Path) -> str:
    """Return the name of the manifest in use, or an empty string if the folder has no state."""
    try:
        return (folder / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _file_lengths(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for pattern in _PATTERNS for file in folder.glob(pattern)}

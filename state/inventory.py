"""The inventory lists the files that a state folder had when it was last closed, to detect incomplete copies.

    files.json    {"CURRENT": "MANIFEST-000123", "bytes": {"000042.sst": 1048576, ...}}

RocksDB checks that all tables exist only when it opens a folder for writing, and never checks whether the log exists.
A reader falls back to the newest version of the database whose files all exist; this version may be empty. Every
writer starts a new manifest and writes its name to CURRENT. If this is still the manifest in the inventory, no writer
has opened the folder since, so all files must be unchanged.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from state.errors import StateCorrupt

FILE_NAME = "files.json"
_PATTERNS = ("*.sst", "*.log", "MANIFEST-*")


class Inventory(msgspec.Struct, frozen=True):
    """The manifest in use, and the length of each file that RocksDB needs."""

    manifest: str = msgspec.field(name="CURRENT")
    lengths: dict[str, int] = msgspec.field(name="bytes")


def write(folder: Path, manifest: str) -> None:
    """Write the inventory of a folder after the writer with this manifest has closed it.

    If another writer has since opened it, the current manifest differs and `check` ignores the inventory.
    """
    (folder / FILE_NAME).write_bytes(msgspec.json.encode(Inventory(manifest, _file_sizes(folder))))


def remove(folder: Path) -> None:
    (folder / FILE_NAME).unlink(missing_ok=True)


def check(folder: Path) -> None:
    """Raise StateCorrupt if files are missing or their lengths differ from the inventory."""
    try:
        inventory = msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=Inventory)
        if inventory.manifest != current_manifest(folder):
            return
        sizes = _file_sizes(folder)
        changed = [name for name, size in inventory.lengths.items() if sizes.get(name) != size]
        if changed and (folder / FILE_NAME).exists():  # otherwise a writer has just opened the folder
            raise StateCorrupt(
                f"the state in {folder} is damaged: {len(changed)} of its {len(inventory.lengths)} files are missing"
                f" or have a different length, such as {min(changed)}",
                "restore a complete copy, for example from `lostfound state backup`",
            )
    except (OSError, msgspec.MsgspecError):
        return  # nothing can be checked without a readable inventory


def current_manifest(folder: Path) -> str:
    """Return the name of the manifest in use; empty if the folder has no state."""
    try:
        return (folder / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _file_sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for pattern in _PATTERNS for file in folder.glob(pattern)}

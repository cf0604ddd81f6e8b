"""What a state's folder held when it was last closed well, so that a copy of it with files missing is noticed.

    files.json    {"CURRENT": "MANIFEST-000123", "bytes": {"000042.sst": 1048576, ...}}

Only a writer has RocksDB see that all tables are there, and nobody that the log is. A reader, which follows a writer
that may be at work, takes the last version of which it finds all files, and that may be an empty one. A writer begins
a manifest of its own: where CURRENT still names the one that is listed, nobody has written since, and every file must
be as it was.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from state.errors import StateCorrupt

NAME = "files.json"
_KEPT = ("*.sst", "*.log", "MANIFEST-*")


class Inventory(msgspec.Struct, frozen=True):
    """The manifest that was in use, and the length of each file that RocksDB needs."""

    current: str = msgspec.field(name="CURRENT")
    bytes: dict[str, int]


def take(folder: Path, manifest: str) -> None:
    """Write down what a folder holds, after the writer of this manifest has closed it.

    Another may have come since: then the list is of no manifest that counts, and says nothing.
    """
    held = {file.name: file.stat().st_size for pattern in _KEPT for file in folder.glob(pattern)}
    (folder / NAME).write_bytes(msgspec.json.encode(Inventory(manifest, held)))


def drop(folder: Path) -> None:
    """Forget it: a writer is at work."""
    (folder / NAME).unlink(missing_ok=True)


def check(folder: Path) -> None:
    """Raise StateCorrupt where files are missing or have another length than when the state was closed."""
    try:
        listed = msgspec.json.decode((folder / NAME).read_bytes(), type=Inventory)
        if listed.current != manifest_of(folder):
            return
        wrong = [name for name, size in listed.bytes.items() if _size(folder / name) != size]
        if wrong and (folder / NAME).exists():  # else a writer has just come, and takes away what it needs no longer
            raise StateCorrupt(
                f"the state in {folder} is damaged: {len(wrong)} of its {len(listed.bytes)} files are missing or of "
                f"another length, such as {min(wrong)}",
                "put back a whole copy, such as one of `lostfound state backup`",
            )
    except (OSError, msgspec.MsgspecError):
        return  # nothing can be told


def manifest_of(folder: Path) -> str:
    """The name of the manifest in use; empty where there is no state."""
    try:
        return (folder / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else -1

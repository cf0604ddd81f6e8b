"""`state backup`: a live copy by RocksDB's checkpoint, with the dead letters that stand beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from state import inventory, meta
from state.errors import LostfoundError
from state.store import Store


def backup(store: Store, target: Path) -> int:
    """Copy the state to a new folder while it may be written to; returns the bytes of the copy.

    Files are hard links where the file system has them, so a copy on the same disk costs nothing until compaction
    replaces what it shares. Copy it elsewhere to be safe from the disk.
    """
    if target.exists():
        raise LostfoundError(f"{target} exists already", "name a folder that does not exist yet")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LostfoundError(f"no folder can be made for {target}: {error.strerror}", "name another") from error
    store.checkpoint(target)
    letters = store.path / meta.DEAD_LETTERS
    if letters.exists():
        shutil.copy2(letters, target / letters.name)
    inventory.take(target, inventory.manifest_of(target))
    return sum(file.stat().st_size for file in target.iterdir() if file.is_file())

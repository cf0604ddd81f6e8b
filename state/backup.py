"""`state backup`: a copy of a state in use, made by a RocksDB checkpoint, with the dead-letter file."""

from __future__ import annotations

import shutil
from pathlib import Path

from state import inventory, meta
from state.errors import LostfoundError
from state.store import Store


def backup(store: Store, target: Path) -> int:
    """Copy the state to a new folder, even while another process writes to it; return its size in bytes.

    Files are hard links if the file system supports them, so a copy on the same disk takes no space until compaction
    replaces the shared files. To survive a broken disk, copy the folder to another disk.
    """
    if target.exists():
        raise LostfoundError(f"{target} already exists", "name a folder that does not exist yet")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LostfoundError(f"cannot create a folder for {target}: {error.strerror}", "name another one") from error
    store.checkpoint(target)
    letters = store.path / meta.DEAD_LETTER_FILE
    if letters.exists():
        shutil.copy2(letters, target / letters.name)
    inventory.write(target, inventory.current_manifest(target))
    return sum(file.stat().st_size for file in target.iterdir() if file.is_file())

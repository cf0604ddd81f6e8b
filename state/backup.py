"""`state backup`: copy a state and its dead-letter file, even while the state is in use."""

from __future__ import annotations

import shutil
from pathlib import Path

from state import inventory, meta
from state.errors import LostfoundError
from state.store import Store


def backup(store: Store, target: Path) -> int:
    """Copy the state to a new folder, even while another process writes to it. Return the size of the copy in bytes.

    If the file system supports it, the copy consists of hard links, which take no space until compaction replaces the
    original files. To survive a disk failure, copy the folder to a different disk.
    """
    if target.exists():
        raise LostfoundError(f"{target} already exists", "name a folder that does not exist yet")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot create a folder for {target}: {error.strerror}"
        raise LostfoundError(message, "name a different folder") from error
    store.checkpoint(target)
    dead_letters = store.path / meta.DEAD_LETTER_FILE
    if dead_letters.exists():
        shutil.copy2(dead_letters, target / dead_letters.name)
    inventory.write(target, inventory.current_manifest(target))
    return sum(file.stat().st_size for file in target.iterdir() if file.is_file())

"""`state backup`: copy a state and its dead-letter file, even while the state is in use."""

from __future__ import annotations

import shutil
from pathlib import Path

from state import inventory, line_file, meta
from state.errors import DiskFull, LostfoundError, is_disk_full
from state.store import Store


def backup(store: Store, target: Path) -> int:
    """Copy the state to a new folder, even while another process writes to it. Return the size of the copy in bytes.

    If the file system supports it, the copy consists of hard links, which take no space until compaction replaces the
    original files. To survive a disk failure, copy the folder to a different disk.

    Raise LostfoundError, before anything is written, if the target exists or is inside the state's folder. A
    failed copy is removed.
    """
    if target.resolve().is_relative_to(store.path.resolve()):
        message = f"{target} is inside the folder of the state, {store.path}"
        raise LostfoundError(message, "name a folder outside it")
    if target.exists():
        raise LostfoundError(f"{target} already exists", "name a folder that does not exist yet")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        store.checkpoint(target)
        _copy_dead_letters(store.path, target)
        inventory.write(target, inventory.current_manifest(target))
        return sum(file.stat().st_size for file in target.iterdir() if file.is_file())
    except LostfoundError:
        shutil.rmtree(target, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        if is_disk_full(error):
            raise DiskFull(target.parent) from error
        message = f"cannot make a backup in {target}: {error.strerror}"
        raise LostfoundError(message, "choose a different folder") from error


def _copy_dead_letters(state_folder: Path, target: Path) -> None:
    """Copy the complete lines of the dead-letter file. An ingest may be writing the next line."""
    dead_letters = state_folder / meta.DEAD_LETTER_FILE
    if dead_letters.exists():
        copy = target / dead_letters.name
        shutil.copy2(dead_letters, copy)
        line_file.truncate(copy, copy.stat().st_size)

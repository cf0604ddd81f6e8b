"""Cache the export of a state in its folder, so that the next analysis exports only what has changed.

    DATA_DIR/export-cache/data-set          the data set
    DATA_DIR/export-cache/lostfound-sql-... temporary tables of the SQL engine

Only one analysis of a state runs at a time: it holds a lock on DATA_DIR. The cache contains URLs and sketches of
pages, so every command that removes captures first waits for this lock and deletes the cache. Backups do not
contain the cache.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE_FOLDER, _DATA_SET = "export-cache", "data-set"
SQL_FOLDER_PREFIX = "lostfound-sql-"


@contextmanager
def lock(state_folder: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of the analyses of a state. Call `on_wait` before waiting for another process that holds it."""
    descriptor = os.open(state_folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def data_set_folder(state_folder: Path, *, keep: bool) -> Iterator[Path]:
    """Yield the folder for the data set. The caller must hold the lock.

    The folder is temporary if `keep` is false, or if the state's folder is not writable.
    """
    cache = state_folder / CACHE_FOLDER
    if keep and _is_writable(cache):
        for folder in cache.glob(f"{SQL_FOLDER_PREFIX}*"):  # left by killed processes
            shutil.rmtree(folder, ignore_errors=True)
        yield cache / _DATA_SET
        return
    with tempfile.TemporaryDirectory(prefix="lostfound-export-") as name:
        yield Path(name) / _DATA_SET


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def discard(state_folder: Path) -> None:
    """Delete the cache. The caller must hold the lock."""
    cache = state_folder / CACHE_FOLDER
    if cache.exists():
        shutil.rmtree(cache)

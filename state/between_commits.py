"""Open or copy a state exactly as of one commit, while a writer may be replacing its files.

RocksDB first reads the manifest, and then the logs with the rows that the manifest's tables lack. It fails if the
writer has deleted one of these tables in the meantime, but does not notice that the writer has deleted a log. In both
cases, the attempt is repeated.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from state import file_copy, inventory
from state.errors import StateError
from state.rocksdb_errors import is_missing_column_families

_SECONDS_MAX = 60.0  # on a busy machine, the writer may be faster than many attempts in a row
_PAUSE_SECONDS = 0.01  # after the first attempt; twice as long after each further attempt, up to the maximum
_PAUSE_SECONDS_MAX = 0.5
_DIRECT_ATTEMPTS = 3  # after this many attempts, a reader opens a copy instead
_CREATION_SECONDS_MAX = 2.0  # wait this long for a writer that is creating the column families
Files = tuple[str, dict[str, int]]  # the manifest in use, and the length of each file


def open_database(folder: Path, open_once: Callable[[Path], Any]) -> tuple[Any, Files]:
    """Call `open_once` with the folder until no file that it needs was deleted in the meantime.

    Return the database, and the files just before it was opened. Raise StateError after `_SECONDS_MAX`.
    """
    start = time.monotonic()
    attempt = 0
    while True:
        files = inventory.current_files(folder)
        try:
            if database := _attempt(folder, open_once, copy=attempt >= _DIRECT_ATTEMPTS):
                return database, files
        except Exception as error:
            may_be_new = is_missing_column_families(error) and time.monotonic() < start + _CREATION_SECONDS_MAX
            if not may_be_new and inventory.current_files(folder) == files:
                raise
        attempt += 1
        _pause(attempt, start, f"the writer replaced files of the state in {folder} during each attempt to open it")


def _pause(attempt: int, start: float, message: str) -> None:
    """Wait before the next attempt. Raise StateError if the first attempt started too long ago."""
    if time.monotonic() > start + _SECONDS_MAX:
        raise StateError(message, "run the same command again when the writer is less busy")
    time.sleep(min(_PAUSE_SECONDS * 2.0 ** (attempt - 1), _PAUSE_SECONDS_MAX))


def _attempt(folder: Path, open_once: Callable[[Path], Any], *, copy: bool) -> Any:
    """Open the files, or a copy of them. Return None if the writer has deleted a log in the meantime.

    Copying takes less time than opening. The copy need not be kept, because RocksDB reads all logs at once and keeps
    the tables open.
    """
    if copy and os.access(folder, os.W_OK):
        with file_copy.temporary_copy(folder) as copy_folder:
            return open_once(copy_folder)
    logs = inventory.list_logs(folder)
    database = open_once(folder)
    if logs <= inventory.list_logs(folder):
        return database
    database.close()
    return None


def copy(folder: Path, target: Path, copy_once: Callable[[Path], None]) -> None:
    """Call `copy_once` with the target until no file was deleted in the meantime.

    Raise StateError after `_SECONDS_MAX`.
    """
    start = time.monotonic()
    attempt = 0
    while True:
        files = inventory.current_files(folder)
        try:
            copy_once(target)
        except (FileNotFoundError, StateError):
            if inventory.current_files(folder) == files:
                raise
            shutil.rmtree(target)
        else:
            return
        attempt += 1
        _pause(attempt, start, f"the writer replaced files of the state in {folder} during each attempt to copy it")

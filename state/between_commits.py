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

_ATTEMPTS_MAX = 20
_DIRECT_ATTEMPTS = 3  # so many attempts before a reader opens a copy instead
_CREATION_SECONDS = 0.1  # wait this long for a writer that is creating the column families
Files = tuple[str, dict[str, int]]  # the manifest in use, and the length of each file


def open_database(folder: Path, open_once: Callable[[Path], Any]) -> tuple[Any, Files]:
    """Call `open_once` with the folder until no file that it needs was deleted in the meantime.

    Return the database, and the files just before it was opened. Raise StateError after too many attempts.
    """
    for attempt in range(_ATTEMPTS_MAX):
        files = inventory.current_files(folder)
        try:
            if database := _attempt(folder, open_once, copy=attempt >= _DIRECT_ATTEMPTS):
                return database, files
        except Exception as error:
            if is_missing_column_families(error) and attempt < _ATTEMPTS_MAX - 1:
                time.sleep(_CREATION_SECONDS)
            elif inventory.current_files(folder) == files:
                raise
    raise StateError(
        f"the writer replaced the files of the state in {folder} during each attempt to open it",
        "run the same command again",
    )


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

    Raise StateError after too many attempts.
    """
    for _ in range(_ATTEMPTS_MAX):
        files = inventory.current_files(folder)
        try:
            copy_once(target)
        except (FileNotFoundError, StateError):
            if inventory.current_files(folder) == files:
                raise
            shutil.rmtree(target)
        else:
            return
    raise StateError("the writer replaced its files during each attempt", "run the same command again")

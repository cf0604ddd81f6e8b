"""The temporary folder of a reader: RocksDB's own log, and links to the files of a state that cannot be written.

rocksdict writes its options to the folder that it opens, even for a reader. This fails on a read-only mount, without
write permission and on a full disk. A reader then opens a folder of symbolic links to the files of the state.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from state import inventory
from state.errors import StateError

_OPEN_ATTEMPTS_MAX = 20
_PREFIX = "lostfound-reader-"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - writable even if all file systems are read-only or full


class ReaderFolder:
    """The temporary folder of one reader."""

    def __init__(self, state_folder: Path) -> None:
        """Create the folder. Raise StateError if no folder for temporary files is writable."""
        self.path = _create_temporary_folder()
        self.rocksdb_folder = self.path / "rocksdb"
        self._state_folder = state_folder.absolute()
        self._links_folder = self.path / "links"
        self._linked: set[str] = set()

    def open_links(self, open_database: Callable[[Path], Any]) -> Any:
        """Call `open_database` with a folder of links to all files of the state, and return its result.

        If a writer created or deleted files in the meantime, some links were missing or broken, so that rows might
        be missing. The database is then opened again.
        """
        for _ in range(_OPEN_ATTEMPTS_MAX):
            self.remove_links()
            self._links_folder.mkdir()
            self._linked = inventory.list_files(self._state_folder)
            for name in self._linked:
                (self._links_folder / name).symlink_to(self._state_folder / name)
            try:
                database = open_database(self._links_folder)
            except Exception:
                if not self.has_new_files():
                    raise
                continue
            if not self.has_new_files():
                return database
            database.close()
        message = f"the files of the state in {self._state_folder} changed during each attempt to open it"
        raise StateError(message, "run the same command again")

    def has_new_files(self) -> bool:
        """Tell whether files were created or deleted since links were made. Without links, return False."""
        return bool(self._linked) and self._linked != inventory.list_files(self._state_folder)

    def remove_links(self) -> None:
        shutil.rmtree(self._links_folder, ignore_errors=True)
        self._linked = set()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def replace_links(folder: Path) -> None:
    """Replace the symbolic links in a folder by copies of their files. A checkpoint of links consists of links."""
    for link in folder.iterdir():
        if link.is_symlink():
            file = link.resolve()
            link.unlink()
            shutil.copyfile(file, link)


def _create_temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        try:
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHARED_MEMORY))
        except OSError:
            message = f"cannot create a folder for temporary files: {error.strerror}"
            raise StateError(message, "set TMPDIR to a writable folder on a disk with free space") from error

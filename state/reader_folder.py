"""The temporary folder of a reader: RocksDB's own log, and links to the files of a state in a read-only folder.

rocksdict writes its options to the folder that it opens, even for a reader. This fails on a read-only mount, without
write permission and on a full disk. In these cases, the reader opens a folder of symbolic links to the state's files.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from state import inventory
from state.errors import StateError

_PREFIX = "lostfound-reader-"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - writable even if all file systems are read-only or full


class ReaderFolder:
    """The temporary folder of one reader."""

    def __init__(self, state_folder: Path) -> None:
        """Create the folder. Raise StateError if no folder for temporary files is writable."""
        self.path = _create_temporary_folder()
        self._state_folder = state_folder.absolute()
        self._links_folder = self.path / "links"

    def link_files(self) -> Path:
        """Return a folder of links to all files of the state. Files that the writer creates later are not linked."""
        self._links_folder.mkdir()
        for name in inventory.list_files(self._state_folder):
            (self._links_folder / name).symlink_to(self._state_folder / name)
        return self._links_folder

    def remove_links(self) -> None:
        shutil.rmtree(self._links_folder, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _create_temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        try:
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHARED_MEMORY))
        except OSError:
            message = f"cannot create a folder for temporary files: {error.strerror}"
            raise StateError(message, "set TMPDIR to a writable folder on a disk with free space") from error

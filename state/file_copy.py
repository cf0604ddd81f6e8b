"""Copy the files of a state while a writer may be using them, as of one commit.

At any moment, the manifest names the tables of the state, and the logs contain all batches that these tables lack.
RocksDB extends the manifest before it deletes a table or a log. Therefore, a copy is complete if the manifest did not
change while its files were linked and opened. It is the state as of the end of the copied logs. Tables never change,
so they are linked if possible.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from state import disk_sync, inventory

_TEMPORARY_PREFIX = "reader-"
_ROUNDS_MAX = 100


def copy(source: Path, target: Path) -> None:
    """Copy a state to a new folder. Raise FileNotFoundError if the writer changed the manifest in every round.

    The first round links all tables. Each further round adds only new files, which usually takes less time than the
    writer needs for its next change of the manifest.
    """
    target.mkdir()
    with ExitStack() as stack:
        files: dict[str, BinaryIO | None] = {}
        for _ in range(_ROUNDS_MAX):
            manifest, manifest_length = _manifest_and_length(source)
            _add_new_files(source, target, files, stack)
            if _manifest_and_length(source) == (manifest, manifest_length):
                break
        else:
            raise FileNotFoundError(f"the writer has replaced files in {source} during each of {_ROUNDS_MAX} rounds")
        with (source / manifest).open("rb") as file:
            (target / manifest).write_bytes(file.read(manifest_length))
        for name, open_file in files.items():
            if open_file:
                with (target / name).open("wb") as target_file:
                    shutil.copyfileobj(open_file, target_file, 1 << 20)
    (target / "CURRENT").write_text(f"{manifest}\n", encoding="utf-8")


def _manifest_and_length(folder: Path) -> tuple[str, int]:
    """Return the name and the length of the manifest in use. Only new records change its length."""
    manifest = inventory.current_manifest(folder)
    return manifest, (folder / manifest).stat().st_size


def _add_new_files(source: Path, target: Path, files: dict[str, BinaryIO | None], stack: ExitStack) -> None:
    """Link or open the tables and logs that are not in `files`, and add them to it: None for a linked file."""
    for file in (*source.glob("*.sst"), *source.glob("*.log")):
        if file.name not in files:
            with suppress(FileNotFoundError):  # the writer has just deleted the file
                files[file.name] = _link_or_open(file, target, stack)


def _link_or_open(file: Path, target: Path, stack: ExitStack) -> BinaryIO | None:
    """Link a table. Open a log, or a table that cannot be linked, such as a table on a different disk.

    An open file can be read even after the writer has deleted it.
    """
    if file.suffix == ".sst":
        try:
            os.link(file, target / file.name)
        except FileNotFoundError:
            raise
        except OSError:
            pass
        else:
            return None
    return stack.enter_context(file.open("rb"))


def finish(folder: Path, tables: set[str]) -> None:
    """Remove all other tables from a copy, such as a table that was being written, and sync the copy to disk."""
    for file in folder.glob("*.sst"):
        if file.name not in tables:
            file.unlink()
    for path in (*folder.iterdir(), folder):
        disk_sync.sync(path)


@contextmanager
def temporary_copy(folder: Path) -> Iterator[Path]:
    """Yield a copy of a state, and remove it afterwards. It is inside the folder, so that tables can be linked."""
    parent = Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX, dir=folder))
    try:
        copy(folder, parent / "state")
        yield parent / "state"
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def remove_temporary_copies(folder: Path) -> None:
    """Remove the temporary copies of killed readers. Other readers notice this and try again."""
    for copy_folder in folder.glob(f"{_TEMPORARY_PREFIX}*"):
        shutil.rmtree(copy_folder, ignore_errors=True)

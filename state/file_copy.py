"""Copy the files of a state while a writer may be using them, as of one commit.

At any moment, the manifest names the tables of the state, and the logs contain all batches that these tables lack.
The copy therefore takes the manifest first and the logs afterwards. It is the state as of the end of the copied logs,
provided that no table or log was deleted in the meantime. Tables never change, so they are linked if possible.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from state import disk_sync, inventory

_TEMPORARY_PREFIX = "reader-"


def copy(source: Path, target: Path) -> None:
    """Copy a state to a new folder. Raise FileNotFoundError if the writer has deleted a log in the meantime.

    If the writer has deleted a table, the copy lacks the table and cannot be opened.
    """
    target.mkdir()
    with ExitStack() as stack:
        logs_before = inventory.list_logs(source)
        manifest = inventory.current_manifest(source)
        manifest_bytes = (source / manifest).read_bytes()
        # Open files before copying any of them: an open file can be read even after the writer has deleted it.
        logs = {name: stack.enter_context((source / name).open("rb")) for name in inventory.list_logs(source)}
        if not logs_before <= inventory.list_logs(source):
            raise FileNotFoundError(f"the writer has deleted a log in {source}")
        open_tables = _link_tables(source, target, stack)
        for name, file in {**logs, **open_tables}.items():
            with (target / name).open("wb") as target_file:
                shutil.copyfileobj(file, target_file, 1 << 20)
    (target / manifest).write_bytes(manifest_bytes)
    (target / "CURRENT").write_text(f"{manifest}\n", encoding="utf-8")


def _link_tables(source: Path, target: Path, stack: ExitStack) -> dict[str, BinaryIO]:
    """Link the tables. Return the tables that cannot be linked, such as those on a different disk, as open files."""
    files: dict[str, BinaryIO] = {}
    for table in source.glob("*.sst"):
        try:
            os.link(table, target / table.name)
        except FileNotFoundError:
            continue  # the writer has just deleted it
        except OSError:
            files[table.name] = stack.enter_context(table.open("rb"))
    return files


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

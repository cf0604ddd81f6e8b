"""A copy of a state with missing or truncated files is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from state import inventory
from state.backup import backup
from state.changes import Changes
from state.errors import StateCorrupt
from state.families import Family
from state.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state with several tables."""
    folder = tmp_path / "state"
    for n in range(3):
        with Store(folder) as store:
            changes = Changes()
            changes.put(Family.META, b"%d" % n, b"held")
            store.write(changes)
            if n < 2:
                store.flush()
    return folder


def one(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: file.stat().st_size)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("pattern", "harm"),
    [
        ("*.sst", Path.unlink),
        ("*.sst", cut),
        ("*.log", Path.unlink),
        ("MANIFEST-*", Path.unlink),
        ("MANIFEST-*", cut),
    ],
)
@pytest.mark.parametrize("writable", [False, True])
def test_an_incomplete_copy_is_refused(
    folder: Path, pattern: str, harm: Callable[[Path], None], writable: bool
) -> None:
    file = one(folder, pattern)
    harm(file)
    with pytest.raises(StateCorrupt, match=file.name):
        Store(folder, writable=writable)


def test_an_incomplete_copy_of_a_backup_is_refused(folder: Path, tmp_path: Path) -> None:
    with Store(folder, writable=False) as store:
        backup(store, tmp_path / "copy")
    with Store(tmp_path / "copy", writable=False) as store:
        assert store.get(Family.META, b"2") == b"held"
    one(tmp_path / "copy", "*.sst").unlink()
    with pytest.raises(StateCorrupt, match="1 of its"):
        Store(tmp_path / "copy", writable=False)


def test_a_state_that_was_not_closed_is_not_checked(folder: Path, tmp_path: Path) -> None:
    with Store(folder):
        assert not (folder / inventory.FILE_NAME).exists()
        with Store(folder, writable=False) as reader:
            assert reader.get(Family.META, b"2") == b"held"
        shutil.copytree(folder, tmp_path / "killed")
    with Store(tmp_path / "killed") as store:
        assert store.get(Family.META, b"2") == b"held"


def test_a_writer_that_opens_before_the_inventory_is_written_invalidates_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writers = inventory.write, []

    def write_late(path: Path, manifest: str) -> None:
        monkeypatch.setattr(inventory, "write", write)
        writers.append(Store(path))
        write(path, manifest)

    store = Store(folder)
    monkeypatch.setattr(inventory, "write", write_late)
    store.close()
    (writer,) = writers
    changes = Changes()
    changes.put(Family.META, b"3", b"value" * 1_000)
    writer.write(changes)
    writer.flush()
    with Store(folder, writable=False) as reader:
        assert reader.get(Family.META, b"3") == b"value" * 1_000
    writer.close()


def test_an_inventory_of_another_manifest_is_ignored(folder: Path) -> None:
    old = (folder / inventory.FILE_NAME).read_bytes()
    with Store(folder) as store:
        store.flush()
    (folder / inventory.FILE_NAME).write_bytes(old)
    Store(folder, writable=False).close()
    (folder / inventory.FILE_NAME).write_text("no list")
    Store(folder, writable=False).close()

"""A copy of a state with missing or truncated files is refused."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from state import disk_sync, inventory
from state.backup import backup
from state.changes import Changes
from state.errors import DiskFull, StateCorrupt
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


GOOD = b'{"CURRENT":"MANIFEST-000005","bytes":{"000004.log":0}}'


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"", id="empty"),
        pytest.param(GOOD[:30], id="truncated"),
        pytest.param(bytes(len(GOOD)), id="zeros"),
        pytest.param(b"no list", id="not JSON"),
        pytest.param(b"[]", id="wrong type"),
        pytest.param(b"{}", id="without fields"),
        pytest.param(GOOD.replace(b"0}", b'"0"}'), id="wrong type of a length"),
        pytest.param(GOOD.replace(b"MANI", b"\xff\xfe\xe4\xf6"), id="wrong encoding"),
        pytest.param(GOOD.decode().encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"x":' + b"[" * 100_000, id="nested"),
        pytest.param(None, id="folder"),
    ],
)
@pytest.mark.parametrize("writable", [False, True])
def test_a_damaged_inventory_is_refused_until_it_is_deleted(
    folder: Path, damaged: bytes | None, writable: bool
) -> None:
    file = folder / inventory.FILE_NAME
    file.unlink()
    if damaged is None:
        file.mkdir()
    else:
        file.write_bytes(damaged)
    with pytest.raises(StateCorrupt, match=r"files\.json is damaged: ") as refused:
        Store(folder, writable=writable)
    assert "delete this file" in refused.value.hint
    if damaged is not None:
        file.unlink()
        with Store(folder, writable=writable) as store:
            assert store.get(Family.META, b"2") == b"held"


def test_an_inventory_that_cannot_be_written_leaves_no_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inventory that a full disk has cut would make the state unusable."""

    def fill_disk(path: Path, data: bytes) -> int:
        with path.open("wb") as stream:
            stream.write(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = Store(folder)
    monkeypatch.setattr(Path, "write_bytes", fill_disk)
    with pytest.raises(DiskFull, match=f"the disk of {folder} is full"):
        store.close()
    monkeypatch.undo()
    assert not list(folder.glob("files.json*"))
    with Store(folder, writable=False) as reader:
        assert reader.get(Family.META, b"2") == b"held"


def test_an_inventory_and_the_files_it_lists_are_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, an inventory that is empty, or longer than a log that was cut, would make the state unusable."""
    events: list[str] = []
    store = Store(tmp_path)
    monkeypatch.setattr(Store, "_sync_log", lambda _: events.append("log"))
    monkeypatch.setattr(disk_sync, "sync", lambda path: events.append(path.name))
    rename = Path.replace

    def record_rename(source: Path, target: Path) -> Path:
        events.append("rename")
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", record_rename)
    store.close()
    assert events == ["log", "files.json.part", "rename", tmp_path.name]

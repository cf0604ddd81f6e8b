"""A backup is a sound state, even during an ingest."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from state import sweeps
from state.backup import backup
from state.check import check
from state.errors import DiskFull, LostfoundError
from state.store import Store
from tests.samples import NOW, page, take


def test_a_backup_during_an_ingest_is_a_sound_state(tmp_path: Path) -> None:
    """Copies made while another thread ingests are sound, each with the sweeps that were committed then."""
    failed: list[BaseException] = []
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "0.jsonl", [page("https://a.org/0", "text of the first page", NOW)], "0")

        def write() -> None:
            try:
                for n in range(1, 20):
                    lines = [page(f"https://a.org/{n}-{i}", f"text {n * i} of page {i}", NOW + n) for i in range(30)]
                    take(store, tmp_path / f"{n}.jsonl", [*lines, {"url": "no"}], str(n))
            except BaseException as error:
                failed.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        sizes = [backup(store, tmp_path / "copies" / str(n)) for n in range(5)]
        writer.join()
    assert not failed
    assert all(sizes)
    for n in range(5):
        with Store(tmp_path / "copies" / str(n)) as copy:
            assert list(check(copy, postings_max=32)) == []
            assert len(sweeps.all_sweeps(copy)) >= 1


def test_a_backup_contains_the_dead_letters_and_refuses_an_existing_folder(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, store.path / "crawl.jsonl", [page("https://a.org/", "some text"), {"url": "no"}], "0")
        backup(store, tmp_path / "copy")
        assert (tmp_path / "copy" / "dead-letters.jsonl").read_bytes().count(b"\n") == 1
        assert not (tmp_path / "copy" / "crawl.jsonl").exists()  # an input file in the data folder
        with pytest.raises(LostfoundError, match="already exists"):
            backup(store, tmp_path / "copy")


@pytest.mark.parametrize("target", ["state", "state/copy", "state/a/b", "outside/../state/copy", "link/copy"])
def test_a_backup_into_the_state_is_refused_before_anything_is_written(tmp_path: Path, target: str) -> None:
    with Store(tmp_path / "state") as store:
        (tmp_path / "link").symlink_to(tmp_path / "state")
        (tmp_path / "outside").mkdir()
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(LostfoundError, match="is inside the folder of the state") as refused:
            backup(store, tmp_path / target)
        assert "outside" in refused.value.hint
        assert sorted(tmp_path.rglob("*")) == before


def test_a_backup_has_only_complete_dead_letters(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "crawl.jsonl", [page("https://a.org/", "some text"), {"url": "no"}], "0")
        letters = (store.path / "dead-letters.jsonl").read_bytes()
        (store.path / "dead-letters.jsonl").write_bytes(letters + letters[:20])  # an ingest is writing a line
        backup(store, tmp_path / "copy")
    assert (tmp_path / "copy" / "dead-letters.jsonl").read_bytes() == letters


def test_nothing_remains_of_a_failed_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Store(tmp_path / "state") as store:
        monkeypatch.setattr("state.backup.inventory.write", fill_disk)
        with pytest.raises(DiskFull, match=f"the disk of {tmp_path} is full"):
            backup(store, tmp_path / "copy")
        monkeypatch.undo()
        assert not (tmp_path / "copy").exists()

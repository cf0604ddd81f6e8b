"""A reader or a copy gets a complete state even if the writer replaces files during many attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state import between_commits, file_copy
from state.changes import Changes
from state.errors import StateError
from state.families import Family, StoreLimits
from state.store import Store

SMALL = StoreLimits(cache_mib=8, write_buffers_mib=8, background_jobs=1)
MANY = 30


class BusyWriter(Store):
    """A writer with a function that replaces its files."""

    batches = 0

    def replace_files(self) -> None:
        """Write one batch, delete its log, and replace all tables by one; then write a batch that is only in a log."""
        self._put_batch()
        self.flush()
        self.compact(Family.META)
        self._put_batch()

    def _put_batch(self) -> None:
        self.batches += 1
        changes = Changes()
        for family in (Family.META, Family.TEXTS):
            changes.put(family, b"%06d" % self.batches, b"")
        self.write(changes)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[BusyWriter]:
    with BusyWriter(tmp_path / "state", SMALL) as store:
        store.replace_files()
        yield store


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, in seconds. They take no time."""
    seconds: list[float] = []
    monkeypatch.setattr("state.between_commits.time.sleep", seconds.append)
    return seconds


def visible_batches(store: Store) -> int:
    """Return the number of batches that are visible, which must be complete and without a gap."""
    numbers = [[int(key) for key, _ in store.scan(family)] for family in (Family.META, Family.TEXTS)]
    assert numbers == [list(range(1, len(numbers[0]) + 1))] * 2
    return len(numbers[0])


def replace_files_after(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, writer: BusyWriter, times: int
) -> list[int]:
    """Make the writer replace its files after each of the first calls of a function. Return a list of all calls."""
    function: Callable[..., Any] = getattr(owner, name)
    calls: list[int] = []

    def call(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        calls.append(len(calls))
        if len(calls) <= times:
            writer.replace_files()
        return result

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_copy_is_complete_if_files_are_replaced_in_many_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: BusyWriter
) -> None:
    """The writer replaces all tables and logs between the manifest and the files of each round."""
    replace_files_after(monkeypatch, file_copy, "_manifest_and_length", writer, times=MANY)
    file_copy.copy(writer.path, tmp_path / "copy")
    with Store(tmp_path / "copy", SMALL, writable=False) as copy:
        assert visible_batches(copy) == writer.batches


def test_a_copy_has_the_tables_of_its_manifest_if_they_are_replaced_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: BusyWriter
) -> None:
    calls = replace_files_after(monkeypatch, file_copy, "_add_new_files", writer, times=1)
    file_copy.copy(writer.path, tmp_path / "copy")
    assert len(calls) == 2
    with Store(tmp_path / "copy", SMALL, writable=False) as copy:
        assert visible_batches(copy) == writer.batches


def test_an_open_succeeds_after_many_copies_without_a_table(
    monkeypatch: pytest.MonkeyPatch, writer: BusyWriter, pauses: list[float]
) -> None:
    copy = file_copy.copy
    attempts: list[Path] = []

    def copy_without_tables(source: Path, target: Path) -> None:
        copy(source, target)
        attempts.append(target)
        if len(attempts) <= MANY:
            for table in target.glob("*.sst"):
                table.unlink()
            writer.replace_files()

    monkeypatch.setattr(file_copy, "copy", copy_without_tables)
    monkeypatch.setattr(between_commits, "_DIRECT_ATTEMPTS", 0)
    with Store(writer.path, SMALL, writable=False) as reader:
        assert visible_batches(reader) == writer.batches
    assert len(attempts) == MANY + 1
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] == pauses[-2]


def test_a_checkpoint_succeeds_after_many_replacements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: BusyWriter, pauses: list[float]
) -> None:
    with Store(writer.path, SMALL, writable=False) as reader:
        monkeypatch.setattr(file_copy, "_ROUNDS_MAX", 1)
        replace_files_after(monkeypatch, file_copy, "_add_new_files", writer, times=MANY)
        reader.checkpoint(tmp_path / "backup")
    assert len(pauses) == MANY
    with Store(tmp_path / "backup", SMALL) as backup:
        assert visible_batches(backup) == writer.batches


def test_a_checkpoint_ends_with_an_error_after_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: BusyWriter
) -> None:
    with Store(writer.path, SMALL, writable=False) as reader:
        monkeypatch.setattr(file_copy, "_ROUNDS_MAX", 1)
        monkeypatch.setattr(between_commits, "_SECONDS_MAX", 0.2)
        replace_files_after(monkeypatch, file_copy, "_add_new_files", writer, times=1_000_000)
        with pytest.raises(StateError, match=r"the writer replaced files of the state in .* to copy it") as refused:
            reader.checkpoint(tmp_path / "backup")
        assert "less busy" in refused.value.hint
    assert not (tmp_path / "backup").exists()


def test_a_table_on_another_disk_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: BusyWriter
) -> None:
    def refuse_link(*_: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("state.file_copy.os.link", refuse_link)
    file_copy.copy(writer.path, tmp_path / "copy")
    assert list((tmp_path / "copy").glob("*.sst"))
    with Store(tmp_path / "copy", SMALL, writable=False) as copy:
        assert visible_batches(copy) == writer.batches


def test_a_state_without_changes_is_opened_at_once(writer: BusyWriter, pauses: list[float]) -> None:
    with Store(writer.path, SMALL, writable=False) as reader:
        assert visible_batches(reader) == writer.batches
    assert pauses == []

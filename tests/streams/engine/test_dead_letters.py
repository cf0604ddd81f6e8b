from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from state.changes import Changes
from state.errors import DiskFull
from state.families import Family
from state.store import Store
from streams.engine.dead_letters import DeadLetters
from streams.page import Origin, Rejected
from tests.samples import page, settings, take

ONE = Rejected("bad_url", "not a URL: 'x'", Origin("/data/a.wacz", 17, "archive/a.warc.gz"), "x")


def test_a_line_has_the_reason_and_the_origin(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "2026-11")
    assert letters.length() == 0
    assert letters.append([]) == 0
    assert not letters.path.exists()
    assert letters.append([ONE, ONE]) == letters.path.stat().st_size
    first, second = map(json.loads, letters.path.read_text().splitlines())
    assert (
        first
        == second
        == {
            "reason": "bad_url",
            "detail": "not a URL: 'x'",
            "url": "x",
            "source": "/data/a.wacz",
            "member": "archive/a.warc.gz",
            "offset": 17,
            "sweep": "2026-11",
        }
    )


def test_uncommitted_lines_are_truncated(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    committed = letters.append([ONE])
    letters.append([ONE, ONE])
    assert letters.truncate(committed) == letters.length() == committed
    assert letters.truncate(committed + 1) == committed
    letters.path.unlink()
    assert letters.truncate(committed) == 0


def test_a_replaced_file_is_truncated_between_lines(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    line = letters.append([ONE])
    letters.append([ONE] * 4)
    assert letters.truncate(3 * line + 5) == 3 * line
    assert letters.truncate(line - 1) == 0


def test_a_line_that_a_crash_cut_is_removed(tmp_path: Path) -> None:
    """A power cut may lose the end of the file, but not the commit that recorded its length."""
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    line = letters.append([ONE])
    committed = letters.append([ONE])
    for tail in (letters.path.read_bytes()[line:-30], bytes(100)):
        letters.path.write_bytes(letters.path.read_bytes()[:line] + tail)
        assert letters.truncate(committed) == line
    letters.append([ONE])
    assert [json.loads(text)["reason"] for text in letters.path.read_text().splitlines()] == ["bad_url"] * 2


def test_a_complete_last_line_gets_its_line_feed(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    line = letters.append([ONE])
    letters.path.write_bytes(letters.path.read_bytes().rstrip(b"\n"))
    assert letters.truncate(10 * line) == line
    letters.append([ONE])
    assert len(letters.path.read_text().splitlines()) == 2


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    letters.path.symlink_to("/dev/full")
    with pytest.raises(DiskFull, match=f"the disk of {tmp_path} is full"):
        letters.append([ONE])


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    letters.append([Rejected("bad_url", "lone \ud800 surrogate", Origin("a", 0), "http://a/\udc80")])
    (line,) = letters.path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["reason"] == "bad_url"


def test_lines_are_on_disk_before_the_commit_that_counts_them(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may keep a commit but lose what no fsync has written: the lines, or the name of a new file."""
    fsync, write = os.fsync, Store.write
    bytes_on_disk, names_on_disk, counted = 0, set[str](), list[int]()
    file = store.path / "dead-letters.jsonl"

    def record_sync(descriptor: int) -> None:
        nonlocal bytes_on_disk
        fsync(descriptor)
        if os.path.samestat(os.fstat(descriptor), store.path.stat()):
            names_on_disk.update(path.name for path in store.path.iterdir())
        elif file.exists() and os.path.samestat(os.fstat(descriptor), file.stat()):
            bytes_on_disk = file.stat().st_size

    def check_before_writing(self: Store, changes: Changes, *, sync: bool = False) -> None:
        if (count := int(changes.puts_of(Family.META).get(b"dead-letters", b"0"))) > 0:
            assert bytes_on_disk == count
            assert file.name in names_on_disk
            counted.append(count)
        write(self, changes, sync=sync)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Store, "write", check_before_writing)
    lines = [page("https://a.org/", "some text"), {"url": "no"}, {"url": "neither"}, {"url": 7}]
    take(store, tmp_path / "a.jsonl", lines, "one", settings({"ingest": {"batch_pages": 2}}))
    assert len(set(counted)) == 2
    file.write_bytes(file.read_bytes().partition(b"\n")[2])  # a user removes a line
    take(store, tmp_path / "a.jsonl", lines, "two", settings({"ingest": {"batch_pages": 2}}))
    assert len(counted) == 5

"""An ingest resumes inputs that have grown, restarts those that were rewritten, and refuses its own files."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from state import sweeps
from state.families import Family
from state.store import Store
from state.view import View
from streams.engine.ingest import Progress, ingest
from streams.engine.sketch_pool import SketchPool
from streams.errors import InputError, NoPages, ReadError
from tests.samples import NOW, jsonl, settings, take
from tests.streams.engine.ingest_samples import BAD, PAGES, Stop, letters, sound, stop_after


def test_only_an_open_sweep_accepts_more_pages(store: Store, tmp_path: Path) -> None:
    first = take(store, tmp_path / "a.jsonl", PAGES[:2], "one", keep_open=True)
    assert (first.committed, first.status) == (False, "ingested")
    assert take(store, tmp_path / "a.jsonl", PAGES[:2], "one", keep_open=True).status == "nothing to do"
    assert take(store, tmp_path / "b.jsonl", PAGES[2:3], "one").committed
    with pytest.raises(InputError, match="sweep 'one' is committed and accepts no more pages"):
        take(store, tmp_path / "c.jsonl", PAGES[3:4], "one")
    assert sweeps.all_sweeps(store)[0].captures == 3


def test_reading_resumes_at_the_end_of_a_file_that_has_grown(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    take(store, path, PAGES[:2], "one", keep_open=True)
    done = take(store, path, PAGES[:5], "one", keep_open=True)
    assert (done.status, done.pages) == ("resumed", 5)
    assert len(list(store.scan(Family.CAPTURES))) == 5


def test_a_folder_with_new_files_is_read_again_while_the_sweep_is_open(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    jsonl(folder / "b.jsonl", PAGES[:2])
    ingest(store, settings(), [str(folder)], "one", now=NOW, keep_open=True)
    jsonl(folder / "a.jsonl", PAGES[2:4])
    done = ingest(store, settings(), [str(folder)], "one", now=NOW, keep_open=True)
    assert done.status == "ingested"
    assert len(list(store.scan(Family.CAPTURES))) == 4
    assert sound(store)


def urls(store: Store) -> list[str]:
    return sorted(capture.url for capture in View(store).all_captures())


@pytest.mark.parametrize("other", [PAGES[4:], PAGES[6:], PAGES[4:] * 9], ids=["as long", "shorter", "longer"])
def test_a_rewritten_file_is_read_from_its_start(store: Store, tmp_path: Path, other: list[dict[str, Any]]) -> None:
    path = tmp_path / "today.jsonl"
    take(store, path, PAGES[:3], "one", keep_open=True)
    done = take(store, path, other, "one", keep_open=True)
    assert (done.status, done.pages, done.pages_read, done.rejected) == ("ingested", len(other), len(other), {})
    assert urls(store) == sorted({line["url"] for line in PAGES[:3] + other})
    assert take(store, path, other, "one").status == "nothing to do"
    assert sound(store)


def test_more_input_for_a_committed_sweep_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "today.jsonl"
    take(store, path, PAGES[:3], "one")
    assert take(store, path, PAGES[:3], "one").status == "nothing to do"
    for lines in (PAGES[:4], PAGES[4:]):
        with pytest.raises(InputError, match="sweep 'one' is committed and accepts no more pages"):
            take(store, path, lines, "one")


def test_a_truncated_line_is_read_once_it_is_complete(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = jsonl(path, PAGES[:4]).read_bytes()
    path.write_bytes(whole[: whole.index(b"\n") + 100])
    for status in ("ingested", "nothing to do"):
        done = ingest(store, settings(), [str(path)], "one", now=NOW, keep_open=True)
        assert (done.status, done.pages, done.rejected) == (status, 2, {"truncated": 1})
    path.write_bytes(whole)
    done = ingest(store, settings(), [str(path)], "one", now=NOW, keep_open=True)
    assert (done.status, done.new, done.pages_read) == ("resumed", 4, 3)
    assert len(letters(store)) == 1


def fail_if_endless(progress: Progress) -> None:
    """Fail if the ingest reads the dead letters that it writes."""
    assert sum(progress.cursor.rejected.values()) < 5


@pytest.mark.parametrize("spelt", ["var", "link"])
def test_a_state_below_the_input_is_not_read(tmp_path: Path, spelt: str) -> None:
    folder = tmp_path / "crawl"
    jsonl(folder / "a.jsonl", [PAGES[0], BAD])
    (folder / "var").mkdir()
    (tmp_path / "link").symlink_to(folder / "var")
    (folder / "link.jsonl").symlink_to(folder / "var" / "dead-letters.jsonl")
    with Store((folder if spelt == "var" else tmp_path) / spelt) as store:
        for name in ("one", "two"):
            done = ingest(store, settings(), [str(folder)], name, now=NOW, report_progress=fail_if_endless)
            assert (done.pages, done.rejected) == (2, {"bad_url": 1})
        assert (
            ingest(store, settings(), [str(folder)], "two", now=NOW, report_progress=fail_if_endless).status
            == "nothing to do"
        )
        assert len(letters(store)) == 2


def test_crawl_files_in_the_folder_of_the_state_are_read_when_it_is_named(tmp_path: Path) -> None:
    """As with `--data-dir .`."""
    with Store(tmp_path) as store:
        take(store, tmp_path / "a.jsonl", [PAGES[0], BAD], "one")
        jsonl(tmp_path / "crawl" / "b.jsonl", PAGES[1:3])
        for path, count in ((tmp_path, 4), (tmp_path / "crawl", 2)):
            done = ingest(store, settings(), [str(path)], path.name, now=NOW, report_progress=fail_if_endless)
            assert done.pages == count


def test_the_dead_letters_are_refused_by_any_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, tmp_path / "a.jsonl", [PAGES[0], BAD], "one")
    path = store.path / "dead-letters.jsonl"
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "folder").symlink_to(store.path)
    for name in (
        path,
        tmp_path / "link.jsonl",
        tmp_path / "folder" / path.name,
        store.path / ".." / path.parent.name,
    ):
        given = name / path.name if name.is_dir() else name
        with pytest.raises(InputError, match="own dead-letter file") as refused:
            ingest(store, settings(), [str(given)], "two", now=NOW, report_progress=fail_if_endless)
        assert "fix the listed records" in refused.value.hint
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(InputError, match="own dead-letter file"):
            ingest(store, settings(), ["-"], "two", now=NOW, report_progress=fail_if_endless)
    assert [sweep.name for sweep in sweeps.all_sweeps(store)] == ["one"]


def set_standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Replace standard input by a pipe with data that fits into its buffer."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reader))


def test_another_pipe_after_a_stopped_one_is_read_from_its_start(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom = settings({"ingest": {"batch_pages": 2}})
    first, other = (jsonl(tmp_path / "a.jsonl", lines).read_bytes() for lines in (PAGES[:4], PAGES[4:]))
    for second, status, pages, pages_read in ((first, "resumed", 4, 2), (other, "ingested", 3, 3)):
        set_standard_input(monkeypatch, first)
        with monkeypatch.context() as patch:
            stop_after(patch, 1, before=False)
            with pytest.raises(Stop):
                ingest(store, custom, ["-"], status, now=NOW, keep_open=True)
        set_standard_input(monkeypatch, second)
        done = ingest(store, custom, ["-"], status, now=NOW)
        assert (done.status, done.pages, done.pages_read) == (status, pages, pages_read)
    set_standard_input(monkeypatch, other)
    assert ingest(store, custom, ["-"], "ingested", now=NOW).status == "nothing to do"
    set_standard_input(monkeypatch, first)
    with pytest.raises(InputError, match="accepts no more pages"):
        ingest(store, custom, ["-"], "ingested", now=NOW)


def test_several_pipes_can_be_ingested_into_one_sweep(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (0, 2):
        data = jsonl(tmp_path / "a.jsonl", PAGES[n : n + 2]).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        done = ingest(store, settings(), ["-"], "one", now=NOW, keep_open=True)
        assert (done.status, done.pages) == ("ingested", 2)
    assert len(list(store.scan(Family.CAPTURES))) == 4


@pytest.mark.parametrize("lines", [PAGES, []], ids=["pages", "empty"])
def test_child_processes_start_once_standard_input_is_large(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[dict[str, Any]]
) -> None:
    """They take longer to start than a small input takes to sketch. The size of standard input is unknown."""
    start_processes, counts = SketchPool.start_processes, []

    def record(pool: SketchPool, process_count: int) -> None:
        counts.append(process_count)
        start_processes(pool, process_count)

    monkeypatch.setattr(SketchPool, "start_processes", record)
    data = jsonl(tmp_path / "a.jsonl", lines).read_bytes()
    custom = settings({"ingest": {"batch_pages": 2, "workers": 2, "workers_from_bytes": len(data) // 2 + 1}})
    set_standard_input(monkeypatch, data)
    if lines:
        assert ingest(store, custom, ["-"], "one", now=NOW).pages == len(PAGES)
        assert sound(store)
        assert counts.index(2) > 1  # after the first batch
        assert counts.count(2) == 1
    else:
        with pytest.raises(NoPages):
            ingest(store, custom, ["-"], "one", now=NOW)
        assert set(counts) == {1}


def test_unreadable_input_opens_no_sweep(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for paths, error, message in (
        ([tmp_path / "none.jsonl"], ReadError, "cannot read"),
        ([tmp_path / "empty"], InputError, "no crawl file found in"),
        ([tmp_path / os.fsdecode(b"\xff.jsonl")], InputError, "is not UTF-8"),
    ):
        if error is InputError and "UTF" in message:
            jsonl(paths[0], PAGES[:1])
        with pytest.raises(error, match=message):
            ingest(store, settings(), list(map(str, paths)), "one", now=NOW)
    assert sweeps.all_sweeps(store) == []

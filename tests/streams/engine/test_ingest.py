"""An ingest counts every page once, resumes after a stop and lists what it rejects."""

from __future__ import annotations

import json
import random
from concurrent.futures import Future
from pathlib import Path

import pytest

from state import meta, sweeps
from state.check import check
from state.families import Family
from state.model import SweepState
from state.store import Store
from state.sweeps import open_sweep
from state.view import View
from streams.engine import ingest as ingest_module
from streams.engine.ingest import Progress, ingest
from streams.engine.sketch_pool import SketchPool
from streams.errors import BadRecord
from streams.find import Finder
from streams.operators.sketch import SketchResults, SketchTask
from streams.urls import url_key
from tests.samples import NOW, html, jsonl, missing, page, redirect, settings, take, variant, words
from tests.streams.engine.ingest_samples import BAD, PAGES, RNG, TEXTS, Stop, everything, letters, sound, stop_after


def test_a_sweep_of_new_pages(store: Store, tmp_path: Path) -> None:
    done = take(store, tmp_path / "a.jsonl", PAGES, "one")
    assert (done.status, done.committed, done.pages, done.new, done.unchanged) == ("ingested", True, 7, 7, 0)
    assert done.near_duplicates == 1
    (sweep,) = sweeps.all_sweeps(store)
    assert (sweep.state, sweep.opened_time, sweep.committed_time, sweep.captures) == (
        SweepState.COMMITTED,
        NOW,
        NOW,
        7,
    )
    assert sound(store)


def test_the_same_input_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "a.jsonl", PAGES, "one")
    before = everything(store)
    again = take(store, tmp_path / "a.jsonl", PAGES, "one")
    assert again.status == "nothing to do"
    assert (again.pages, again.new) == (7, 7)
    assert everything(store) == before


def test_unchanged_changed_and_returned_pages(store: Store, tmp_path: Path) -> None:
    first, other = " ".join(TEXTS[0]), " ".join(TEXTS[1])
    url = "https://a.org/page"
    for n, (text, new, unchanged) in enumerate([(first, 1, 0), (first, 0, 1), (other, 1, 0), (first, 0, 0)]):
        done = take(store, tmp_path / f"{n}.jsonl", [page(url, text, NOW + n)], str(n))
        assert (done.new, done.unchanged) == (new, unchanged)
    history = View(store).captures(url_key(url))
    assert history[0].document == history[1].document == history[3].document != history[2].document
    seen = dict(store.scan(Family.LOCATIONS, history[0].document or b""))
    assert list(seen.values()) == [NOW.to_bytes(8, "big")]
    assert sound(store)


def test_every_page_is_counted_once(store: Store, tmp_path: Path) -> None:
    """A page is new, a copy, unchanged or rejected, whatever the size of the batches is."""
    copies = [page(f"https://b.org/{n}", " ".join(TEXTS[n % 3]), NOW + 50 + n) for n in range(5)]
    first = take(store, tmp_path / "a.jsonl", [*PAGES, *copies, BAD], "one")
    assert (first.new, first.copies, first.unchanged, first.rejected) == (7, 5, 0, {"bad_url": 1})
    assert first.redirects_and_errors == 0
    returned = [PAGES[0], page("https://a.org/1", " ".join(TEXTS[2]), NOW + 100)]
    second = take(store, tmp_path / "b.jsonl", returned, "two", settings({"ingest": {"batch_pages": 1}}))
    assert (second.new, second.copies, second.unchanged) == (0, 1, 1)
    assert first.pages == first.new + first.copies + first.unchanged + sum(first.rejected.values())


def test_the_same_bytes_are_not_sketched_again(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sketched: list[str] = []

    class RecordingPool(SketchPool):
        def submit(self, task: SketchTask) -> Future[SketchResults]:
            sketched.extend(item.url for item in task.pages)
            return super().submit(task)

    monkeypatch.setattr(ingest_module, "SketchPool", RecordingPool)
    body, url = "<p>" + " ".join(TEXTS[0]), "https://a.org/"
    for name, text in (("one", body), ("two", body + " more"), ("three", body + " more")):
        summary = take(store, tmp_path / f"{name}.jsonl", [html(url, text)], name)
    assert sketched == [url, url]
    assert (summary.unchanged, summary.new) == (1, 0)
    assert View(store).captures(url_key(url))[-1].document


def test_redirects_errors_and_pages_without_words(store: Store, tmp_path: Path) -> None:
    lines = [
        redirect("https://a.org/old", "https://a.org/new", NOW),
        missing("https://a.org/gone", NOW, 410),
        html("https://a.org/empty", " ", NOW),
        html("https://a.org/hop", "<meta http-equiv=refresh content='0;url=/there'>", NOW),
    ]
    done = take(store, tmp_path / "a.jsonl", lines, "one")
    assert (done.pages, done.new, done.rejected, done.redirects_and_errors) == (4, 0, {"no_text": 1}, 3)
    view = View(store)
    captures = {path: view.captures(url_key(f"https://a.org/{path}"))[0] for path in ("old", "gone", "empty", "hop")}
    assert captures["old"].redirect == "https://a.org/new"
    assert captures["gone"].status == 410
    assert captures["hop"].redirect == "https://a.org/there"
    assert all(capture.document is None for capture in captures.values())
    assert letters(store)[0]["url"] == "https://a.org/empty"
    assert sound(store)


def test_a_page_that_became_too_big_is_still_alive(store: Store, tmp_path: Path) -> None:
    custom = settings({"limits": {"page_bytes_max": 1_000}})
    take(store, tmp_path / "1.jsonl", PAGES[:3], "one", custom)
    grown = page("https://a.org/0", "word " * 1_000, NOW + 1)
    done = take(store, tmp_path / "2.jsonl", [grown, *PAGES[1:3]], "two", custom)
    assert (done.pages, done.unchanged, done.rejected, done.redirects_and_errors) == (3, 2, {"too_big": 1}, 0)
    assert letters(store)[0]["url"] == "https://a.org/0"
    assert [c.document is None for c in View(store).captures(url_key("https://a.org/0"))] == [False, True]
    assert Finder(View(store), custom).find("https://a.org/0").status == "alive"
    assert sound(store)


def test_a_page_without_a_time_is_the_same_when_it_is_read_again(store: Store, tmp_path: Path) -> None:
    lines = [{"url": f"https://a.org/{n}", "text": " ".join(TEXTS[n])} for n in range(3)]
    first = jsonl(tmp_path / "1.jsonl", lines)
    again = jsonl(tmp_path / "2.jsonl", lines[::-1])
    for n, path in enumerate((first, again)):
        ingest(store, settings(), [str(path)], "one", now=NOW + 5_000 * n, keep_open=True)
    assert [[c.time for c in View(store).captures(url_key(line["url"]))] for line in lines] == [[NOW]] * 3


def test_a_redirect_to_https_in_the_same_second_does_not_hide_the_page(store: Store, tmp_path: Path) -> None:
    lines = [PAGES[0], redirect("http://a.org/0", "https://a.org/0", NOW)]
    for n, order in enumerate((lines, lines[::-1])):
        take(store, tmp_path / f"{n}.jsonl", order, str(n))
    history = View(store).captures(url_key("https://a.org/0"))
    assert [(c.sweep, c.status) for c in history] == [(1, 301), (1, 200), (2, 301), (2, 200)]
    assert sound(store)


def test_a_page_supplied_twice_counts_once(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "a.jsonl", [PAGES[0], PAGES[1], PAGES[0]], "one", keep_open=True)
    take(store, tmp_path / "b.jsonl", [PAGES[1], PAGES[2]], "two", keep_open=True)
    take(store, tmp_path / "c.jsonl", [PAGES[1]], "one")
    assert sweeps.captures_per_host(store, 1) == {b"org,a)": 2}
    assert sound(store)


def test_late_pages_move_first_seen_back(store: Store, tmp_path: Path) -> None:
    text = " ".join(TEXTS[0])
    take(store, tmp_path / "a.jsonl", [page("https://a.org/", text, NOW)], "one")
    take(store, tmp_path / "b.jsonl", [page("https://a.org/", text, NOW - 5_000)], "two")
    take(store, tmp_path / "c.jsonl", [page("https://b.org/", text, NOW - 9_000)], "three")
    (row,) = [View(store).document(key) for key, _ in store.scan(Family.DOCUMENTS)]
    assert row
    assert row.first_seen == NOW - 9_000
    assert sorted(int.from_bytes(v, "big") for _, v in store.scan(Family.LOCATIONS)) == [NOW - 9_000, NOW - 5_000]


def test_bad_records_are_dead_letters_with_reason_and_position(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    jsonl(path, [PAGES[0], BAD, PAGES[1]])
    path.write_bytes(path.read_bytes() + b"{broken\n" + b'{"url": "https://a.org/x"}\n')
    done = ingest(store, settings(), [str(path)], "one", now=NOW)
    assert (done.pages, done.new, done.rejected) == (5, 2, {"bad_url": 1, "bad_json": 1, "no_content": 1})
    assert [(letter["reason"], letter["offset"], letter["sweep"]) for letter in letters(store)] == [
        ("bad_url", 1, "one"),
        ("bad_json", 3, "one"),
        ("no_content", 4, "one"),
    ]
    assert all(letter["source"] == str(path) for letter in letters(store))
    assert meta.counters(store)["rejected"] == 3


def test_an_ingest_can_stop_at_a_bad_record_and_keep_the_batches_before(store: Store, tmp_path: Path) -> None:
    custom = settings({"ingest": {"batch_pages": 1}})
    with pytest.raises(BadRecord, match=r"a\.jsonl, line 2: bad_url") as stopped:
        take(store, tmp_path / "a.jsonl", [PAGES[0], BAD, PAGES[1]], "one", custom, fail_on_rejected=True)
    assert "fix the input" in stopped.value.hint
    assert len(list(store.scan(Family.CAPTURES))) == 1
    assert letters(store) == []
    done = take(store, tmp_path / "a.jsonl", [PAGES[0], PAGES[2], PAGES[1]], "one", custom, fail_on_rejected=True)
    assert (done.status, done.pages) == ("resumed", 3)
    assert sound(store)


@pytest.mark.parametrize("writes", range(1, 6))
@pytest.mark.parametrize("before", [True, False])
def test_an_ingest_resumes_after_a_stop_at_any_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, before: bool
) -> None:
    """Another input can be ingested in between; its dead letters remain."""
    custom = settings({"ingest": {"batch_pages": 2}})
    lines = [PAGES[0], BAD, PAGES[1], PAGES[2], BAD, PAGES[3], PAGES[4], PAGES[5]]
    other = [page("https://other.org/", "a page of another sweep"), BAD]
    with Store(tmp_path / "plain") as plain:
        sweeps.open_sweep(plain, "one", NOW)
        take(plain, tmp_path / "a.jsonl", lines, "one", custom)
        take(plain, tmp_path / "b.jsonl", other, "two", custom)
        expected = everything(plain)
        expected_letters = letters(plain)
    with Store(tmp_path / "stopped") as store:
        sweeps.open_sweep(store, "one", NOW)
        with monkeypatch.context() as patch:
            stop_after(patch, writes, before=before)
            with pytest.raises(Stop):
                take(store, tmp_path / "a.jsonl", lines, "one", custom)
        take(store, tmp_path / "b.jsonl", other, "two", custom)
        done = take(store, tmp_path / "a.jsonl", lines, "one", custom)
        assert done.committed
        assert done.pages == len(lines)
        assert sound(store)
        rows = everything(store)
        for family in Family:
            if family is not Family.META:
                assert rows[family] == expected[family]
        assert meta.counters(store) == json.loads(expected[Family.META][b"counters"])
        assert sorted(map(str, letters(store))) == sorted(map(str, expected_letters))


def test_a_stopped_run_leaves_no_dead_letters_in_a_new_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state has the length of the deleted file, and the lines of the stopped run are truncated."""
    take(store, tmp_path / "a.jsonl", [PAGES[0], BAD, BAD, BAD], "one")
    (store.path / "dead-letters.jsonl").unlink()
    with monkeypatch.context() as patch:
        stop_after(patch, 1, before=True)
        with pytest.raises(Stop):
            take(store, tmp_path / "b.jsonl", [PAGES[1], *[{"url": "elsewhere"}] * 4], "two")
    take(store, tmp_path / "c.jsonl", [PAGES[2], BAD], "three")
    assert [letter["sweep"] for letter in letters(store)] == ["three"]


def test_batches_of_any_size_give_the_same_state(tmp_path: Path) -> None:
    states = []
    near = set()
    for pages_per_batch in (1, 3, 512):
        with Store(tmp_path / str(pages_per_batch)) as store:
            custom = settings({"ingest": {"batch_pages": pages_per_batch}})
            near.add(take(store, tmp_path / "a.jsonl", PAGES, "one", custom).near_duplicates)
            rows = everything(store)
            rows.pop(Family.META)
            states.append(rows)
    assert states[0] == states[1] == states[2]
    assert near == {1}


def test_opening_a_sweep_twice_is_refused(store: Store) -> None:
    assert open_sweep(store, "one", NOW).number == 1
    with pytest.raises(Exception, match="there is already a sweep 'one'"):
        open_sweep(store, "one", NOW)


def test_pages_without_a_time_get_the_time_of_the_opening(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "a.jsonl", [{"url": "https://a.org/", "text": "some words"}], "one", now=NOW + 7)
    assert View(store).captures(url_key("https://a.org/"))[0].time == NOW + 7


def test_progress_is_reported(store: Store, tmp_path: Path) -> None:
    reports: list[tuple[int, int, int]] = []

    def report(progress: Progress) -> None:
        reports.append((progress.bytes_read, progress.bytes_total, progress.cursor.pages))

    custom = settings({"ingest": {"batch_pages": 2}})
    path = tmp_path / "a.jsonl"
    take(store, path, PAGES, "one", custom, report_progress=report)
    assert [pages for _, _, pages in reports] == [2, 4, 6, 7]
    assert all(0 < read <= size == path.stat().st_size for read, size, _ in reports)


def test_several_processes_give_the_same_state_as_one(tmp_path: Path) -> None:
    lines = [page(f"https://a.org/{n}", " ".join(variant(RNG, TEXTS[n % 5])), NOW + n) for n in range(60)]
    states = []
    for workers in (1, 3):
        with Store(tmp_path / str(workers)) as store:
            many = {"ingest": {"workers": workers, "workers_from_bytes": 0, "batch_pages": 7}}
            take(store, tmp_path / "a.jsonl", [*lines, BAD], "one", settings(many))
            assert sound(store)
            states.append((everything(store), letters(store)))
    assert states[0] == states[1]


def test_texts_and_indexes_are_optional(store: Store, tmp_path: Path) -> None:
    custom = settings({"policy": {"keep_texts": False, "index_find": False}})
    take(store, tmp_path / "a.jsonl", PAGES, "one", custom)
    assert [list(store.scan(family)) for family in (Family.TEXTS, Family.WORDS, Family.SAMPLES)] == [[], [], []]
    assert sound(store)


def test_reached_limits_are_counted(store: Store, tmp_path: Path) -> None:
    rng = random.Random(8)
    lines = [page(f"https://a.org/{n}", " ".join(variant(rng, TEXTS[0])), NOW + n) for n in range(30)]
    custom = settings({"limits": {"bucket_postings_max": 4, "candidates_max": 2, "tokens_max": 120}})
    lines.append(page("https://a.org/long", " ".join(words(rng, 121))))
    take(store, tmp_path / "a.jsonl", lines, "one", custom)
    counters = meta.counters(store)
    assert counters["bucket_postings_max"] > 0
    assert counters["candidates_max"] > 0
    assert counters["tokens_max"] == 1
    assert max(len(value) // 5 for _, value in store.scan(Family.BANDS)) == 4
    assert list(check(store, postings_max=4)) == []


def test_pages_too_expensive_to_parse_are_counted(store: Store, tmp_path: Path) -> None:
    custom = settings({"limits": {"html_tags_max": 100, "html_attributes_max": 400}})
    lines = [
        html("https://a.org/tags", "<p>one two three four five" * 101),
        html("https://a.org/attributes", "<p a b c d e>some words of a page " * 99 + " " * 20_000),
        html("https://a.org/ordinary", "<p>an ordinary page of words " * 50),
    ]
    take(store, tmp_path / "a.jsonl", lines, "one", custom)
    assert meta.counters(store)["html_stripped"] == 2
    assert all(capture.document for capture in View(store).all_captures())

"""Responses that are not pages: scripts, style sheets, images and other files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from state import meta, sweeps
from state.store import Store
from state.view import View
from streams.find import Finder
from streams.find.missing_rule import possibly_missing_urls
from streams.urls import url_key
from tests.samples import NOW, html, page, settings, take
from tests.streams.engine.ingest_samples import PAGES, TEXTS, letters, sound

SCRIPT = " ".join(TEXTS[5])


def response(path: str, mime: str, body: str = SCRIPT, time: int = NOW) -> dict[str, Any]:
    encoded = base64.b64encode(body.encode()).decode()
    return {"url": f"https://a.org/{path}", "fetch_time": time, "mime": mime, "body_base64": encoded}


FILES = [
    response("jquery-3.5.1.js", "text/javascript; charset=UTF-8"),
    response("style.css?v=1", "Text/CSS"),
    response("old.js", "text/plain"),
    response("bundle.js", ""),
    response("logo", "image/png", "\x89PNG"),
    response("manual", "application/pdf", "%PDF-1.7"),
    response("feed", "application/xml", "<rss><channel>" + SCRIPT),
    response("data", "application/json", "{}"),
]


def test_files_are_counted_and_stored_without_text_or_dead_letter(store: Store, tmp_path: Path) -> None:
    done = take(store, tmp_path / "a.jsonl", [*FILES, PAGES[0]], "one")
    assert (done.pages, done.new, done.not_pages, done.rejected) == (len(FILES) + 1, 1, len(FILES), {})
    assert done.redirects_and_errors == 0
    assert letters(store) == []
    for line in FILES:
        (capture,) = View(store).captures(url_key(line["url"]))
        assert (capture.document, capture.status) == (None, 200)
    (sweep,) = sweeps.all_sweeps(store)
    assert sweep.captures == len(FILES) + 1
    counters = meta.counters(store)
    assert (counters["not_pages"], counters["rejected"]) == (len(FILES), 0)
    assert sound(store)


def test_a_script_that_vanished_or_moved_is_not_missing(store: Store, tmp_path: Path) -> None:
    """jquery-3.5.1.js was said to have moved to jquery.js."""
    take(store, tmp_path / "1.jsonl", [FILES[0], *PAGES[:3]], "one")
    later = [{**line, "fetch_time": NOW + 9} for line in [response("jquery.js", "text/javascript"), *PAGES[:2]]]
    take(store, tmp_path / "2.jsonl", later, "two")
    finder = Finder(View(store), settings())
    missing = [url for url in possibly_missing_urls(View(store), 6) if finder.find(url).status != "alive"]
    assert missing == [PAGES[2]["url"]]
    assert finder.find("https://a.org/jquery-3.5.1.js").status == "gone"


def test_a_page_that_became_a_file_is_alive(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "1.jsonl", [html("https://a.org/manual", SCRIPT), PAGES[0]], "one")
    take(store, tmp_path / "2.jsonl", [response("manual", "application/pdf", "%PDF", NOW + 9), PAGES[0]], "two")
    assert Finder(View(store), settings()).find("https://a.org/manual").status == "alive"


def test_an_added_media_type_is_a_page_until_it_is_removed(store: Store, tmp_path: Path) -> None:
    adding = settings({"policy": {"media_types": ["text/javascript"]}})
    lines = [FILES[0], PAGES[0]]
    counts = []
    for name, wanted in (("one", None), ("two", adding), ("three", adding), ("four", None)):
        lines = [{**line, "fetch_time": line["fetch_time"] + 1} for line in lines]
        done = take(store, tmp_path / f"{name}.jsonl", lines, name, wanted)
        counts.append((done.new, done.unchanged, done.not_pages))
    assert counts == [(1, 0, 1), (1, 1, 0), (0, 2, 0), (0, 1, 1)]
    assert sound(store)


@pytest.mark.parametrize("mime", ["", "text/plain", "application/pdf"])
def test_items_with_a_text_are_pages(store: Store, tmp_path: Path, mime: str) -> None:
    done = take(store, tmp_path / "a.jsonl", [page("https://a.org/x", SCRIPT, mime=mime)], "one")
    assert (done.new, done.not_pages) == (1, 0)


def test_a_script_is_not_a_bad_record(store: Store, tmp_path: Path) -> None:
    done = take(store, tmp_path / "a.jsonl", [*FILES, PAGES[0]], "one", fail_on_rejected=True)
    assert done.not_pages == len(FILES)


def test_an_input_may_resume_within_scripts(store: Store, tmp_path: Path) -> None:
    """Scripts after the first page are committed with their own batches."""
    small = settings({"ingest": {"batch_pages": 2}})
    take(store, tmp_path / "a.jsonl", [PAGES[0], *FILES], "one", small, keep_open=True)
    done = take(store, tmp_path / "a.jsonl", [PAGES[0], *FILES, FILES[0] | {"fetch_time": NOW + 5}], "one", small)
    assert (done.status, done.pages_read, done.not_pages) == ("resumed", 1, len(FILES) + 1)
    assert sound(store)

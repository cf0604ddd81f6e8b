"""URLs that differ from a captured URL only by tracking parameters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from state.store import Store
from state.view import View
from streams.settings import load
from streams.tracking_parameters import known_key, without_tracking_parameters
from streams.urls import key_url, url_key
from tests.samples import NOW, page, take

SITE = "https://a.org"
PATTERNS = load().find.tracking_parameters


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/a?utm_source=x", "/a"),
        ("/a?id=3&utm_source=x&utm_campaign=%20&fbclid=1", "/a?id=3"),
        ("/a?gclid=1&id=3&page=2&mc_cid", "/a?id=3&page=2"),
        ("/a?utm_source", "/a"),
        ("/a?", "/a"),
        ("/a?id=3", "/a?id=3"),
        ("/a?utm=3&my_fbclid=1&fbclid2=&id=utm_source", "/a?utm=3&my_fbclid=1&fbclid2=&id=utm_source"),
        ("/utm_source=x", "/utm_source=x"),
        ("/a?x=1&&y=2", "/a?x=1&&y=2"),
    ],
)
def test_only_tracking_parameters_are_removed(url: str, expected: str) -> None:
    key = without_tracking_parameters(url_key(SITE + url), PATTERNS)
    assert key == url_key(SITE + expected)
    assert without_tracking_parameters(key, PATTERNS) == key


def test_without_patterns_nothing_is_removed() -> None:
    key = url_key(f"{SITE}/a?utm_source=x")
    assert without_tracking_parameters(key, []) == key


def view_of(store: Store, folder: Path, *urls: str) -> View:
    """Return a view of a sweep that captured these URLs, one after another."""
    lines = [page(SITE + url, f"the words of {url}", NOW - 10_000 + n) for n, url in enumerate(urls)]
    take(store, folder / "pages.jsonl", lines, "one")
    return View(store)


@pytest.mark.parametrize(
    ("captured", "requested", "expected"),
    [
        (["/a"], "/a?utm_source=x&fbclid=y", "/a"),
        (["/a"], "/a", None),
        (["/a?utm_source=x"], "/a", "/a?utm_source=x"),
        (["/a?utm_source=x"], "/a?gclid=1", "/a?utm_source=x"),
        (["/a?utm_source=x", "/a"], "/a?gclid=1", "/a"),
        (["/a?utm_source=x", "/a?fbclid=1", "/a?gclid=1"], "/a", "/a?gclid=1"),  # the most recent one
        (["/a?id=3&utm_source=x"], "/a?id=3", "/a?id=3&utm_source=x"),
        (["/a?utm_source=x&id=3"], "/a?id=3", "/a?utm_source=x&id=3"),
        (["/a?id=3&utm_source=x"], "/a?utm_medium=y&id=3", "/a?id=3&utm_source=x"),
        (["/a?id=4&utm_source=x", "/a?id=4"], "/a?id=3", None),
        (["/a?utm_source=x&id=4"], "/a?id=3", None),
        (["/a?id=3"], "/a?utm_source=x", None),
        (["/a?id=3"], "/a", None),
        (["/ab?utm_source=x", "/a/?utm_source=x"], "/a", None),
        ([], "/a?utm_source=x", None),
    ],
)
def test_the_captured_url(
    store: Store, tmp_path: Path, captured: list[str], requested: str, expected: str | None
) -> None:
    view = view_of(store, tmp_path, "/other", *captured)
    key = known_key(view, url_key(SITE + requested), PATTERNS)
    assert (key_url(key) if key else None) == (SITE + expected if expected else None)


def test_random_queries_are_found_by_their_other_parameters(store: Store, tmp_path: Path) -> None:
    rng = random.Random(5)
    others = [f"id={n}" for n in range(20)]
    captured = {
        other: f"/a?{'&'.join([other, 'utm_source=s', 'fbclid=1'][: rng.randrange(1, 4)])}" for other in others
    }
    view = view_of(store, tmp_path, *captured.values())
    for other, url in captured.items():
        requested = [other, *rng.sample(["utm_campaign=c", "gclid=2", "yclid="], 2)]
        rng.shuffle(requested)
        assert known_key(view, url_key(f"{SITE}/a?{'&'.join(requested)}"), PATTERNS) == url_key(SITE + url)


def test_the_number_of_captures_read_is_limited(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_of(store, tmp_path, *(f"/a?utm_source={n}&id={n}" for n in range(200)))
    read: list[int] = []
    original = store.keys_under

    def count(*arguments: object) -> list[list[bytes]]:
        rows: list[list[bytes]] = original(*arguments)  # type: ignore[arg-type]
        read.append(sum(map(len, rows)))
        return rows

    monkeypatch.setattr(store, "keys_under", count)
    assert known_key(view, url_key(f"{SITE}/a?id=77"), ["utm_*"]) is None
    assert read == [32]


def test_wildcards_may_begin_a_pattern(store: Store, tmp_path: Path) -> None:
    view = view_of(store, tmp_path, "/a?partner_clid=7")
    assert known_key(view, url_key(f"{SITE}/a"), ["*_clid"]) == url_key(f"{SITE}/a?partner_clid=7")

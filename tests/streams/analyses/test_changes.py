"""Tests of streams/analyses/changes."""

from __future__ import annotations

import random
from math import log
from pathlib import Path

import pytest

from streams.analyses.changes.compute_changes import Change, compute_host_changes, compute_page_changes
from streams.settings import load
from streams.sketch.sketcher import Sketcher, compare
from tests.analysis_data import NOW, Page, open_data_set, page, page_hash, prose, write_data_set

SITE, OTHER, DAY = "https://docs.example.org:8443", "https://other.example", 86_400_000
SWEEPS = {1: "one", 2: "two", 4: "four"}


def variants(url: str, *parts: int) -> list[str]:
    """Return texts of which the first `parts` words of ten come from the page, and the others from the version."""
    return [
        f"{prose(url, words=30 * part)} {prose(url, version, words=300 - 30 * part)}"
        for version, part in enumerate(parts)
    ]


def site() -> list[Page]:
    pages = []
    for n in range(10):
        url = f"{SITE}/p{n}"
        first, second = variants(url, 10, 10 - n)
        pages += [
            page(url, first, sweep=1, time=NOW),
            page(url, second, sweep=2, time=NOW + 10 * DAY),
            page(url, first if n < 5 else second, sweep=4, time=NOW + 40 * DAY),
        ]
    return [
        *pages,
        page(f"{SITE}/only-one", prose("one"), sweep=1),
        page(f"{SITE}/only-two", prose("two"), sweep=2),
        page(f"{SITE}/error", prose("three"), sweep=1),
        page(f"{SITE}/error", prose("an error"), sweep=2, status=500),
        page(f"{SITE}/redirect", sweep=2, status=301),
        page(f"{SITE}/p1/index.html", prose("skipped"), sweep=3),
        page(f"{OTHER}/", prose("other"), sweep=1),
        page(f"{OTHER}/", prose("other"), sweep=4),
    ]


@pytest.mark.parametrize(("parts", "seed"), [(1, 0), (3, 1)])
def test_changes_of_hosts(tmp_path: Path, parts: int, seed: int) -> None:
    with open_data_set(write_data_set(tmp_path, site(), parts=parts, seed=seed)) as engine:
        changes = compute_host_changes(engine, SWEEPS)
    docs = [change for change in changes if change.host == "docs.example.org:8443"]
    assert [(c.previous, c.sweep, c.pages, c.unchanged, c.changed, c.new, c.vanished) for c in docs] == [
        ("one", "two", 10, 1, 9, 1, 2),
        ("two", "four", 10, 6, 4, 0, 1),
    ]
    assert [change.days for change in docs] == [10, 30]
    assert docs[0].half_life_days == pytest.approx(10 * log(2) / -log(1.5 / 10.5), abs=1e-3)
    sketcher = Sketcher(load().scheme)
    expected = sorted(
        compare(*(sketcher.sketch(text) for text in variants(f"{SITE}/p{n}", 10, 10 - n))).resemblance
        for n in range(1, 10)
    )
    assert docs[0].resemblance == pytest.approx(expected, abs=1e-4)  # nine changed pages have exactly these deciles
    (other,) = [change for change in changes if change.host == "other.example"]
    assert (other.previous, other.sweep, other.unchanged, other.changed) == ("one", "four", 1, 0)
    assert (other.resemblance, other.half_life_days) == ([], None)


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    results = []
    for seed in range(3):
        folder = tmp_path / str(seed)
        with open_data_set(write_data_set(folder, site(), parts=1 + seed, seed=seed)) as engine:
            results.append(compute_host_changes(engine, SWEEPS))
    assert results[0] == results[1] == results[2]


def test_changes_of_a_page(tmp_path: Path) -> None:
    url = f"{SITE}/p3"
    with open_data_set(write_data_set(tmp_path, site())) as engine:
        first, second = compute_page_changes(engine, SWEEPS, page_hash(url), url)
        (vanished,) = compute_page_changes(engine, SWEEPS, page_hash(f"{SITE}/only-one"), url)
        assert compute_page_changes(engine, SWEEPS, page_hash(f"{SITE}/unknown"), url) == []
    assert (first.url, first.host, first.pages, first.changed, len(set(first.resemblance))) == (url, None, 1, 1, 1)
    assert (second.sweep, second.changed) == ("four", 1)
    assert (vanished.pages, vanished.vanished) == (0, 1)


def test_times_out_of_order_give_no_half_life(tmp_path: Path) -> None:
    pages = [page(f"{SITE}/", prose("b"), sweep=1, time=NOW), page(f"{SITE}/", prose("a"), sweep=2, time=NOW - DAY)]
    with open_data_set(write_data_set(tmp_path, pages)) as engine:
        (change,) = compute_host_changes(engine, {1: "one", 2: "two"})
    assert (change.changed, change.days, change.half_life_days) == (1, -1, None)


def test_deciles_of_random_resemblances_are_ranked(tmp_path: Path) -> None:
    rng = random.Random(5)
    pages = []
    for n in range(37):
        old, new = variants(f"{SITE}/{n}", 10, rng.randrange(1, 10))
        pages += [page(f"{SITE}/{n}", old), page(f"{SITE}/{n}", new, sweep=2)]
    with open_data_set(write_data_set(tmp_path, pages)) as engine:
        (change,) = compute_host_changes(engine, {1: "one", 2: "two"})
    assert isinstance(change, Change)
    assert change.resemblance == sorted(change.resemblance)
    assert len(change.resemblance) == 9

"""Duplicates: which URL represents a cluster, and what each other URL has in common with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.store import Store
from state.view import View
from streams import query
from streams.query.clusters import clusters
from tests.samples import NOW, Line, begin_cancel, missing, page, take
from tests.streams.query.conftest import SETTINGS, containment, resemblance, text_of

A, B, C, LONE = (f"https://{name}.example/" for name in ("a", "b", "c", "lone"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "data", SETTINGS.store, create_if_missing=True) as store:
        yield store


def ingest(store: Store, tmp_path: Path, *sweeps: list[Line]) -> View:
    for number, lines in enumerate(sweeps):
        take(store, tmp_path / f"{number}.jsonl", lines, str(number), SETTINGS)
    return View(store)


def kinds(view: View, **options: bool) -> dict[str, tuple[str, str]]:
    return {d.url: (d.representative, d.kind) for d in query.duplicates(view, **options)}


def test_identical_and_near_copies_are_compared_with_the_page_captured_first(store: Store, tmp_path: Path) -> None:
    view = ingest(
        store,
        tmp_path,
        [
            page(C, text_of("base"), NOW),
            page(A, text_of("base"), NOW + 1),
            page(B, text_of("near"), NOW + 2),
            page(LONE, text_of("lone"), NOW),
        ],
    )
    rows = {row.url: row for row in query.duplicates(view)}
    assert {url: (row.representative, row.kind) for url, row in rows.items()} == {
        A: (C, "identical"),
        B: (C, "near"),
    }
    assert (rows[A].resemblance, rows[A].containment, rows[A].contained) == (1.0, 1.0, 1.0)
    assert rows[B].resemblance == pytest.approx(resemblance("near", "base"))
    assert rows[B].containment == pytest.approx(containment("near", "base"))
    assert rows[B].contained == pytest.approx(containment("base", "near"))
    everything = kinds(view, include_representatives=True)
    assert everything == {
        **kinds(view),
        C: (C, "representative"),
        LONE: (LONE, "representative"),
    }


def test_earlier_versions_of_a_page_are_not_duplicates(store: Store, tmp_path: Path) -> None:
    view = ingest(store, tmp_path, [page(A, text_of("base"), NOW)], [page(A, text_of("near"), NOW + 1)])
    assert len(list(clusters(view))) == 1
    assert kinds(view) == {}


def test_a_url_counts_once_with_its_last_document(store: Store, tmp_path: Path) -> None:
    view = ingest(
        store,
        tmp_path,
        [page(A, text_of("base"), NOW), page(B, text_of("base"), NOW + 1)],
        [page(A, text_of("near"), NOW + 2), page(B, text_of("lone"), NOW + 3), page(C, text_of("base"), NOW + 4)],
    )
    assert kinds(view) == {C: (A, "near")}


@pytest.mark.parametrize("second", [[missing(A, NOW + 9)], []])
def test_a_page_that_is_still_there_represents_one_that_is_not(
    store: Store, tmp_path: Path, second: list[Line]
) -> None:
    first = [page(A, text_of("base"), NOW), page(f"{A}new", text_of("base"), NOW + 1)]
    view = ingest(store, tmp_path, first, [*second, page(f"{A}new", text_of("base"), NOW + 8)])
    assert kinds(view) == {A: (f"{A}new", "identical")}


def test_many_urls_and_documents_are_read_in_batches(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [page(f"{A}{n}", text_of(("base", "near", "far")[n % 3]), NOW + n) for n in range(20)]
    view = ingest(store, tmp_path, pages)
    expected = kinds(view)
    assert len(expected) == 19
    monkeypatch.setattr(sys.modules[query.Duplicate.__module__], "_ROWS_PER_READ", 2)
    monkeypatch.setattr(sys.modules[query.Duplicate.__module__], "_LOCATIONS_PER_READ", 3)
    assert kinds(view) == expected


def test_pages_of_a_sweep_that_is_being_cancelled_are_ignored(store: Store, tmp_path: Path) -> None:
    view = ingest(
        store,
        tmp_path,
        [page(A, text_of("base"), NOW), page(B, text_of("near"), NOW + 1)],
        [page(C, text_of("base"), NOW + 2)],
    )
    assert kinds(view) == {B: (A, "near"), C: (A, "identical")}
    begin_cancel(store, view.sweeps()[1])
    view.refresh()
    assert kinds(view) == {B: (A, "near")}

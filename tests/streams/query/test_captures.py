"""The history of a URL."""

from __future__ import annotations

import random
from pathlib import Path

from state.store import Store
from state.view import View
from streams import query
from streams.query import resolve
from tests.samples import NOW, page, take, variant, words
from tests.streams.query.conftest import (
    IDS,
    SETTINGS,
    URL,
    text_of,
)


def test_captures_compare_a_document_with_the_previous_one(view: View) -> None:
    history = query.captures(view, URL.format("base"))
    assert [(v.sweep, v.status, v.document, v.resemblance) for v in history] == [
        ("one", 200, IDS["base"].hex(), None),
        ("two", 200, IDS["lone"].hex(), 0.0),
    ]
    assert [v.resemblance for v in query.captures(view, URL.format("far"))] == [None, 1.0]
    assert [(v.status, v.redirect) for v in query.captures(view, URL.format("near"))] == [
        (200, None),
        (301, URL.format("base")),
    ]
    assert query.captures(view, "https://a.org/never") == []


def test_a_page_with_one_changed_word_has_a_resemblance_below_one(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [words(rng, 6_000)]
    for _ in range(5):
        texts.append(variant(rng, texts[-1]))
    texts.append(texts[-1])
    with Store(tmp_path / "state") as store:
        for n, text in enumerate(texts):
            captured = page(URL.format("long"), " ".join(text), NOW + n)
            take(store, tmp_path / f"{n}.jsonl", [captured], f"sweep {n}")
        history = query.captures(View(store), URL.format("long"))
    assert [version.resemblance == 1.0 for version in history] == [False] * 6 + [True]
    assert all(0.98 < version.resemblance <= 1.0 for version in history if version.resemblance is not None)


def test_different_texts_with_the_same_shingles_have_a_resemblance_below_one(tmp_path: Path) -> None:
    texts = ["a b c d " * 2, "a b c d " * 3]
    with Store(tmp_path / "state") as store:
        for n, text in enumerate(texts):
            take(store, tmp_path / f"{n}.jsonl", [page(URL.format("x"), text, NOW + n)], f"sweep {n}")
        first, second = query.captures(View(store), URL.format("x"))
    assert first.document != second.document
    assert second.resemblance is not None
    assert second.resemblance < 1.0


def test_captures_are_in_the_order_of_sweeps(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page(URL.format("x"), text_of("base"), NOW + 100)], "later", SETTINGS)
        take(store, tmp_path / "2.jsonl", [page(URL.format("x"), text_of("lone"), NOW)], "earlier", SETTINGS)
        view = View(store)
        assert [version.sweep for version in query.captures(view, URL.format("x"))] == ["later", "earlier"]
        assert resolve(view, URL.format("x")) == IDS["lone"], "the last sweep has the current document"


def test_a_sweep_newer_than_the_view_is_not_shown(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page(URL.format("x"), text_of("base"), NOW)], "one", SETTINGS)
        view = View(store)
        take(store, tmp_path / "2.jsonl", [page(URL.format("x"), text_of("lone"), NOW + 1)], "two", SETTINGS)
        assert [version.sweep for version in query.captures(view, URL.format("x"))] == ["one"]
        view.refresh()
        assert [version.sweep for version in query.captures(view, URL.format("x"))] == ["one", "two"]

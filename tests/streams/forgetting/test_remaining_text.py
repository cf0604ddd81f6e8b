"""A stored title and text are removed with their page, unless another page has the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from state import sweeps
from state.families import Family
from state.store import Store
from state.view import View
from streams.forgetting import cancel_sweep, commit_removals, forget_url
from streams.urls import url_key
from tests.samples import NOW, page, settings, take
from tests.streams.forgetting.chains import SETTINGS, SKETCHER, is_sound, rows_by_family


class TestRemainingTexts:
    """Pages with the same words are one document, whatever their titles and capitals are."""

    TEXT = "A Page that every Crawl finds, with its own capitals and signs."
    URLS = ("https://a.org/x", "https://spam.org/y")

    def stored(self, store: Store) -> tuple[str, str]:
        (title_and_text,) = View(store).titles_and_texts([SKETCHER.sketch(self.TEXT).document])
        assert title_and_text is not None
        return title_and_text

    def add_page(self, store: Store, tmp_path: Path, number: int, sweep: str, title: str, text: str = TEXT) -> None:
        line = page(self.URLS[number], text, NOW + number, title=title)
        take(store, tmp_path / f"{sweep}.jsonl", [line], sweep, SETTINGS)

    @pytest.mark.parametrize("n", range(6))
    def test_a_cancelled_sweep_leaves_no_title(self, store: Store, tmp_path: Path, n: int) -> None:
        self.add_page(store, tmp_path, 0, "one", "Good title")
        before = rows_by_family(store)[Family.TEXTS]
        self.add_page(store, tmp_path, 1, "two", f"BUY PILLS {n}", self.TEXT.upper())
        cancelled = sweeps.named(store, "two")
        assert cancelled
        commit_removals(cancel_sweep(store, cancelled), store.write)
        assert rows_by_family(store)[Family.TEXTS] == before
        assert self.stored(store) == ("Good title", self.TEXT)

    def test_the_text_keeps_the_time_of_its_page(self, store: Store, tmp_path: Path) -> None:
        """The same bytes are removed elsewhere; the text would otherwise depend on which pages arrive later."""
        urls_and_times = [(self.URLS[1], NOW), (self.URLS[0], NOW + 5)]
        take(store, tmp_path / "1", [page(url, self.TEXT, time) for url, time in urls_and_times], "one", SETTINGS)
        before = rows_by_family(store)[Family.TEXTS]
        take(store, tmp_path / "2", [page("https://b.org/z", self.TEXT, NOW + 9)], "two", SETTINGS)
        cancelled = sweeps.named(store, "two")
        assert cancelled
        commit_removals(cancel_sweep(store, cancelled), store.write)
        assert rows_by_family(store)[Family.TEXTS] == before

    @pytest.mark.parametrize("forget", [True, False])
    def test_the_folded_text_remains_when_the_first_page_is_removed(
        self, store: Store, tmp_path: Path, forget: bool
    ) -> None:
        self.add_page(store, tmp_path, 0, "one", "SECRET", self.TEXT.upper())
        self.add_page(store, tmp_path, 1, "two", "Good title")
        if forget:
            commit_removals(forget_url(store, url_key(self.URLS[0])), store.write)
        else:
            commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
        assert self.stored(store) == ("", SKETCHER.canonical_text(self.TEXT))
        assert is_sound(store)
        self.add_page(store, tmp_path, 0, "three", "Another title")
        assert self.stored(store) == ("Another title", self.TEXT), "a new page supplies its title and text"

    def test_the_text_remains_if_another_page_has_the_same_bytes(self, store: Store, tmp_path: Path) -> None:
        self.add_page(store, tmp_path, 0, "one", "Title")
        self.add_page(store, tmp_path, 1, "two", "Title")
        commit_removals(forget_url(store, url_key(self.URLS[0])), store.write)
        with Store(tmp_path / "plain") as plain:
            self.add_page(plain, tmp_path, 1, "two", "Title")
            assert rows_by_family(store)[Family.TEXTS] == rows_by_family(plain)[Family.TEXTS]

    def test_the_title_is_removed_if_no_other_page_has_it(self, store: Store, tmp_path: Path) -> None:
        self.add_page(store, tmp_path, 0, "one", "SECRET")
        self.add_page(store, tmp_path, 1, "two", "Title")
        commit_removals(forget_url(store, url_key(self.URLS[0])), store.write)
        assert self.stored(store)[0] == ""

    def test_text_beyond_tokens_max_is_removed_with_its_page(self, store: Store, tmp_path: Path) -> None:
        short = settings({"limits": {"tokens_max": 5}})
        for number, end in enumerate(("of mine", "of yours")):
            line = page(self.URLS[number], f"words that all pages have {end}", NOW + number)
            take(store, tmp_path / "a.jsonl", [line], f"{number}", short)
        commit_removals(forget_url(store, url_key(self.URLS[0])), store.write)
        ((_, value),) = store.scan(Family.TEXTS)
        assert View(store).decode_text(value) == ("", "words that all pages have")

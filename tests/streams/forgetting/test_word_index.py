"""The entries of the word index are deleted with the last URL of a site that adds them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from state import sweeps
from state.families import Family
from state.store import Store
from streams.forgetting import cancel_sweep, commit_removals, forget_url
from streams.urls import url_key
from tests.samples import NOW, page, settings, take, words
from tests.streams.forgetting.chains import CHAIN, IDS, is_sound, rows_by_family


@pytest.mark.parametrize("keep_texts", [True, False])
def test_the_words_of_a_site_are_deleted_with_its_last_url(store: Store, tmp_path: Path, keep_texts: bool) -> None:
    """With a stored text they are computed again, without one the index is searched."""
    custom = settings({"policy": {"keep_texts": keep_texts}})
    text = CHAIN[0]
    lines = [
        page("https://a.org/cookbook/routing.html", text),
        page("https://a.org/book/forms.html", text),
        page("https://b.net/mirror.html", text),
        page("https://a.org/other.html", CHAIN[6]),
    ]
    take(store, tmp_path / "a.jsonl", lines, "one", custom)
    sites = {key[:4] for key, _ in store.scan(Family.WORDS)}
    assert len(sites) == 2
    everywhere = {key for key, _ in store.scan(Family.WORDS) if key[8:] == IDS[0][:5]}
    commit_removals(forget_url(store, url_key(lines[0]["url"])), store.write)
    remaining = {key for key, _ in store.scan(Family.WORDS) if key[8:] == IDS[0][:5]}
    assert (remaining < everywhere) == keep_texts, "the words of the path are deleted if the text is stored"
    commit_removals(forget_url(store, url_key(lines[2]["url"])), store.write)
    assert len({key[:4] for key, _ in store.scan(Family.WORDS)}) == 1
    commit_removals(forget_url(store, url_key(lines[1]["url"])), store.write)
    assert {key[8:] for key, _ in store.scan(Family.WORDS)} == {IDS[6][:5]}
    assert is_sound(store)


def test_words_that_differ_from_the_stored_text_are_searched(store: Store, tmp_path: Path) -> None:
    """The words of a text that was cut at another `tokens_max` differ from those of the stored text."""
    text = " ".join(words(random.Random(3), 900))
    take(
        store,
        tmp_path / "a.jsonl",
        [page("https://a.org/long", text)],
        "one",
        settings({"limits": {"tokens_max": 300}}),
    )
    assert list(store.scan(Family.WORDS))
    commit_removals(forget_url(store, url_key("https://a.org/long")), store.write)
    assert list(store.scan(Family.WORDS)) == []


def test_one_spelling_of_a_url_is_removed_and_another_remains(store: Store, tmp_path: Path) -> None:
    """The two spellings have different page names in the index."""
    spelled = ("https://a.org/dir/é-parent", "https://a.org/dir/%C3%A9-parent")
    take(store, tmp_path / "a.jsonl", [page(spelled[0], CHAIN[0], NOW)], "one")
    other = [page(spelled[1], CHAIN[0].upper(), NOW - 5)]
    take(store, tmp_path / "b.jsonl", other, "two")
    with Store(tmp_path / "plain") as plain:
        take(plain, tmp_path / "b.jsonl", other, "two")
        expected = rows_by_family(plain)[Family.WORDS]
    commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
    assert rows_by_family(store)[Family.WORDS] == expected
    commit_removals(forget_url(store, url_key(spelled[0])), store.write)
    assert rows_by_family(store)[Family.WORDS] == {}
    assert is_sound(store)

"""The similarity of stored texts, and the samples of sites."""

from __future__ import annotations

import numpy as np
import pytest

from streams.find import text_similarity
from streams.find.text_similarity import OldText, SiteStatistics, TextFeatureCache, sample_site
from streams.sketch.sketcher import Sketcher
from streams.urls import host_prefix, url_key

SITE = "https://site.example"


@pytest.fixture
def compare(view, text):
    pages = {f"{SITE}/{name}": "All of the menu is on all of the pages. " + text(name) for name in "abcdefgh"}
    view.add(pages)
    texts = TextFeatureCache(view, Sketcher(view.scheme))
    site = SiteStatistics(sample_site(view, host_prefix(url_key(SITE)), 64, 1), texts, 1)

    def compare_texts(one: str, other: str):
        return OldText(texts.compute("", one), site, 1, texts).compare(other.encode(), texts.compute("", other))

    return compare_texts


def test_identical_texts_are_fully_similar(compare, text):
    similarity = compare(text("yew"), text("yew"))
    assert similarity[:2] == (1.0, 1.0)
    assert similarity.cosine == pytest.approx(1.0)
    assert similarity.title == pytest.approx(1.0)


def test_a_menu_counts_for_little(compare):
    menu = "All of the menu is on all of the pages. "
    similarity = compare(menu + "short news", menu + "other story")
    assert similarity.containment > 0.5
    assert similarity.rare_containment < 0.3


def test_a_longer_text_contains_a_text_folded_into_it(compare, text):
    similarity = compare(text("yew", 10), text("elm") + " " + text("yew", 10))
    assert similarity.containment > 0.95
    assert similarity.resemblance < 0.4


def test_texts_without_common_words_and_empty_texts(compare, text):
    assert compare(text("yew"), "") == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert compare("", text("yew")).cosine == 0.0


def test_statistics_of_an_empty_sample_are_finite(view):
    site = SiteStatistics([], TextFeatureCache(view, Sketcher(view.scheme)), 1)
    assert np.isfinite(site.idf(np.arange(3, dtype=np.uint32))).all()


def test_a_large_site_is_sampled_in_all_its_folders(view, monkeypatch):
    """Files at the root do not end the walk over the folders."""
    root = {f"{SITE}/{n:03}.html": "x y" for n in range(40)}
    view.add({**root, **{f"{SITE}/{name}/{n}": f"{name} {n}" for name in "abc" for n in range(40)}})
    monkeypatch.setattr(text_similarity, "_SCAN_CAPTURES_MAX", 16)
    monkeypatch.setattr(text_similarity, "_DIRECTORY_CAPTURES", 16)
    sample = sample_site(view, host_prefix(url_key(SITE)), 8, 1)
    urls = sample_site(view, host_prefix(url_key(SITE)), 64, 1)
    assert len(sample) >= 8
    assert {captures[0].url.split("/")[3] for captures in urls} >= {"a", "b", "c"}


def test_a_large_site_is_sampled_over_its_folders(view, monkeypatch):
    monkeypatch.setattr(text_similarity, "_SCAN_CAPTURES_MAX", 512)
    view.add({f"{SITE}/{folder:02}/{n:03}": f"page {folder} {n}" for folder in range(50) for n in range(20)})
    chosen = sample_site(view, host_prefix(url_key(SITE)), 400, 1)
    folders = {captures[0].key.split(b"/")[1] for captures in chosen}
    assert len(chosen) == 400
    assert len(folders) > 40


def test_a_site_with_many_sweeps_is_sampled_like_one_with_few(view):
    pages = {f"{SITE}/{folder:02}/{n}": f"page {folder} {n}" for folder in range(50) for n in range(3)}
    for _ in range(30):
        view.add(pages)
    chosen = sample_site(view, host_prefix(url_key(SITE)), 40, 30)
    assert len(chosen) == 40
    assert all(len(captures) == 30 for captures in chosen)


def test_most_urls_of_a_sample_are_in_the_last_sweep(view):
    view.add({f"{SITE}/old/{n}": f"old {n}" for n in range(90)}).add({f"{SITE}/new/{n}": f"n {n}" for n in range(30)})
    chosen = sample_site(view, host_prefix(url_key(SITE)), 20, 2)
    assert sum(captures[-1].sweep == 2 for captures in chosen) >= 15


def test_an_unknown_host_has_an_empty_sample(view):
    assert sample_site(view, b"e,x)", 10, 1) == []

"""The similarity of stored texts."""

from __future__ import annotations

import numpy as np
import pytest

from streams.find.site_sample import sample_site
from streams.find.text_similarity import OldText, SiteStatistics, TextFeatureCache
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


def test_the_same(compare, text):
    similarity = compare(text("yew"), text("yew"))
    assert similarity[:2] == (1.0, 1.0)
    assert similarity.cosine == pytest.approx(1.0)
    assert similarity.title == pytest.approx(1.0)


def test_a_menu_counts_for_little(compare):
    menu = "All of the menu is on all of the pages. "
    similarity = compare(menu + "short news", menu + "other story")
    assert similarity.containment > 0.5
    assert similarity.rare_containment < 0.3


def test_folded_in(compare, text):
    similarity = compare(text("yew", 10), text("elm") + " " + text("yew", 10))
    assert similarity.containment > 0.95
    assert similarity.resemblance < 0.4


def test_nothing_in_common_and_nothing_at_all(compare, text):
    assert compare(text("yew"), "") == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert compare("", text("yew")).cosine == 0.0


def test_statistics_of_an_empty_sample_are_finite(view):
    site = SiteStatistics([], TextFeatureCache(view, Sketcher(view.scheme)), 1)
    assert np.isfinite(site.idf(np.arange(3, dtype=np.uint32))).all()

"""URLs that no sweep captured, but to which pages link."""

from __future__ import annotations

import pytest

from streams.find.never_seen import confidence
from tests.streams.find.conftest import best, kinds

SITE = "https://site.example"
LOST = f"{SITE}/p/4711"
SOURCES = [f"{SITE}/source{n}.html" for n in range(4)]


@pytest.fixture
def linked(view, pages, text):
    """Four pages link to a URL that was never captured, in the middle of a list of other things."""
    line = "\nFor the pruning of larch trees in winter see Larch care, written by the gardeners.\n"
    sources = {url: text(f"source{n}") + line + text(f"other{n}") for n, url in enumerate(SOURCES)}
    view.add({**pages, **sources})
    for source in SOURCES:
        view.link(source, (LOST, "Larch care"), (f"{SITE}/", "Home"))
    return view


def test_the_words_of_the_links_find_a_page(linked, finder):
    answer = finder(linked).find(LOST)
    assert (answer.status, answer.last_seen, answer.document) == ("never_seen", None, None)
    assert best(answer).url == f"{SITE}/trees/larch.html"
    (evidence,) = best(answer).evidence
    assert (evidence.kind, evidence.pages, evidence.anchor) == ("anchors", 4, "larch care")
    assert 0 < best(answer).confidence < 0.85


def test_the_words_around_the_anchor_count_if_the_anchor_says_nothing(view, finder, pages, text):
    line = "\nThe larch trees: here.\n"
    view.add({**pages, SOURCES[0]: text("source") + line + text("other")}).link(SOURCES[0], (LOST, "here"))
    assert best(finder(view).find(LOST)).url == f"{SITE}/trees/larch.html"


def test_an_anchor_inside_a_longer_word_has_no_context(view, finder, pages, text):
    line = "\nThe atmosphere of oak trees.\nThe larch trees: here.\n"
    view.add({**pages, SOURCES[0]: text("source") + line + text("other")}).link(SOURCES[0], (LOST, "here"))
    assert best(finder(view).find(LOST)).url == f"{SITE}/trees/larch.html"


def test_a_url_without_links_to_it_is_unknown(linked, finder):
    assert finder(linked).find(f"{SITE}/p/4712").status == "unknown"


def test_pages_with_the_same_anchor_are_likelier(linked, finder):
    target = f"{SITE}/trees/maple.html"
    linked.link(f"{SITE}/trees/oak.html", (target, "Larch care"))
    answer = finder(linked).find(LOST)
    (maple,) = (c for c in answer.candidates if c.url == target)
    assert "same_anchor" in {evidence.kind for evidence in maple.evidence}


def test_substituted_links_are_evidence(view, finder, pages, text):
    new = f"{SITE}/trees/willow.html"
    sources = {url: text(f"source{n}") for n, url in enumerate(SOURCES)}
    view.add({**pages, **sources})
    for n, source in enumerate(SOURCES):
        view.link(source, (f"{SITE}/own{n}", "own"), (LOST, "Larch care"))
    view.add({**pages, **sources})
    for n, source in enumerate(SOURCES):
        view.link(source, (f"{SITE}/own{n}", "own"), (new, "Larch care"))
    answer = finder(view).find(LOST)
    assert best(answer).url == new
    assert {"link_substitution", "anchors"} <= kinds(answer)


def test_a_captured_url_is_never_never_seen(linked, finder, pages, text):
    linked.add({**pages, LOST: 404})
    assert finder(linked).find(LOST).status == "gone"


def test_dead_pages_are_no_candidates(linked, finder, pages):
    larch = f"{SITE}/trees/larch.html"
    linked.add({url: page for url, page in pages.items() if url != larch})
    assert larch not in {candidate.url for candidate in finder(linked).find(LOST).candidates}


def test_the_confidence_grows_with_rating_and_margin_and_is_never_high():
    assert confidence(0.9, 0.1) > confidence(0.9, 0.8) > confidence(0.3, 0.29)
    assert confidence(9.0, 0.0) == 0.85

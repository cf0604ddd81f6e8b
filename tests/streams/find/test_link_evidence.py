"""Pages that linked to a dead URL, and that link to another URL now with the same anchor."""

from __future__ import annotations

import pytest

from streams.find.find_context import FindContext
from streams.find.link_evidence import Substitution
from streams.urls import url_key
from tests.streams.find.conftest import best, finder_of, kinds

SITE = "https://site.example"
OLD, NEW, LATER = f"{SITE}/old.html", f"{SITE}/manual/data/", f"{SITE}/reference/data/"
SOURCES = [f"{SITE}/source{n}.html" for n in range(12)]
ANCHOR = "Data management"


@pytest.fixture
def sources(text):
    return {url: text(f"source{n}") for n, url in enumerate(SOURCES)}


def substitutions(view, url=OLD, **find_settings) -> dict[bytes, Substitution]:
    context: FindContext = finder_of(view, **find_settings)._context
    missing_since = context.checked_history(url_key(url)).missing_since
    results = context.link_evidence.substitutions(url_key(url), missing_since or 0)
    return {substitution.key: substitution for substitution in results}


def link_all(view, target, anchor=ANCHOR, sources=SOURCES, **options):
    for n, source in enumerate(sources):
        view.link(source, (f"{SITE}/only-on-source{n}.html", "its own link"), (target, anchor), **options)


def moved(view, sources, pages, text, new_text):
    """Add two sweeps: all sources link to the old URL and then, with the same anchor, to the new one."""
    view.add({**pages, **sources, OLD: text("storage")})
    link_all(view, OLD)
    view.add({**pages, **sources, NEW: new_text})
    link_all(view, NEW)
    return view


def test_pages_that_link_elsewhere_with_the_same_anchor_find_a_rewritten_page(view, finder, pages, sources, text):
    moved(view, sources, pages, text, text("rewritten"))
    answer = finder(view).find(OLD)
    assert (answer.status, best(answer).url) == ("moved", NEW)
    (evidence,) = (e for e in best(answer).evidence if e.kind == "link_substitution")
    assert (evidence.pages, evidence.anchor) == (12, ANCHOR)
    assert best(answer).resemblance == 0


def test_without_links_the_rewritten_page_is_not_found(view, finder, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")}).add({**pages, **sources, NEW: text("rewritten")})
    assert finder(view).find(OLD).status == "gone"


def test_one_page_is_less_evidence_than_many(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    link_all(view, OLD, sources=SOURCES[:1])
    view.add({**pages, **sources, NEW: text("rewritten")})
    link_all(view, NEW, sources=SOURCES[:1])
    (one,) = substitutions(view).values()
    assert 0.6 < one.strength < 0.7
    answer = finder_of(view).find(OLD)
    assert (answer.status, best(answer).url) == ("gone", NEW)
    assert 0.1 < best(answer).confidence < 0.5


def test_a_dead_substitute_is_followed_to_its_own(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    link_all(view, OLD)
    view.add({**pages, **sources, NEW: text("second")})
    link_all(view, NEW)
    view.add({**pages, **sources, LATER: text("third")})
    link_all(view, LATER)
    (substitution,) = substitutions(view).values()
    assert substitution.key == url_key(LATER)
    assert substitution.steps == 2
    assert substitution.votes == pytest.approx(0.9 * 12)
    assert best(finder_of(view).find(OLD)).url == LATER


def test_an_uncaptured_intermediate_url_is_followed_too(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")}, redirects={})
    link_all(view, OLD)
    view.add({**pages, **sources, NEW: 404})
    link_all(view, NEW)
    view.add({**pages, **sources, LATER: text("third")})
    link_all(view, LATER)
    assert list(substitutions(view)) == [url_key(LATER)]


def test_substitutes_that_form_a_cycle_end(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage"), NEW: text("second")})
    link_all(view, OLD, sources=SOURCES[:6])
    link_all(view, NEW, sources=SOURCES[6:])
    view.add({**pages, **sources})
    link_all(view, NEW, sources=SOURCES[:6])
    link_all(view, OLD, sources=SOURCES[6:])
    assert list(substitutions(view)) == [url_key(NEW)]


def test_a_changed_navigation_is_one_decision(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    for source in SOURCES:
        view.link(source, (f"{SITE}/", "Home"), (OLD, ANCHOR), navigation=True)
    view.add({**pages, **sources, NEW: text("rewritten")})
    for source in SOURCES:
        view.link(source, (f"{SITE}/", "Home"), (NEW, ANCHOR), navigation=True)
    (substitution,) = substitutions(view).values()
    assert (substitution.pages, substitution.votes) == (12, 1.0)


def test_anchors_with_many_targets_are_weak(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    for n, source in enumerate(SOURCES):
        view.link(source, (OLD if n == 3 else SOURCES[n - 1], "next"))
    view.add({**pages, **sources})
    for n, source in enumerate(SOURCES):
        view.link(source, (SOURCES[2] if n == 3 else SOURCES[n - 1], "next"))
    assert substitutions(view) == {}
    assert finder_of(view).find(OLD).status == "gone"


def test_a_template_that_sends_all_anchors_to_one_page_is_no_evidence(view, pages, sources, text):
    targets = {f"{SITE}/topic{n}.html": f"Topic {n}" for n in range(8)}
    login = f"{SITE}/login.html"
    view.add({**pages, **sources, **{url: text(f"topic{n}") for n, url in enumerate(targets)}})
    for source in SOURCES:
        view.link(source, *targets.items())
    view.add({**pages, **sources, login: text("login")})
    for source in SOURCES:
        view.link(source, *((login, anchor) for anchor in targets.values()))
    assert substitutions(view, url=next(iter(targets))) == {}


def test_a_template_that_moves_the_site_is_evidence(view, pages, sources, text):
    olds = {f"{SITE}/topic{n}.html": f"Topic {n}" for n in range(8)}
    news = {f"{SITE}/docs/t{n * 7}/": f"Topic {n}" for n in range(8)}
    view.add({**pages, **sources, **{url: text(f"topic{n}") for n, url in enumerate(olds)}})
    for source in SOURCES:
        view.link(source, *olds.items())
    view.add({**pages, **sources, **{url: text(f"rewritten{n}") for n, url in enumerate(news)}})
    for source in SOURCES:
        view.link(source, *news.items())
    assert [list(substitutions(view, url=old)) for old in olds] == [[url_key(new)] for new in news]


def test_a_gone_page_whose_anchor_leads_elsewhere_now_is_not_a_sure_move(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    link_all(view, OLD, sources=SOURCES[:1])
    view.add({**pages, **sources})
    link_all(view, f"{SITE}/trees/ash.html", sources=SOURCES[:1])
    answer = finder_of(view).find(OLD)
    assert answer.status == "gone"
    assert "link_substitution" in kinds(answer)


def test_urls_to_which_the_page_linked_with_this_anchor_before_are_not_substitutes(view, pages, sources, text):
    other = f"{SITE}/trees/ash.html"
    view.add({**pages, **sources, OLD: text("storage")})
    for source in SOURCES:
        view.link(source, (f"{SITE}/", "Home"), (f"{SITE}/faq", "FAQ"), (OLD, ANCHOR), (other, ANCHOR))
    view.add({**pages, **sources})
    for source in SOURCES:
        view.link(source, (f"{SITE}/", "Home"), (f"{SITE}/faq", "FAQ"), (f"{SITE}/new", "New"), (other, ANCHOR))
    assert substitutions(view) == {}


def test_pages_that_still_link_to_the_dead_url_say_nothing(view, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    link_all(view, OLD)
    view.add({**pages, **sources})
    for source in SOURCES:
        view.link(source, (OLD, "the old page"), (NEW, ANCHOR))
    assert substitutions(view) == {}


def test_a_substitute_that_no_sweep_captured_is_a_doubtful_candidate(view, finder, pages, sources, text):
    view.add({**pages, **sources, OLD: text("storage")})
    link_all(view, OLD)
    view.add({**pages, **sources})
    link_all(view, "https://elsewhere.example.net/data")
    answer = finder(view).find(OLD)
    assert best(answer).url == "https://elsewhere.example.net/data"
    assert kinds(answer) == {"link_substitution", "not_captured"}
    assert 0.5 <= best(answer).confidence < 0.6


def test_sources_are_limited_and_counted(view, pages, sources, text):
    moved(view, sources, pages, text, text("rewritten"))
    search = finder_of(view, link_sources_max=5)
    answer = search.find(OLD)
    assert search.counters["find_link_sources_max"] > 0
    assert [e.pages for e in best(answer).evidence if e.kind == "link_substitution"] == [5]

"""What the last captures of a dead URL say about its page: canonical links, scripts and alternates."""

from __future__ import annotations

import pytest

from state.model import Link, LinkKind
from streams.urls import url_key
from tests.streams.find.conftest import best, kinds

SITE = "https://site.example"
OLD, NEW = f"{SITE}/old/yew.html", f"{SITE}/wood/tree-4711/"


def declared(target: str, kind: LinkKind) -> Link:
    return Link(target=url_key(target), https=True, kind=kind)


@pytest.mark.parametrize("kind", [LinkKind.CANONICAL, LinkKind.SCRIPT])
def test_the_declared_url_is_the_best_candidate(view, finder, pages, text, kind):
    view.add({**pages, OLD: text("yew")}).link(OLD, declared(NEW, kind))
    view.add({**pages, NEW: text("rewritten")})
    answer = finder(view).find(OLD)
    assert best(answer).url == NEW
    assert kind.name.lower() in kinds(answer)
    assert best(answer).confidence < 0.5  # it shares no content with the old page


def test_a_canonical_url_with_the_content_of_the_old_page_is_a_move(view, finder, pages, text):
    """Without the canonical link, a copy that always existed is not the new home of a page."""
    both = {OLD: text("yew"), NEW: text("yew")}
    view.add({**pages, **both}).add({**pages, NEW: text("yew")})
    assert finder(view).find(OLD).status == "gone"


def test_a_canonical_url_that_existed_all_along_is_more_likely_with_the_link(view, finder, pages, text):
    both = {OLD: text("yew"), NEW: text("yew")}
    view.add({**pages, **both}).link(OLD, declared(NEW, LinkKind.CANONICAL)).add({**pages, NEW: text("yew")})
    answer = finder(view).find(OLD)
    assert (answer.status, best(answer).url) == ("moved", NEW)


def test_an_alternate_is_hardly_evidence(view, finder, pages, text):
    french = f"{SITE}/fr/if.html"
    view.add({**pages, OLD: text("yew"), french: text("if")}).link(OLD, declared(french, LinkKind.ALTERNATE))
    view.add({**pages, french: text("if"), NEW: text("yew") + " More."})
    answer = finder(view).find(OLD)
    assert best(answer).url == NEW
    (other,) = (c for c in answer.candidates if c.url == french)
    assert other.confidence < 0.2
    assert "alternate" in {evidence.kind for evidence in other.evidence}


def test_a_canonical_url_of_many_pages_is_hardly_evidence(view, finder, pages, text):
    hub = f"{SITE}/hub.html"
    view.add({**pages, OLD: text("yew"), hub: text("hub")})
    for url in (*pages, OLD):
        view.link(url, declared(hub, LinkKind.CANONICAL))
    view.add({**pages, hub: text("hub")})
    answer = finder(view).find(OLD)
    assert all(c.confidence < 0.1 for c in answer.candidates if c.url == hub)

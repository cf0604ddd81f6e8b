"""Redirects that the crawler met."""

from __future__ import annotations

import pytest

from tests.streams.find.conftest import best, kinds

SITE = "https://site.example"
OLD, NEW = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"


def test_a_redirect_outweighs_other_evidence(view, finder, pages, text):
    old, middle, new = f"{SITE}/yew", f"{SITE}/yew2", f"{SITE}/trees/ash.html"
    view.add({**pages, old: text("yew")}).add(pages, redirects={old: "/yew2", middle: new})
    answer = finder(view).find(old)
    assert answer.status == "moved"
    assert best(answer).url == new
    assert "redirect" in kinds(answer)
    assert best(answer).confidence > 0.9


def test_catch_all_redirects_are_doubted(view, finder, pages, text):
    home = f"{SITE}/"
    old = [f"{SITE}/fish/{name}.html" for name in ("herring", "cod", "eel", "pike", "carp", "bass")]
    first = {**pages, home: text("welcome"), **{url: text(url[-9:-5]) for url in old}}
    view.add(first).add({**pages, home: text("welcome")}, redirects=dict.fromkeys(old, home))
    answer = finder(view).find(old[0])
    assert answer.status == "gone"
    assert all(candidate.confidence < 0.5 for candidate in answer.candidates)


@pytest.mark.parametrize("target", ["/yew", "http://site.example/yew", "http://[", "/a", "mailto:x@example.org"])
def test_invalid_redirects_and_loops_have_no_target(view, finder, pages, text, target):
    old = f"{SITE}/yew"
    view.add({**pages, old: text("yew")}).add(pages, redirects={old: target, f"{SITE}/a": "/b", f"{SITE}/b": "/a"})
    answer = finder(view).find(old)
    assert answer.status in {"gone", "alive"}


def test_the_target_of_a_redirect_may_belong_to_another_crawl(view, finder, pages, text):
    target = "https://other.example/yew"
    view.add({target: text("yew")}).add({**pages, OLD: text("birch")}).add(pages, redirects={OLD: target})
    best = finder(view).find(OLD).candidates[0]
    assert best.url == target
    assert best.confidence > 0.9
    assert "not_captured" not in {evidence.kind for evidence in best.evidence}


def test_a_redirect_to_a_living_page_without_text_is_sure(view, finder, pages, text):
    paper = f"{SITE}/yew.pdf"
    view.add({**pages, OLD: text("yew")}).add({**pages, paper: 200}, redirects={OLD: paper})
    answer = finder(view).find(OLD)
    assert (answer.status, answer.candidates[0].url) == ("moved", paper)
    assert answer.candidates[0].confidence > 0.9


def test_an_invalid_redirect_in_the_folder_does_no_harm(view, finder, pages, text):
    home = f"{SITE}/"
    view.add({**pages, OLD: text("yew"), home: text("home")})
    view.add({**pages, home: text("home")}, redirects={OLD: home, f"{SITE}/old/odd": "http://[y"})
    assert finder(view).find(OLD).candidates

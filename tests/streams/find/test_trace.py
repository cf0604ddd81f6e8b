"""Pages that moved more than once, sites that moved to another host, and sweeps of different hosts."""

from __future__ import annotations

import pytest

from tests.streams.find.conftest import best, kinds

SITE = "https://site.example"
HOST2 = "https://new.example.net"


def test_a_page_that_moved_twice_is_followed(view, finder, pages, text):
    old, stop, new = f"{SITE}/guide/yew.html", f"{SITE}/trees/yew/care.html", f"{SITE}/trees/yew.html"
    first, second = text("yew", 30), text("yew", 30) + text("care", 30)
    third = text("care", 30) + text("soil", 60)
    view.add({**pages, old: first}).add({**pages, stop: second}).add({**pages, new: third})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert any(evidence.kind == "stop" and evidence.detail == stop for evidence in best(answer).evidence)


@pytest.mark.parametrize(("tried", "scope"), [({f"{SITE}/": 404}, []), ({}, ["site.example"])])
def test_a_site_that_moved_to_another_host(view, finder, pages, tried, scope):
    view.add(pages).add({**tried, **{url.replace(SITE, HOST2): page for url, page in pages.items()}})
    search = finder(view, scope=scope)
    for url in pages:
        answer = search.find(url)
        assert answer.status == "moved"
        assert best(answer).url == url.replace(SITE, HOST2)
    assert "other_domain" in kinds(search.find(f"{SITE}/trees/ash.html"))


def test_a_mirror_in_a_sweep_of_its_own_is_not_a_move(view, finder, pages, text):
    mirror = {url.replace(SITE, HOST2): page for url, page in pages.items()}
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew")}).add({**mirror, f"{HOST2}/old/yew.html": text("yew")})
    search = finder(view)
    assert {search.find(url).status for url in (*pages, old)} == {"alive"}
    assert search.missing_since(old) is None
    view.add({**pages, new: text("yew")}).add({**mirror, f"{HOST2}/old/yew.html": text("yew")})
    search = finder(view)
    assert {search.find(url).status for url in (*pages, *mirror)} == {"alive"}
    assert best(search.find(old)).url == new


def test_a_page_that_moved_to_a_host_outside_the_scope_of_later_sweeps_stays_there(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{HOST2}/wood/yew.html"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew")})
    view.add({**pages, "https://mirror.example.org/wood/yew.html": text("yew")})
    answer = finder(view).find(old)
    assert (answer.status, best(answer).url) == ("moved", new)


def test_a_sweep_of_other_sites_makes_no_url_missing(view, finder, pages, text):
    other = {f"{HOST2}/{n}": text(f"subject{n}") for n in range(5)}
    view.add(pages).add(other)
    assert finder(view).find(f"{SITE}/trees/ash.html").status == "alive"

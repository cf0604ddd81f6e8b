"""Pages that moved more than once, and hosts that are no longer visited."""

from __future__ import annotations

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


def test_a_site_that_moved_to_another_host(view, finder, pages):
    view.add(pages).add({url.replace(SITE, HOST2): page for url, page in pages.items()})
    search = finder(view)
    for url in pages:
        answer = search.find(url)
        assert answer.status == "moved"
        assert best(answer).url == url.replace(SITE, HOST2)
    assert "other_domain" in kinds(search.find(f"{SITE}/trees/ash.html"))


def test_a_sweep_of_other_sites_makes_no_url_missing(view, finder, pages, text):
    other = {f"{HOST2}/{n}": text(f"subject{n}") for n in range(5)}
    view.add(pages).add(other)
    assert finder(view).find(f"{SITE}/trees/ash.html").status == "alive"

"""Error pages that are sent with status 200."""

from __future__ import annotations

from streams.find.soft_errors import SoftErrors
from streams.urls import host_prefix, url_key

SITE = "https://site.example"
OLD, NEW = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"


def test_soft_errors_need_unrelated_names(view):
    view.add({f"{SITE}/v{n}/guide/": "the same page in all versions" for n in range(9)})
    view.add({f"{SITE}/{name}": "the page was not found" for name in ("a1", "b2", "c3", "d4", "e5")})
    soft_errors = SoftErrors(view, 5)
    captures = [c for key in view.urls_under(host_prefix(url_key(SITE)), 99) for c in view.captures(key)]
    pages = {c.url: (c.document, c.key) for c in captures}
    assert not soft_errors.is_suspected(*pages[f"{SITE}/v1/guide/"])
    assert soft_errors.is_suspected(*pages[f"{SITE}/a1"])


def test_a_soft_404_is_never_a_target(view, finder, pages, text):
    names = ["herring", "cod", "eel", "pike", "carp", "bass"]
    old = [f"{SITE}/fish/{name}.html" for name in names]
    sorry = "Sorry, the page herring that you asked for was not found on this server. Try the search. " + text(
        "sorry"
    )
    view.add({**pages, **dict(zip(old, map(text, names), strict=True))})
    view.add({**pages, **dict.fromkeys(old, sorry)})
    answer = finder(view).find(old[0])
    assert answer.status == "gone"
    reported = answer.candidates[-1]
    assert reported.confidence == 0.0
    assert {evidence.kind for evidence in reported.evidence} == {"suspected_soft_404"}
    assert all(candidate.url not in old for candidate in answer.candidates[:-1])


def test_a_page_whose_url_changes_with_every_sweep_is_not_an_error_page(view, finder, pages, text):
    urls = [f"{SITE}/view/{name}" for name in ("e4da3b", "a87ff6", "eccbc8", "c81e72", "c4ca42", "cfcd20", "8f14e4")]
    for url in urls:
        view.add({**pages, url: text("yew")})
    search = finder(view)
    assert search.find(urls[-1]).status == "alive"
    for old in urls[:-1]:
        answer = search.find(old)
        assert (answer.status, answer.candidates[0].url) == ("moved", urls[-1])


def test_an_error_page_is_found_on_each_of_many_hosts(view, finder, pages, text):
    elsewhere = {f"https://www.aaa{n}.example/": text("sorry") for n in range(90)}
    here = {f"{SITE}/{name}": text("sorry") for name in ("one", "two", "three", "four", "five", "six")}
    view.add({**pages, **elsewhere, **here})
    assert finder(view).find(f"{SITE}/one").status == "gone"


def test_a_large_minimum_of_urls_can_be_reached(view, finder, pages, text):
    here = {f"{SITE}/name{n}": text("sorry") for n in range(80)}
    view.add({**pages, **here})
    assert finder(view, soft_404_urls=80).find(f"{SITE}/name1").status == "gone"
    assert finder(view, soft_404_urls=81).find(f"{SITE}/name1").status == "alive"

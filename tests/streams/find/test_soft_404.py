"""Which pages are suspected soft 404s."""

from __future__ import annotations

import pytest

from streams.find import possibly_missing_urls
from tests.streams.find.conftest import as_view, best, kinds

SITE = "https://site.example"
NAMES = ("herring", "cod", "eel", "pike", "carp", "bass", "hake", "ling")
OLD = [f"{SITE}/fish/{name}.html" for name in NAMES]


def error_page(text, name, number=0):
    """An error page that contains the requested URL and a request id."""
    return f"Sorry, /fish/{name}.html was not found on this server. Request id{number}. " + text("sorry", 20)


@pytest.fixture
def before(pages, text):
    return {**pages, **dict(zip(OLD, map(text, NAMES), strict=True))}


@pytest.mark.parametrize("echo", [True, False], ids=["near-copies", "copies"])
def test_error_pages_are_suspected_and_never_a_target(view, finder, pages, before, text, echo):
    errors = {
        url: error_page(text, name if echo else "it", n if echo else 0)
        for n, (url, name) in enumerate(zip(OLD, NAMES, strict=True))
    }
    view.add(before).add({**pages, **errors, f"{SITE}/wood/hake.html": text("hake")})
    assert set(OLD) <= set(possibly_missing_urls(as_view(view), 6))
    search = finder(view)
    answer = search.find(OLD[0])
    assert answer.status == "gone"
    reported = answer.candidates[-1]
    assert (reported.url, reported.confidence) == (OLD[0], 0.0)
    assert {evidence.kind for evidence in reported.evidence} == {"suspected_soft_404"}
    assert all(candidate.url not in OLD for candidate in answer.candidates[:-1])
    assert best(search.find(OLD[6])).url == f"{SITE}/wood/hake.html"


def test_a_new_url_that_serves_the_error_page_is_suspected(view, finder, pages, before, text):
    new = f"{SITE}/fish/tench.html"
    view.add(before).add({**pages, **{url: error_page(text, url) for url in (*OLD, new)}})
    assert kinds(finder(view).find(new)) == {"suspected_soft_404"}


@pytest.mark.parametrize("has_earlier_sweep", [True, False])
def test_pages_that_have_always_looked_alike_prove_nothing(view, finder, pages, text, has_earlier_sweep):
    tags = {f"{SITE}/tag/{name}": f"No posts with the tag {name}. " + text("tag", 20) for name in NAMES}
    links = dict.fromkeys((f"{SITE}/s/{name}" for name in NAMES), text("short link"))
    if has_earlier_sweep:
        view.add({**pages, **tags, **links})
    view.add({**pages, **tags, **links})
    assert {finder(view).find(url).status for url in (*tags, *links)} == {"alive"}


def test_a_few_pages_that_became_empty_prove_nothing(view, finder, pages, before, text):
    five = {url: error_page(text, name) for url, name in zip(OLD[:5], NAMES, strict=False)}
    view.add(before).add({**before, **five})
    assert {finder(view).find(url).status for url in five} == {"alive"}
    assert finder(view, soft_404_urls=5).find(OLD[0]).status == "gone"


def test_pages_among_many_that_have_always_looked_alike_prove_nothing(view, finder, pages, before, text):
    empty = {f"{SITE}/tag/subject{n}": error_page(text, f"subject{n}") for n in range(20)}
    view.add({**before, **empty}).add({**pages, **empty, **{url: error_page(text, url) for url in OLD}})
    assert {finder(view).find(url).status for url in (*empty, *OLD)} == {"alive"}


def test_a_new_template_for_pages_that_looked_alike_proves_nothing(view, finder, pages, text):
    first, second = ({url: f"{url} " + text(template, 20) for url in OLD} for template in ("old", "new"))
    view.add({**pages, **first}).add({**pages, **second})
    assert {finder(view).find(url).status for url in OLD} == {"alive"}


def test_pages_that_keep_their_texts_below_a_common_one_are_alive(view, finder, pages, text):
    banner = text("notice", 60)
    view.add({**pages, **{url: text(name, 9) for url, name in zip(OLD, NAMES, strict=True)}})
    view.add({**pages, **{url: banner + text(name, 9) for url, name in zip(OLD, NAMES, strict=True)}})
    assert {finder(view).find(url).status for url in OLD} == {"alive"}


def test_a_home_page_that_missing_urls_serve_is_alive(view, finder, pages, before, text):
    home = {f"{SITE}/": text("welcome")}
    view.add({**before, **home}).add({**pages, **home, **dict.fromkeys(OLD, text("welcome"))})
    search = finder(view)
    assert search.find(f"{SITE}/").status == "alive"
    assert {search.find(url).status for url in OLD} == {"gone"}


def test_versions_of_one_page_are_not_soft_404s(view, finder, pages, text):
    urls = [f"{SITE}/v{n}/guide/" for n in range(9)]
    view.add({**pages, **{url: text(f"guide{n}") for n, url in enumerate(urls)}})
    view.add({**pages, **dict.fromkeys(urls, text("the same guide"))})
    assert {finder(view).find(url).status for url in urls} == {"alive"}


def test_a_page_whose_url_changes_with_every_sweep_is_not_an_error_page(view, finder, pages, text):
    urls = [f"{SITE}/view/{name}" for name in ("e4da3b", "a87ff6", "eccbc8", "c81e72", "c4ca42", "cfcd20", "8f14e4")]
    for url in urls:
        view.add({**pages, url: text("yew")})
    search = finder(view)
    assert search.find(urls[-1]).status == "alive"
    for old in urls[:-1]:
        answer = search.find(old)
        assert (answer.status, answer.candidates[0].url) == ("moved", urls[-1])


def test_error_pages_that_many_hosts_share_are_found_on_each_host(view, finder, pages, before, text):
    elsewhere = {f"https://www.aaa{n}.example/": text("sorry") for n in range(90)}
    view.add({**before, **elsewhere}).add({**pages, **elsewhere, **dict.fromkeys(OLD, text("sorry"))})
    assert finder(view).find(OLD[0]).status == "gone"


def test_a_large_minimum_of_urls_can_be_reached(view, finder, pages, text):
    urls = [f"{SITE}/name{n}" for n in range(80)]
    view.add({**pages, **{url: text(f"subject{n}", 9) for n, url in enumerate(urls)}})
    view.add({**pages, **dict.fromkeys(urls, text("sorry"))})
    assert finder(view, soft_404_urls=80).find(urls[1]).status == "gone"
    assert finder(view, soft_404_urls=81).find(urls[1]).status == "alive"

"""When a URL is missing, and when it only seems so."""

from __future__ import annotations

import pytest

SITE = "https://site.example"
OLD, NEW = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"


@pytest.fixture
def pages(text):
    names = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple"]
    return {f"{SITE}/trees/{name}.html": text(name) for name in names}


@pytest.mark.parametrize("status", [200, 204, 206, 304])
def test_an_answer_without_text_is_no_loss(view, finder, pages, text, status):
    """A 304, a page that became a PDF, one that needs a script: nothing to compare, but no dead link either."""
    view.add({**pages, OLD: text("yew")}).add({**pages, OLD: status, NEW: text("yew")})
    answer = finder(view).find(OLD)
    assert (answer.status, answer.last_seen[:10]) == ("alive", "1970-07-20")


def test_a_url_that_never_held_text_lives_and_dies(view, finder, pages):
    paper = f"{SITE}/paper.pdf"
    view.add({**pages, paper: 200}).add({**pages, paper: 200})
    assert finder(view).find(paper).status == "alive"
    view.add(pages)
    assert finder(view).find(paper).status == "gone"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_an_answer_that_puts_off_says_nothing_once(view, finder, pages, text, status):
    view.add({**pages, OLD: text("yew")}).add({**pages, OLD: status, NEW: text("yew")})
    assert finder(view).find(OLD).status == "alive"
    view.add({**pages, OLD: status, NEW: text("yew")})
    assert finder(view).find(OLD).status == "moved"
    assert finder(view).missed_since(OLD) == 3


def test_an_answer_that_puts_off_does_not_hide_the_page_of_its_sweep(view, finder, pages, text):
    view.add({**pages, OLD: text("yew")}).add({**pages, OLD: 404}).add({**pages, OLD: text("yew")})
    view.again({OLD: 503})
    assert finder(view).find(OLD).status == "alive"


def test_one_page_whose_url_changes_with_every_sweep_is_no_error_page(view, finder, pages, text):
    urls = [f"{SITE}/view/{name}" for name in ("e4da3b", "a87ff6", "eccbc8", "c81e72", "c4ca42", "cfcd20", "8f14e4")]
    for url in urls:
        view.add({**pages, url: text("yew")})
    asked = finder(view)
    assert asked.find(urls[-1]).status == "alive"
    for old in urls[:-1]:
        answer = asked.find(old)
        assert (answer.status, answer.candidates[0].url) == ("moved", urls[-1])


def test_sweeps_are_of_one_crawl_though_many_hosts_ended(view, finder, pages, text):
    ended = {f"https://aaa{n:02}.example/": text(f"subject{n}") for n in range(70)}
    gone = "https://bbb.example/"
    view.add({**pages, **ended, gone: text("yew")}).add(pages)
    assert finder(view).find(gone).status == "gone"


def test_an_error_page_of_many_hosts_is_one_on_each(view, finder, pages, text):
    elsewhere = {f"https://www.aaa{n}.example/": text("sorry") for n in range(90)}
    here = {f"{SITE}/{name}": text("sorry") for name in ("one", "two", "three", "four", "five", "six")}
    view.add({**pages, **elsewhere, **here})
    assert finder(view).find(f"{SITE}/one").status == "gone"


def test_as_many_urls_as_are_asked_for_can_be_reached(view, finder, pages, text):
    here = {f"{SITE}/name{n}": text("sorry") for n in range(80)}
    view.add({**pages, **here})
    assert finder(view, soft_404_urls=80).find(f"{SITE}/name1").status == "gone"
    assert finder(view, soft_404_urls=81).find(f"{SITE}/name1").status == "alive"


def test_a_text_at_many_urls_is_found_where_it_came_last(view, finder, pages, text):
    old = {f"{SITE}/{n:02}/guide.html": text("yew") for n in range(30)}
    view.add({**pages, **old}).add({**pages, f"{SITE}/zlatest/handbook": text("yew")})
    asked = finder(view)
    answer = asked.find(f"{SITE}/03/guide.html")
    assert (answer.status, answer.candidates[0].url) == ("moved", f"{SITE}/zlatest/handbook")
    assert asked.counters["find_locations_max"] > 0


def test_a_redirect_to_a_page_of_another_crawl_is_one_to_a_living_page(view, finder, pages, text):
    there = "https://other.example/yew"
    view.add({there: text("yew")}).add({**pages, OLD: text("birch")}).add(pages, redirects={OLD: there})
    best = finder(view).find(OLD).candidates[0]
    assert best.url == there
    assert best.confidence > 0.9
    assert "not_captured" not in {evidence.kind for evidence in best.evidence}


def test_a_redirect_to_a_living_page_without_text_is_sure(view, finder, pages, text):
    paper = f"{SITE}/yew.pdf"
    view.add({**pages, OLD: text("yew")}).add({**pages, paper: 200}, redirects={OLD: paper})
    answer = finder(view).find(OLD)
    assert (answer.status, answer.candidates[0].url) == ("moved", paper)
    assert answer.candidates[0].confidence > 0.9


def test_what_only_an_open_sweep_tried_is_compared_with_the_last_of_its_host(view, finder, pages, text):
    view.add({**pages, NEW: text("yew")}).add({"https://other.example/": text("other")})
    view.add({**pages, OLD: 404}, committed=False)
    assert finder(view).find(OLD).candidates[0].url == NEW


def test_answers_list_no_more_than_they_may(view, finder, pages, text):
    old = {
        f"{SITE}/fish/{name}": text("eel") + text(name) for name in ("cod", "pike", "carp", "bass", "hake", "ling")
    }
    view.add({**pages, **old})
    view.add({**pages, **dict.fromkeys(old, text("sorry")), **{f"{SITE}/{n}/cod": text("eel") for n in range(4)}})
    for most in (1, 2, 3):
        assert len(finder(view, answers_max=most).find(f"{SITE}/fish/cod").candidates) == most


def test_a_folder_with_an_odd_url_can_be_asked_about(view, finder, pages, text):
    home = f"{SITE}/"
    view.add({**pages, OLD: text("yew"), home: text("home")})
    view.add({**pages, home: text("home")}, redirects={OLD: home, f"{SITE}/old/odd": "http://[y"})
    assert finder(view).find(OLD).candidates

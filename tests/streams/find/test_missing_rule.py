"""When a URL is missing, since when, and which pages are soft 404s."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.model import Capture
from streams.find.missing_rule import SweepIndex, build_history
from streams.urls import url_key
from tests.streams.find.conftest import MemoryView, as_view

SITE = "https://site.example"
OLD, NEW = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"


def no_soft(_document: bytes, _key: bytes) -> bool:
    return False


def history(view, url):
    return build_history(url_key(url), view.captures(url_key(url)), SweepIndex(view), no_soft)


def test_a_url_that_comes_back_is_alive(view):
    a, b = f"{SITE}/a", f"{SITE}/b"
    view.add({a: "one two", b: "x"}).add({b: "x"}).add({a: "one two", b: "x"})
    assert history(view, a).is_alive
    assert history(view, b).is_alive


def test_the_first_sweep_that_missed_a_url(view):
    a, b = f"{SITE}/a", f"{SITE}/b"
    view.add({a: "one two", b: "x"}).add({b: "x"}).add({b: "x"})
    assert history(view, a).missing_since == 2
    assert history(view, a).last_page.sweep == 1


@pytest.mark.parametrize("visited", ["https://www.site.example/b", "https://other.example.net/"])
def test_a_host_that_a_sweep_did_not_crawl_is_outside_its_scope(view, visited):
    a, other = f"{SITE}/a", "https://other.example.net/"
    view.add({a: "one two", other: "x"}).add({visited: "x"})
    assert history(view, a).is_alive
    view.add({visited: "x", f"{SITE}/robots.txt": 404})
    assert history(view, a).missing_since == 3


@pytest.mark.parametrize("scope", ["site.example", "http://site.example/any/page", "SITE.example"])
def test_the_scope_of_a_sweep_can_be_extended(view, scope):
    a, other = f"{SITE}/a", "https://other.example.net/"
    view.add({a: "one two", f"{SITE}:8080/a": "x"}).add({other: "x"}).add({other: "x"})
    sweeps = SweepIndex(view, [scope])
    assert build_history(url_key(a), view.captures(url_key(a)), sweeps, no_soft).missing_since == 2
    assert SweepIndex(view).hosts_outside_last_sweep() == ["site.example", "site.example:8080"]
    assert sweeps.hosts_outside_last_sweep() == ["site.example:8080"]


def test_no_sweep_means_no_host_outside_its_scope(view):
    assert SweepIndex(view).hosts_outside_last_sweep() == []


def test_a_url_that_only_had_errors_is_missing(view):
    view.add({f"{SITE}/a": 404})
    assert not history(view, f"{SITE}/a").pages
    assert history(view, f"{SITE}/a").missing_since == 1


def test_a_redirect_to_another_spelling_of_the_url_is_ignored(view):
    view.add({f"{SITE}/a": "one two"}, redirects={"http://site.example/a": f"{SITE}/a"})
    assert history(view, f"{SITE}/a").is_alive


def test_the_last_capture_of_a_sweep_counts(view):
    view.add({f"{SITE}/a": "one two"}, redirects={f"{SITE}/a": f"{SITE}/b"})
    assert not history(view, f"{SITE}/a").is_alive


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([200, 204, 301, 304, 404, 429, 503])), max_size=8))
def test_a_history_is_consistent(captures):
    view = MemoryView()
    for _ in range(4):
        view.add({f"{SITE}/other": "x y"})
    key = url_key(f"{SITE}/a")
    rows = [
        Capture(
            key=key,
            url=f"{SITE}/a",
            sweep=sweep,
            time=sweep,
            status=status,
            document=b"d" * 16 if status == 200 else None,
            raw_fingerprint=b"",
            redirect=None,
        )
        for sweep, status in sorted(captures)
    ]
    result = build_history(key, rows, SweepIndex(as_view(view)), no_soft)
    assert all(c.status == 200 for c in result.pages)
    assert not {c.status for c in result.failures} & {200, 204, 304}
    assert result.textless_success is None or result.textless_success.status in {204, 304}
    if result.pages and result.missing_since is not None:
        assert result.missing_since > result.pages[-1].sweep


@pytest.mark.parametrize("status", [200, 204, 206, 304])
def test_a_url_with_an_answer_without_text_is_alive(view, finder, pages, text, status):
    """A 304, a page that became a PDF or needs a script: nothing can be compared, but the link works."""
    view.add({**pages, OLD: text("yew")}).add({**pages, OLD: status, NEW: text("yew")})
    answer = finder(view).find(OLD)
    assert (answer.status, answer.last_seen[:10]) == ("alive", "1970-07-20")


def test_a_url_without_text_can_be_alive_or_gone(view, finder, pages):
    paper = f"{SITE}/paper.pdf"
    view.add({**pages, paper: 200}).add({**pages, paper: 200})
    assert finder(view).find(paper).status == "alive"
    view.add(pages)
    assert finder(view).find(paper).status == "gone"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_one_answer_to_retry_later_changes_nothing(view, finder, pages, text, status):
    view.add({**pages, OLD: text("yew")}).add({**pages, OLD: status, NEW: text("yew")})
    assert finder(view).find(OLD).status == "alive"
    view.add({**pages, OLD: status, NEW: text("yew")})
    assert finder(view).find(OLD).status == "moved"
    assert finder(view).missing_since(OLD) == 3


def test_an_answer_to_retry_later_does_not_hide_the_page_of_its_sweep(view, finder, pages, text):
    view.add({**pages, OLD: text("yew")}).add({**pages, OLD: 404}).add({**pages, OLD: text("yew")})
    view.add_to_last_sweep({OLD: 503})
    assert finder(view).find(OLD).status == "alive"


def test_a_url_that_only_an_open_sweep_tried_is_compared_with_the_last_sweep_of_its_host(view, finder, pages, text):
    view.add({**pages, NEW: text("yew")}).add({"https://other.example/": text("other")})
    view.add({**pages, OLD: 404}, committed=False)
    assert finder(view).find(OLD).candidates[0].url == NEW


def test_an_error_makes_a_url_missing(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew")}).add({**pages, old: 404, new: text("yew")})
    assert finder(view).find(old).status == "moved"


def test_an_open_sweep_makes_nothing_missing(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew")}, committed=False)
    assert finder(view).find(old).status == "alive"

"""Forgetting a URL and cancelling a sweep remove every trace of links, and nothing that another page needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from state.codecs import link_chunk
from state.families import Family
from state.store import Store
from state.view import View
from streams import query
from streams.forgetting import cancel_sweep, commit_removals, forget_document, forget_url
from streams.urls import url_key
from tests.samples import NOW, Line, html, take
from tests.streams.forgetting.chains import is_sound, rows_by_family

A, B, C = (f"https://a.example.org/{name}.html" for name in "abc")
LINK_FAMILIES = (Family.LINK_LISTS, Family.LINK_CHUNKS, Family.LINK_TARGETS)
NAVIGATION = "".join(f"<a href=/section{number}/>section {number}</a>" for number in range(40))


def linking(url: str, links: str, text: str, time: int = NOW) -> Line:
    return html(url, f"<nav>{NAVIGATION}</nav><p>{text} of {url} is here</p>{links}", time)


ONE = [
    linking(A, '<a href="b.html">B, the second page</a>', "the first text"),
    linking(B, '<a href="c.html">C</a>', "the second text", NOW + 1),
]
TWO = [
    linking(A, '<a href="c.html">C, the third page</a>', "the first text", NOW + 1_000),
    linking(B, '<a href="c.html">C</a>', "another second text", NOW + 1_001),
    linking(C, '<a href="a.html">A</a>', "the third text", NOW + 1_002),
]


def statements(store: Store, url: str) -> set[tuple[str, str, str, str]]:
    """Return who links to a URL: the source, the anchor, and the first and last sweep."""
    links = query.links_to(View(store), url_key(url))
    return {(link.source, link.anchor, link.first_sweep, link.last_sweep) for link in links}


def link_rows(store: Store) -> dict[Family, dict[bytes, bytes]]:
    return {family: dict(store.scan(family)) for family in LINK_FAMILIES}


@pytest.fixture
def linked(store: Store, tmp_path: Path) -> Store:
    take(store, tmp_path / "1.jsonl", ONE, "one")
    take(store, tmp_path / "2.jsonl", TWO, "two", now=NOW + 2_000)
    return store


def test_sweeps_of_links_follow_from_captures(linked: Store) -> None:
    assert statements(linked, B) == {(A, "B, the second page", "one", "one")}
    assert statements(linked, C) == {(A, "C, the third page", "two", "two"), (B, "C", "one", "two")}
    assert statements(linked, "https://a.example.org/section7/") == {
        (A, "section 7", "one", "two"),
        (B, "section 7", "one", "two"),
        (C, "section 7", "two", "two"),
    }


def test_navigation_is_stored_once(linked: Store) -> None:
    chunks = [value for key, value in linked.scan(Family.LINK_CHUNKS) if len(key) == link_chunk.CHUNK_ID_BYTES]
    targets = [link.target for value in chunks for link in link_chunk.decode(value)]
    assert targets.count(url_key("https://a.example.org/section7/")) == 1


def test_a_cancelled_sweep_leaves_no_trace(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "1.jsonl", ONE, "one")
    before = link_rows(store)
    take(store, tmp_path / "2.jsonl", TWO, "two", keep_open=True)
    assert link_rows(store) != before
    commit_removals(cancel_sweep(store, View(store).sweeps()[-1]), store.write)
    assert link_rows(store) == before
    assert is_sound(store)


@pytest.mark.parametrize("forgotten", [A, B, C])
def test_a_forgotten_url_leaves_no_link(linked: Store, forgotten: str) -> None:
    commit_removals(forget_url(linked, url_key(forgotten)), linked.write)
    assert is_sound(linked)
    assert not any(url_key(forgotten) in key for key, _ in linked.scan(Family.LINK_LISTS))
    assert not any(url_key(forgotten) in key for key, _ in linked.scan(Family.LINK_CHUNKS))
    assert all(source != forgotten for url in (A, B, C) for source, *_ in statements(linked, url))
    assert statements(linked, "https://a.example.org/section7/"), "the other pages still have the navigation"


def test_a_forgotten_document_takes_its_links(linked: Store) -> None:
    document = View(linked).captures(url_key(C))[0].document
    assert document is not None
    commit_removals(forget_document(linked, document), linked.write)
    assert is_sound(linked)
    assert statements(linked, A) == set()


def remove_all(store: Store) -> None:
    for url in (A, B, C):
        commit_removals(forget_url(store, url_key(url)), store.write)


def cancel_all(store: Store) -> None:
    for sweep in View(store).sweeps():
        commit_removals(cancel_sweep(store, sweep), store.write)


@pytest.mark.parametrize("remove", [remove_all, cancel_all])
def test_nothing_remains_of_removed_pages(store: Store, tmp_path: Path, remove: Callable[[Store], None]) -> None:
    take(store, tmp_path / "1.jsonl", ONE, "one", keep_open=True)
    take(store, tmp_path / "2.jsonl", TWO, "two", keep_open=True)
    remove(store)
    rows = rows_by_family(store)
    assert not any(rows.get(family) for family in LINK_FAMILIES)


def test_pages_that_return_have_their_links_again(linked: Store, tmp_path: Path) -> None:
    before = statements(linked, C)
    commit_removals(forget_url(linked, url_key(B)), linked.write)
    take(
        linked,
        tmp_path / "3.jsonl",
        [linking(B, '<a href="c.html">C</a>', "the second text")],
        "three",
        now=NOW + 3_000,
    )
    assert statements(linked, C) == before - {(B, "C", "one", "two")} | {(B, "C", "three", "three")}
    assert is_sound(linked)

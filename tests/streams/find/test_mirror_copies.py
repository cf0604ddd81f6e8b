"""A dead page whose path lives on a mirror is answered with the copy there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from state.errors import StateCorrupt
from streams.find import Answer, Candidate
from streams.find.find_context import DeadUrl, FindContext
from streams.find.mirror_copies import MirrorCopies
from streams.settings import load
from streams.urls import key_url, url_key
from tests.samples import words
from tests.streams.find.conftest import MemoryView, finder_of

if TYPE_CHECKING:
    from state.view import View

A, B = "https://www.a.example", "https://mirror.b.example:8443"
PATHS = [f"/guide/p{n}.html" for n in range(8)]
OLD, COPY = A + PATHS[3], B + PATHS[3]


def text(name: str) -> str:
    return " ".join(words(random.Random(name), 120))


def site(host: str, *paths: str) -> dict[str, str | int]:
    return {host + path: text(path) for path in paths}


def store_mirrors(view: MemoryView, level: str = "2", tests: int = 8, similar: int = 0) -> None:
    result = {
        "hosts": ["mirror.b.example:8443", "www.a.example"],
        "level": level,
        "tests": tests,
        "same": 8,
        "similar": similar,
    }
    view.results["mirrors"] = [msgspec.json.encode(result)]


def answer(later: dict[str, str | int], level: str | None = "2", redirects: dict[str, str] | None = None) -> Answer:
    """Return the answer about a page that both hosts had in the first sweep, after a second sweep."""
    view = MemoryView().add(site(A, *PATHS) | site(B, *PATHS)).add(later, redirects=redirects)
    if level is not None:
        store_mirrors(view, level)
    return finder_of(view).find(OLD)


ALL_BUT_OLD = site(A, *(path for path in PATHS if path != PATHS[3]))


@pytest.mark.parametrize("level", ["1", "2", "3"])
def test_a_page_that_lives_on_a_mirror_is_a_copy(level: str) -> None:
    result = answer(ALL_BUT_OLD | site(B, *PATHS), level)
    assert (result.status, result.candidates[0].url) == ("copy", COPY)
    evidence = result.candidates[0].evidence[0]
    assert (evidence.kind, evidence.value) == ("mirror", 1.0)
    assert evidence.detail == f"level {level}: 8 of 8 compared pages are alike"
    assert result.candidates[0].confidence == 0.97
    assert max(candidate.confidence for candidate in result.candidates[1:]) <= 0.03
    assert [candidate.url for candidate in result.candidates].count(COPY) == 1


@pytest.mark.parametrize("level", ["4", "5", "mismatch", "untested", None])
def test_a_host_that_is_not_a_close_mirror_has_no_copies(level: str | None) -> None:
    assert answer(ALL_BUT_OLD | site(B, *PATHS), level).status != "copy"


def test_a_copy_that_is_dead_too_is_no_answer() -> None:
    both = ALL_BUT_OLD | site(B, *(path for path in PATHS if path != PATHS[3]))
    assert answer(both).status == "gone"
    assert answer(both | {COPY: 404}).status == "gone"


def test_a_copy_with_another_text_is_no_answer() -> None:
    assert answer(ALL_BUT_OLD | site(B, *PATHS) | {COPY: text("rewritten")}).status == "gone"


def test_a_page_that_moved_has_moved() -> None:
    new = f"{A}/manual/p3/"
    result = answer(ALL_BUT_OLD | site(B, *PATHS) | {new: text(PATHS[3])})
    assert (result.status, result.candidates[0].url) == ("moved", new)
    (copy,) = [candidate for candidate in result.candidates if candidate.url == COPY]
    assert copy.confidence <= 1 - result.candidates[0].confidence + 1e-6
    assert copy.evidence[0].kind == "mirror"
    assert result.candidates == sorted(result.candidates, key=lambda candidate: -candidate.confidence)


def test_a_page_that_appeared_on_the_mirror_has_moved_there() -> None:
    view = MemoryView().add(site(A, *PATHS) | site(B, *(path for path in PATHS if path != PATHS[3])))
    view.add(ALL_BUT_OLD | site(B, *PATHS))
    store_mirrors(view)
    result = finder_of(view).find(OLD)
    assert result.status != "copy"
    assert not any(e.kind == "mirror" for candidate in result.candidates for e in candidate.evidence)


def test_a_redirect_to_the_mirror_is_a_move() -> None:
    result = answer(ALL_BUT_OLD | site(B, *PATHS), redirects={OLD: COPY})
    assert (result.status, result.candidates[0].url) == ("moved", COPY)


def test_a_url_that_is_alive_has_no_copy() -> None:
    assert answer(site(A, *PATHS) | site(B, *PATHS)).status == "alive"


def test_the_confidence_is_the_agreement_of_the_mirror() -> None:
    view = MemoryView().add(site(A, *PATHS) | site(B, *PATHS)).add(ALL_BUT_OLD | site(B, *PATHS))
    store_mirrors(view, "3", tests=20, similar=10)
    assert finder_of(view).find(OLD).candidates[0].confidence == 0.9


def test_results_are_read_once_per_finder(monkeypatch: pytest.MonkeyPatch) -> None:
    view = MemoryView().add(site(A, *PATHS) | site(B, *PATHS)).add(site(B, *PATHS) | site(A, PATHS[0]))
    store_mirrors(view)
    reads: list[str] = []
    newest_results = view.newest_results

    def read(analysis: str, method: str) -> Iterator[bytes]:
        reads.append(analysis)
        return newest_results(analysis, method)

    monkeypatch.setattr(view, "newest_results", read)
    answers = list(finder_of(view).find_many(A + path for path in PATHS))
    assert [answer.status for answer in answers] == ["alive"] + ["copy"] * 7
    assert reads == ["mirrors"]


def test_hosts_with_invalid_names_are_ignored() -> None:
    view = MemoryView().add(site(A, *PATHS)).add(ALL_BUT_OLD)
    mirror = {"hosts": ["a b", "www.a.example"], "level": "1", "tests": 8, "same": 8, "similar": 0}
    view.results["mirrors"] = [msgspec.json.encode(mirror)]
    assert finder_of(view).find(OLD).status == "gone"


def test_results_that_cannot_be_decoded_are_reported() -> None:
    view = MemoryView().add(site(A, *PATHS)).add(ALL_BUT_OLD)
    view.results["mirrors"] = [b"{}"]
    with pytest.raises(StateCorrupt, match="not a stored result of mirrors"):
        finder_of(view).find(OLD)


def test_copies_on_several_mirrors_are_copies_whatever_their_rank() -> None:
    c = "https://third.c.example"
    view = MemoryView().add(site(A, *PATHS) | site(B, *PATHS) | site(c, *PATHS))
    view.add(ALL_BUT_OLD | site(B, *PATHS) | site(c, *PATHS))
    hosts = ["mirror.b.example:8443", "third.c.example", "www.a.example"]
    pairs = [(0, 1), (0, 2), (1, 2)]
    view.results["mirrors"] = [
        msgspec.json.encode({"hosts": [hosts[a], hosts[b]], "level": "1", "tests": 8, "same": 8, "similar": 0})
        for a, b in pairs
    ]
    result = finder_of(view).find(OLD)
    assert result.status == "copy"
    assert result.candidates[0].url in {COPY, c + PATHS[3]}
    copy = MirrorCopies(FindContext(cast("View", view), load())).find(dead_url(view))
    assert copy is not None
    assert copy.keys == {url_key(COPY), url_key(c + PATHS[3])}
    for key in copy.keys:
        sure = Candidate(url=key_url(key), confidence=0.9, evidence=[])
        assert copy.insert([sure], is_moved=True)[1]
    elsewhere = Candidate(url=f"{A}/new", confidence=0.9, evidence=[])
    assert not copy.insert([elsewhere], is_moved=True)[1]


def dead_url(view: MemoryView) -> DeadUrl:
    context = FindContext(cast("View", view), load())
    return context.read_dead_url(context.checked_history(url_key(OLD)), 2)

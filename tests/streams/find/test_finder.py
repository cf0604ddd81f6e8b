"""Answers about small sites, from their complete history."""

from __future__ import annotations

import json

import pytest

from streams.find import Answer
from tests.streams.find.conftest import best, kinds

SITE = "https://site.example"
HOST2 = "https://new.example.net"


def test_urls_can_be_alive_or_unknown(view, finder, pages):
    view.add(pages).add(pages)
    search = finder(view)
    assert search.find(f"{SITE}/trees/ash.html").status == "alive"
    assert search.find(f"{SITE}/never.html") == Answer(
        url=f"{SITE}/never.html", status="unknown", last_seen=None, document=None, candidates=[]
    )
    assert search.find("not a url").status == "unknown"


def test_a_moved_page(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/the-yew/"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew") + " And more."})
    answer = finder(view).find(old)
    assert answer.status == "moved"
    assert best(answer).url == new
    assert best(answer).confidence >= 0.8
    assert best(answer).containment == pytest.approx(1.0, abs=0.05)
    assert {"appeared", "same_host"} <= kinds(answer)
    assert sum(candidate.confidence for candidate in answer.candidates[:2]) <= 1.0 + 1e-6


def test_the_json_contract(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/the-yew/"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew")})
    answer = json.loads(finder(view).find(old).to_json())
    assert list(answer) == ["url", "status", "last_seen", "document", "candidates", "known_url", "decision"]
    assert answer["last_seen"] == "1970-04-11T00:00:00Z"
    assert len(answer["document"]) == 32
    assert list(answer["candidates"][0]) == [
        "url", "confidence", "resemblance", "containment", "first_seen", "last_seen", "evidence",
        "copies",
    ]  # fmt: skip
    assert all(evidence["kind"] for evidence in answer["candidates"][0]["evidence"])


def test_a_page_that_is_gone(view, finder, pages, text):
    old = f"{SITE}/fish/herring.html"
    view.add({**pages, old: text("herring")}).add(pages)
    answer = finder(view).find(old)
    assert answer.status == "gone"
    assert all(candidate.confidence < 0.5 for candidate in answer.candidates)


def test_a_page_folded_into_a_longer_one(view, finder, pages, text):
    old, new = f"{SITE}/yews/needles.html", f"{SITE}/trees/ash.html"
    before = {**pages, old: text("needle", 12)}
    after = {**pages, new: pages[new] + text("needle", 12)}
    view.add(before).add(after)
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert answer.status == "moved"
    assert "folded_in" in kinds(answer)


def test_a_rewritten_page_is_found_by_its_words(view, finder, pages, text):
    old, new = f"{SITE}/a/yew.html", f"{SITE}/b/yew.html"
    words = text("yew").split()
    view.add({**pages, old: " ".join(words)}).add({**pages, new: " ".join(reversed(words))})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert best(answer).resemblance == pytest.approx(0.0, abs=0.1)


def test_the_longest_version_of_a_stub_is_compared(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yews.html"
    view.add({**pages, old: text("yew")}).add({**pages, old: "This page has moved away."})
    view.add({**pages, new: text("yew")})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert answer.status == "moved"


def test_rules_predict_pages_rewritten_beyond_recognition(view, finder, pages, text):
    names = ["perch", "tench", "roach", "bream", "ruffe"]
    old = {f"{SITE}/docs/{name}.html": text(name) for name in names}
    new = {f"{SITE}/guide/water/{name}/": text(name) for name in names}
    lost, target = f"{SITE}/docs/pike.html", f"{SITE}/guide/water/pike/"
    view.add({**pages, **old, lost: text("pike")}).add({**pages, **new, target: text("otherwise")})
    *_, answer = finder(view).find_many([*old, lost])
    assert best(answer).url == target
    assert "rule" in kinds(answer)
    single = next(finder(view).find_many([lost]))
    assert "rule" in kinds(single)  # its missing neighbours are traced too
    unseen = next(iter(list(finder(view).find_many([*old, f"{SITE}/docs/pike.html#x"]))[-1:]))
    assert unseen.url.endswith("#x")


def test_rules_are_learned_from_the_last_moves_only(view, finder, pages, text, monkeypatch):
    names = ["perch", "tench", "roach", "bream", "ruffe"]
    old = {f"{SITE}/docs/{name}.html": text(name) for name in names}
    new = {f"{SITE}/guide/water/{name}/": text(name) for name in names}
    lost, target = f"{SITE}/docs/pike.html", f"{SITE}/guide/water/pike/"
    view.add({**pages, **old, lost: text("pike")}).add({**pages, **new, target: text("otherwise")})
    for moves_max, is_learned in ((5, True), (1, False)):
        monkeypatch.setattr("streams.find.finder.MOVES_MAX", moves_max)
        search = finder(view)
        answers = {
            answer.url: answer for answer in search.find_many([*old, lost, *(f"{SITE}/none/{n}" for n in range(9))])
        }
        answer = answers[lost]
        assert ("rule" in kinds(answer)) is is_learned
        assert search.counters["find_moves_max"] == 5 - moves_max


def test_rules_predict_only_pages_that_exist(view, finder, pages, text):
    names = ["perch", "tench", "roach"]
    old = {f"{SITE}/docs/{name}.html": text(name) for name in names}
    new = {f"{SITE}/guide/{name}/": text(name) for name in names}
    lost = f"{SITE}/docs/pike.html"
    view.add({**pages, **old, lost: text("pike")}).add({**pages, **new})
    *_, answer = finder(view).find_many([*old, lost])
    assert f"{SITE}/guide/pike/" not in [candidate.url for candidate in answer.candidates]


def test_candidates_are_ranked_by_sketches_if_texts_are_not_stored(view_without_texts, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    view_without_texts.add({**pages, old: text("yew")}).add({**pages, new: text("yew") + text("bark")})
    answer = finder(view_without_texts).find(old)
    assert best(answer).url == new
    assert (best(answer).containment or 0.0) > 0.6


def test_answers_keep_the_order_of_questions(view, finder, pages, text):
    view.add(pages).add(pages)
    urls = [*pages, "nonsense", f"{SITE}/never"]
    assert [answer.url for answer in finder(view).find_many(iter(urls))] == urls


def test_questions_about_an_empty_state_have_answers(view, finder):
    assert finder(view).find(f"{SITE}/").status == "unknown"
    assert list(finder(view).find_many([])) == []


def test_answers_have_at_most_the_configured_number_of_candidates(view, finder, pages, text):
    old = {
        f"{SITE}/fish/{name}": text("eel") + text(name) for name in ("cod", "pike", "carp", "bass", "hake", "ling")
    }
    view.add({**pages, **old})
    view.add({**pages, **dict.fromkeys(old, text("sorry")), **{f"{SITE}/{n}/cod": text("eel") for n in range(4)}})
    for limit in (1, 2, 3):
        assert len(finder(view, answers_max=limit).find(f"{SITE}/fish/cod").candidates) == limit

"""A decision overrides the ranking; decisions about missing targets are followed, and loops end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streams.decisions import gone, moved
from streams.find.redirect_maps import build_redirect_map
from tests.streams.find.conftest import DAY, best

SITE = "https://site.example"
OLD, NEW, OTHER = f"{SITE}/old/yew.html", f"{SITE}/wood/the-yew/", f"{SITE}/trees/oak.html"
TIME = 300 * DAY


@pytest.fixture
def site(view, pages, text):
    """A site on which a page moved from OLD to NEW, as the ranking finds out."""
    return view.add({**pages, OLD: text("yew")}).add({**pages, NEW: text("yew") + " And more."})


def kinds_of(candidate):
    return [evidence.kind for evidence in candidate.evidence]


def test_the_decided_url_comes_first_and_the_ranking_follows(site, finder):
    ranked = finder(site).find(OLD)
    assert best(ranked).url == NEW
    assert ranked.decision is None
    answer = finder(site.decide(moved(OLD, OTHER, TIME))).find(OLD)
    assert (answer.status, best(answer).url, best(answer).confidence) == ("moved", OTHER, 1.0)
    assert best(answer).evidence[0].kind == "decision"
    assert best(answer).evidence[0].detail == "by an editor on 1970-10-28"
    assert answer.decision.new == OTHER
    assert answer.decision.decided_at == "1970-10-28T00:00:00Z"
    assert NEW in [candidate.url for candidate in answer.candidates[1:]]
    assert {candidate.confidence for candidate in answer.candidates[1:]} == {0.0}
    assert len({candidate.url for candidate in answer.candidates}) == len(answer.candidates)
    assert answer.last_seen == ranked.last_seen


def test_a_decided_url_that_the_ranking_has_too_keeps_its_figures(site, finder):
    ranked = best(finder(site).find(OLD))
    decided = best(finder(site.decide(moved(OLD, NEW, TIME))).find(OLD))
    assert (decided.resemblance, decided.containment) == (ranked.resemblance, ranked.containment)
    assert kinds_of(decided) == ["decision", *kinds_of(ranked)]


def test_a_page_that_is_gone_has_no_new_url(site, finder):
    answer = finder(site.decide(gone(OLD, TIME))).find(OLD)
    assert answer.status == "gone"
    assert best(answer).url == NEW
    assert {candidate.confidence for candidate in answer.candidates} == {0.0}
    assert answer.decision.new is None
    assert not build_redirect_map([answer], 0.0).moves


def test_a_url_that_is_alive_stays_alive(site, finder):
    answer = finder(site.decide(moved(OTHER, NEW, TIME))).find(OTHER)
    assert (answer.status, answer.candidates) == ("alive", [])
    assert answer.decision.new == NEW


def test_a_url_that_no_sweep_captured_can_be_decided(site, finder):
    site.decide(moved(f"{SITE}/never", NEW, TIME))
    (answer,) = finder(site).find_many(["http://site.example/never#part"])
    assert (answer.status, answer.last_seen, best(answer).url) == ("moved", None, NEW)


def test_tracking_parameters_do_not_hide_a_decision(site, finder):
    answer = finder(site.decide(moved(OLD, OTHER, TIME))).find(f"{OLD}?utm_source=news")
    assert (answer.known_url, best(answer).url) == (OLD, OTHER)


def test_a_missing_target_is_reported_and_never_a_redirect(site, finder, pages):
    site.add(pages)  # NEW is missing now
    answer = finder(site.decide(moved(OLD, NEW, TIME))).find(OLD)
    assert (answer.status, best(answer).url, best(answer).confidence) == ("moved", NEW, 1.0)
    assert kinds_of(best(answer))[:2] == ["decision", "target_missing"]
    redirects = build_redirect_map([answer], 0.5)
    assert not redirects.moves
    assert redirects.dropped == {OLD: "leads to a URL that is missing too"}


def test_a_target_that_was_never_captured_is_reported(site, finder):
    answer = finder(site.decide(moved(OLD, f"{SITE}/planned/", TIME))).find(OLD)
    assert kinds_of(best(answer)) == ["decision", "not_captured"]
    assert build_redirect_map([answer], 0.5).moves == {OLD: (f"{SITE}/planned/", 1.0)}


def test_decisions_about_missing_targets_are_followed(site, finder, pages):
    site.add(pages)
    site.decide(moved(OLD, NEW, TIME), moved(NEW, f"{SITE}/third/", TIME), moved(f"{SITE}/third/", OTHER, TIME))
    candidate = best(finder(site).find(OLD))
    assert (candidate.url, candidate.confidence) == (OTHER, 1.0)
    assert [evidence.detail for evidence in candidate.evidence if evidence.kind == "stop"] == [NEW, f"{SITE}/third/"]
    # A target that is alive ends the search.
    site.decide(moved(OTHER, f"{SITE}/trees/ash.html", TIME))
    assert best(finder(site).find(OLD)).url == OTHER


def test_a_page_whose_decided_target_is_gone_is_gone(site, finder, pages):
    site.add(pages)
    answer = finder(site.decide(moved(OLD, NEW, TIME), gone(NEW, TIME))).find(OLD)
    assert (answer.status, best(answer).url, best(answer).confidence) == ("gone", NEW, 0.0)


@pytest.mark.parametrize("targets", [[NEW, OLD], [NEW, f"{SITE}/third/", NEW], [NEW, f"{SITE}/third/", OLD]])
def test_decisions_in_a_loop_end(site, finder, pages, targets):
    site.add(pages)
    for old, new in zip([OLD, *targets[:-1]], targets, strict=True):
        site.decide(moved(old, new, TIME))
    answer = finder(site).find(OLD)
    assert best(answer).url == targets[-2]
    assert {"target_missing", "not_captured"} & set(kinds_of(best(answer)))


def test_a_long_chain_of_decisions_is_cut_off_and_counted(site, finder):
    chain = [OLD, *(f"{SITE}/{number}" for number in range(20))]
    site.decide(*(moved(old, new, TIME) for old, new in pairwise(chain)))
    search = finder(site)
    assert best(search.find(OLD)).url == chain[9]
    assert search.counters["find_decision_steps_max"] == 1


@pytest.fixture
def rewritten(view, pages, text):
    """A site on which a folder of three pages was renamed, and its pages rewritten beyond recognition."""
    old, new = ([f"{SITE}/{folder}/{name}.html" for name in ("aspen", "beech", "alder")] for folder in ("a", "b"))
    subjects = ("herring", "granite", "violin")
    view.add({**pages, **{url: text(f"{number}th") for number, url in enumerate(old)}})
    view.add({**pages, **{url: text(subject) for subject, url in zip(subjects, new, strict=True)}})
    return old, new


def kinds_by_url(answer):
    return {candidate.url: kinds_of(candidate) for candidate in answer.candidates}


def test_rules_are_learned_from_decisions(view, finder, rewritten):
    old, new = rewritten
    (answer,) = finder(view).find_many([old[2]])
    assert "rule" not in kinds_by_url(answer).get(new[2], [])
    view.decide(*(moved(*pair, TIME) for pair in zip(old[:2], new[:2], strict=True)))
    (answer,) = finder(view).find_many([old[2]])
    assert "rule" in kinds_by_url(answer)[new[2]]
    assert answer.decision is None


def test_a_page_decided_as_gone_supports_no_rule(site, finder):
    search = finder(site)
    assert search._move_target(search._search(OLD)) == NEW
    search = finder(site.decide(gone(OLD, TIME)))
    assert search._move_target(search._search(OLD)) is None


def test_the_rank_ignores_decisions(site, finder):
    before = finder(site).ranked_urls(OLD)
    assert finder(site.decide(moved(OLD, OTHER, TIME))).ranked_urls(OLD) == before

"""Confidence, figures and evidence of the candidates of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from state.model import Capture
from streams.find import Evidence
from streams.find import score as scoring
from streams.find.find_context import DeadUrl
from streams.find.missing_rule import UrlHistory
from streams.find.ranking import RankedCandidate
from streams.find.redirects import RedirectTarget
from streams.find.report import SearchResult, build_candidates, guessed_candidate, soft_404_candidate
from streams.find.rewrite_rules import Prediction, Rule
from streams.find.score import Traits
from streams.find.trace import Hop, Trace
from streams.urls import url_key

SITE = "https://site.example"
OLD = f"{SITE}/old.html"
RULE = Rule(f"{SITE[6:]}/doc/", ".html", f"{SITE[6:]}/guide/", ".html")
SURE = Traits(resemblance=0.9, containment=0.9, weighted_containment=0.9, cosine=0.9, appeared=True)
PATH_ALONE = Traits(cosine=0.1, path=1.0, title=1.0, appeared=True)


def capture(url: str, document: bytes | None = b"d" * 16, status: int = 200) -> Capture:
    return Capture(
        key=url_key(url), url=url, sweep=2, time=86_400_000, status=status, document=document, raw_fingerprint=b""
    )


def history(url: str, *, pages: tuple[Capture, ...] | None = None, **fields: Any) -> UrlHistory:
    defaults: dict[str, Any] = {
        "textless_success": None,
        "failures": (),
        "missing_since": None,
    }
    return UrlHistory(key=url_key(url), pages=(capture(url),) if pages is None else pages, **{**defaults, **fields})


def ranked(url: str, traits: Traits, document: bytes = b"d" * 16) -> RankedCandidate:
    return RankedCandidate(history(url, pages=(capture(url, document),)), traits, scoring.score(traits))


def result(*candidates: RankedCandidate, hops: tuple[Hop, ...] = (), **options: Any) -> SearchResult:
    dead = DeadUrl(key=url_key(OLD), url=OLD, row=None, features=None, last_sweep=1, missing_since=2)
    return SearchResult(dead, Trace(list(candidates), list(hops)), **options)


def redirect(url: str, *, is_catch_all: bool = False, steps: int = 1, **fields: Any) -> RedirectTarget:
    return RedirectTarget(url, history(url, **fields), is_catch_all, steps)


def test_candidates_share_the_probability_that_the_first_one_leaves():
    weak = SURE._replace(containment=0.8, weighted_containment=0.8)
    candidates = build_candidates(result(ranked(f"{SITE}/a", SURE), ranked(f"{SITE}/b", weak, b"e" * 16)), 5)
    assert [candidate.url for candidate in candidates] == [f"{SITE}/a", f"{SITE}/b"]
    assert sum(candidate.confidence for candidate in candidates) <= 1.0


def test_no_more_candidates_than_the_limit_are_returned():
    many = [ranked(f"{SITE}/{n}", SURE, bytes([n]) * 16) for n in range(4)]
    assert len(build_candidates(result(*many), 2)) == 2
    assert len(build_candidates(result(*many, redirect=redirect(f"{SITE}/9")), 2)) == 2


def test_two_spellings_of_one_page_do_not_lower_each_other():
    alone = build_candidates(result(ranked(f"{SITE}/a", SURE)), 1)[0]
    both = build_candidates(result(ranked(f"{SITE}/a", SURE), ranked(f"{SITE}/a/", SURE)), 1)[0]
    rival = build_candidates(result(ranked(f"{SITE}/a", SURE), ranked(f"{SITE}/b", SURE)), 1)[0]
    assert both.confidence == alone.confidence
    assert rival.confidence < alone.confidence


def test_doubtful_hops_lower_the_confidence_unless_the_text_is_identical():
    hop = Hop(f"{SITE}/stop", 0.1, history(f"{SITE}/stop"), 3)
    direct = build_candidates(result(ranked(f"{SITE}/a", SURE)), 1)[0]
    onward = build_candidates(result(ranked(f"{SITE}/a", SURE), hops=(hop,)), 1)[0]
    assert onward.confidence < direct.confidence
    assert onward.evidence[0] == Evidence("stop", 0.1, f"{SITE}/stop")
    identical = ranked(f"{SITE}/a", SURE._replace(resemblance=1.0))
    assert build_candidates(result(identical, hops=(hop,)), 1)[0].confidence == direct.confidence


def test_a_redirect_comes_before_better_scores():
    compared = ranked(f"{SITE}/b", Traits(cosine=0.1), b"e" * 16)
    search = result(ranked(f"{SITE}/a", SURE), compared, redirect=redirect(f"{SITE}/b", steps=2))
    first, second = build_candidates(search, 5)
    assert (first.url, first.confidence) == (f"{SITE}/b", scoring.REDIRECT_CONFIDENCE)
    assert first.evidence[0] == Evidence("redirect", detail=f"{SITE}/b in 2 steps")
    assert second.confidence <= 1.0 - first.confidence + 1e-9


def test_a_catch_all_redirect_to_an_unlike_page_is_sorted_by_its_confidence():
    compared = ranked(f"{SITE}/home", Traits(cosine=0.1), b"e" * 16)
    target = redirect(f"{SITE}/home", is_catch_all=True)
    first, second = build_candidates(result(ranked(f"{SITE}/a", SURE), compared, redirect=target), 5)
    assert first.url == f"{SITE}/a"
    assert second.confidence == scoring.DOUBTFUL_REDIRECT_CONFIDENCE
    assert second.evidence[0].kind == "redirect_of_many"


def uncompared(**fields: Any) -> tuple[float, list[str]]:
    (candidate,) = build_candidates(result(redirect=redirect(f"{SITE}/b", **fields)), 5)
    assert candidate.resemblance is None
    return candidate.confidence, [evidence.kind for evidence in candidate.evidence]


def test_redirects_to_pages_that_were_not_compared():
    error = capture(f"{SITE}/b", b"e" * 16)
    assert uncompared() == (0.97, ["redirect"])
    assert uncompared(is_catch_all=True) == (0.45, ["redirect"])
    assert uncompared(pages=()) == (0.6, ["redirect", "not_captured"])
    assert uncompared(missing_since=3) == (0.0, ["redirect", "target_missing"])
    assert uncompared(failures=(error,)) == (0.0, ["redirect", "suspected_soft_404"])


def test_evidence_shows_what_the_ranking_weighted():
    traits = Traits(
        resemblance=0.1,
        containment=0.9,
        cosine=0.5,
        coexisted=0.3,
        path=0.4,
        appeared=True,
        copied_tree=0.2,
        rule=0.7,
    )
    new = "https://www.site.example/new"
    prediction = Prediction("//www.site.example/new", 0.7, RULE, 3)
    (candidate,) = build_candidates(result(ranked(new, traits), predictions={url_key(new): prediction}), 5)
    assert [(evidence.kind, evidence.value) for evidence in candidate.evidence] == [
        ("folded_in", 0.9), ("words", 0.5), ("appeared", None), ("stood_beside", 0.3), ("copied_tree", 0.2),
        ("path", 0.4), ("rule", 0.7), ("same_domain", None),
    ]  # fmt: skip
    (plain,) = build_candidates(result(ranked("https://other.example/", Traits())), 5)
    assert [evidence.kind for evidence in plain.evidence] == ["other_domain"]


def test_an_error_page_at_the_old_url_is_reported_without_confidence():
    candidate = soft_404_candidate(history(OLD, failures=(capture(OLD),), missing_since=2))
    assert (candidate.url, candidate.confidence) == (OLD, 0.0)
    assert (candidate.first_seen, candidate.last_seen) == (None, "1970-01-02T00:00:00Z")
    assert [evidence.kind for evidence in candidate.evidence] == ["suspected_soft_404"]


def test_a_guess_has_a_share_of_the_confidence_of_its_rule():
    candidate = guessed_candidate(
        history(f"{SITE}/guide/a.html"), Prediction("//site.example/guide/a.html", 0.5, RULE, 3)
    )
    assert (candidate.url, candidate.confidence) == (f"{SITE}/guide/a.html", 0.15)
    rule = "//site.example/doc/*.html -> //site.example/guide/*.html (3 moves)"
    assert candidate.evidence == [Evidence("rule", 0.5, rule)]


def test_no_candidate_is_more_likely_than_the_first():
    """The path alone lowers the confidence of the first candidate, which keeps its rank."""
    first, second = build_candidates(
        result(ranked(f"{SITE}/a", PATH_ALONE)._replace(score=3.0), ranked(f"{SITE}/b", SURE, b"e" * 16)), 2
    )
    assert second.confidence <= first.confidence <= scoring.PATH_ALONE_CONFIDENCE_MAX


@pytest.mark.parametrize("hops", [(), (Hop(f"{SITE}/stop", 0.9, history(f"{SITE}/stop"), 3),)])
def test_a_path_alone_is_not_sure_with_or_without_hops(hops):
    (candidate,) = build_candidates(result(ranked(f"{SITE}/a", PATH_ALONE)._replace(score=3.0), hops=hops), 1)
    assert candidate.confidence == scoring.PATH_ALONE_CONFIDENCE_MAX

"""Turn the result of a search into the candidates of an answer: confidence, figures and evidence."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from state.codecs.url_key import url_of
from streams.find import score as scoring
from streams.find.answer import Candidate, Copy, Evidence
from streams.find.copies import version_of
from streams.find.find_context import DeadUrl
from streams.find.link_evidence import Substitution
from streams.find.missing_rule import UrlHistory
from streams.find.ranking import RankedCandidate
from streams.find.redirects import RedirectTarget
from streams.find.rewrite_rules import Prediction
from streams.find.trace import Trace
from streams.timestamps import format_iso
from streams.urls import domain_key, host_prefix, key_host

_FOLDED_CONTAINMENT_MIN, _FOLDED_RESEMBLANCE_MAX = 0.5, 0.3  # of an old page that was folded into a larger page
_COEXISTED_MIN, _PATH_MIN, _COSINE_MIN = 0.2, 0.3, 0.2  # weaker evidence is not reported
_UNCAPTURED_TARGET_CONFIDENCE = 0.6  # for a target of a redirect or of links if no sweep captured the target
_GUESS_FACTOR = 0.3  # confidence of a guess, as a share of its rule's confidence
_SAME_PAGE_SUFFIXES = (b"/", b".html", b"/index", b"/")  # stripped in this order


class SearchResult(msgspec.Struct, frozen=True):
    """The search result for one dead URL. `predictions` maps the keys of predicted URLs to their predictions."""

    dead: DeadUrl
    trace: Trace
    redirect: RedirectTarget | None = None
    predictions: Mapping[bytes, Prediction] = {}


def build_candidates(result: SearchResult, limit: int) -> list[Candidate]:
    """Return at most `limit` candidates, the best first. A redirect target comes first, unless it is doubtful."""
    redirect = _redirect_candidate(result, result.redirect) if result.redirect else None
    ranked = result.trace.ranked
    others = [c for c in ranked if result.redirect is None or c.history.key != result.redirect.history.key]
    candidates: list[Candidate] = []
    confidence_left = 1.0
    if redirect is not None and redirect.confidence > scoring.DOUBTFUL_REDIRECT_CONFIDENCE:
        candidates.append(redirect)
        confidence_left -= redirect.confidence
    for index, other in enumerate(others[:limit]):
        confidence = _confidence(result, others, index)
        # Only one candidate can be right, and the first is the most likely one.
        confidence = min(confidence, confidence_left) if candidates else confidence
        candidates.append(_compared_candidate(result, other, confidence))
        confidence_left = min(confidence_left, candidates[0].confidence, 1.0 - candidates[0].confidence)
    if redirect is not None and redirect not in candidates:  # a doubtful redirect target is ranked by confidence
        candidates.append(redirect)
        candidates.sort(key=lambda candidate: -candidate.confidence)
    for uncaptured in _uncaptured_candidates(result):
        position = sum(candidate.confidence >= uncaptured.confidence for candidate in candidates)
        candidates.insert(position, uncaptured)
    return candidates[:limit]


def _uncaptured_candidates(result: SearchResult) -> list[Candidate]:
    """Return a list with the strongest link substitution to a URL that was never captured, or an empty list."""
    uncaptured = [s for s in result.dead.substitutions.values() if not s.is_captured]
    if not uncaptured:
        return []
    best = max(uncaptured, key=lambda substitution: substitution.strength)
    return [
        Candidate(
            url=url_of(best.key, https=best.https),
            confidence=round(_UNCAPTURED_TARGET_CONFIDENCE * best.strength, 4),
            evidence=[*link_evidence(result.dead, best.key), Evidence("not_captured")],
        )
    ]


def soft_404_candidate(history: UrlHistory) -> Candidate:
    """Return the old URL as a candidate with confidence 0, to report that it serves a suspected soft 404."""
    last = history.failures[-1]
    evidence = Evidence(
        "suspected_soft_404", detail="many unrelated URLs of the host changed to this page or near-copies of it"
    )
    return Candidate(url=last.url, confidence=0.0, last_seen=format_iso(last.time), evidence=[evidence])


def guessed_candidate(history: UrlHistory, prediction: Prediction) -> Candidate:
    """Return the page that a rule predicts as a candidate for an old URL that was never captured."""
    confidence = round(_GUESS_FACTOR * prediction.confidence, 4)
    return _uncompared_candidate(history.pages[-1].url, history, confidence, _rule_evidence(prediction))


def _confidence(result: SearchResult, ranked: list[RankedCandidate], index: int) -> float:
    candidate, hops = ranked[index], result.trace.hops
    rivals = [other for other in ranked if other is not candidate and not _is_same_page(other, candidate)]
    second_score = rivals[0].score if rivals else 0.0
    hop_confidences = [hop.confidence for hop in hops]
    confidence = scoring.confidence(candidate.score, second_score, candidate.traits, hop_confidences)
    if hops and candidate.traits.resemblance == 1.0:
        # The candidate has exactly the text of the old page, so doubts about the hops do not matter.
        second_score = max((scoring.score(rival.traits) for rival in rivals), default=0.0)
        direct_confidence = scoring.confidence(scoring.score(candidate.traits), second_score, candidate.traits)
        confidence = max(confidence, direct_confidence)
    if scoring.is_path_the_only_evidence(candidate.traits):
        confidence = min(confidence, scoring.PATH_ALONE_CONFIDENCE_MAX)
    return confidence


def _is_same_page(a: RankedCandidate, b: RankedCandidate) -> bool:
    """Return whether two candidates, such as `/x` and `/x/`, are one page. If so, they do not compete."""
    if a.history.pages[-1].document != b.history.pages[-1].document:
        return False
    key_a, key_b = a.history.key, b.history.key
    for suffix in _SAME_PAGE_SUFFIXES:
        key_a, key_b = key_a.removesuffix(suffix), key_b.removesuffix(suffix)
    return key_a == key_b


def _redirect_candidate(result: SearchResult, redirect: RedirectTarget) -> Candidate:
    detail = redirect.url if redirect.steps == 1 else f"{redirect.url} in {redirect.steps} steps"
    evidence = Evidence("redirect", detail=detail)
    ranked = next((c for c in result.trace.ranked if c.history.key == redirect.history.key), None)
    if ranked is None:
        return _uncompared_redirect(redirect, evidence)
    if redirect.is_catch_all and scoring.is_doubtful_redirect(ranked.traits):
        evidence = Evidence("redirect_of_many", detail=detail)
        return _compared_candidate(result, ranked, scoring.DOUBTFUL_REDIRECT_CONFIDENCE, evidence)
    return _compared_candidate(result, ranked, scoring.REDIRECT_CONFIDENCE, evidence)


def _uncompared_redirect(redirect: RedirectTarget, evidence: Evidence) -> Candidate:
    """Return a redirect target that was not ranked: it is dead, or has had no page since the old URL went missing."""
    url, history = redirect.url, redirect.history
    if history.failures and history.failures[-1].document is not None:
        return _uncompared_candidate(url, history, 0.0, evidence, Evidence("suspected_soft_404"))
    if history.last_success and not history.is_alive:
        return _uncompared_candidate(url, history, 0.0, evidence, Evidence("target_missing"))
    confidence = scoring.REDIRECT_CONFIDENCE if history.is_alive else _UNCAPTURED_TARGET_CONFIDENCE
    if redirect.is_catch_all:
        confidence = scoring.DOUBTFUL_REDIRECT_CONFIDENCE
    doubts = [] if history.is_alive else [Evidence("not_captured")]
    return _uncompared_candidate(url, history, confidence, evidence, *doubts)


def _uncompared_candidate(url: str, history: UrlHistory, confidence: float, *evidence: Evidence) -> Candidate:
    first_success = history.pages[0] if history.pages else history.textless_success
    return Candidate(
        url=url,
        confidence=confidence,
        first_seen=format_iso(first_success.time) if first_success else None,
        last_seen=format_iso(history.last_success.time) if history.last_success else None,
        evidence=list(evidence),
    )


def _compared_candidate(
    result: SearchResult, candidate: RankedCandidate, confidence: float, *first_evidence: Evidence
) -> Candidate:
    pages, traits = candidate.history.pages, candidate.traits
    has_old_page = result.dead.row is not None
    return Candidate(
        url=pages[-1].url,
        confidence=round(confidence, 4),
        resemblance=round(traits.resemblance, 4) if has_old_page else None,
        containment=round(traits.containment, 4) if has_old_page else None,
        first_seen=format_iso(pages[0].time),
        last_seen=format_iso(pages[-1].time),
        evidence=[*first_evidence, *_evidence(result, candidate)],
        copies=[_copy(candidate, copy.history) for copy in candidate.copies],
    )


def _copy(candidate: RankedCandidate, history: UrlHistory) -> Copy:
    host = key_host(history.key, with_port=True)
    is_same_host = host == key_host(candidate.history.key, with_port=True)
    return Copy(history.pages[-1].url, None if is_same_host else host, version_of(history.key))


def _evidence(result: SearchResult, candidate: RankedCandidate) -> list[Evidence]:
    # Three names in JSON differ from the names in the code: `words` is the cosine, `stood_beside` is `coexisted`, and
    # `stop` is a hop.
    traits, key = candidate.traits, candidate.history.key
    evidence = [Evidence("stop", round(hop.confidence, 4), hop.url) for hop in result.trace.hops]
    if traits.containment >= _FOLDED_CONTAINMENT_MIN and traits.resemblance < _FOLDED_RESEMBLANCE_MAX:
        evidence.append(Evidence("folded_in", round(traits.containment, 4)))
    if traits.cosine is not None and traits.cosine >= _COSINE_MIN:
        evidence.append(Evidence("words", round(traits.cosine, 4)))
    if traits.appeared:
        evidence.append(Evidence("appeared", detail="in the sweep in which the old URL went missing"))
    if traits.coexisted >= _COEXISTED_MIN:
        evidence.append(Evidence("stood_beside", round(traits.coexisted, 4)))
    if traits.copied_tree > 0:
        evidence.append(Evidence("copied_tree", round(traits.copied_tree, 4)))
    if traits.path >= _PATH_MIN:
        evidence.append(Evidence("path", round(traits.path, 4)))
    if traits.rule > 0 and key in result.predictions:
        evidence.append(_rule_evidence(result.predictions[key]))
    evidence += link_evidence(result.dead, key)
    if host_prefix(result.dead.key) == host_prefix(key):
        return [*evidence, Evidence("same_host")]
    is_same_domain = domain_key(result.dead.key) == domain_key(key)
    return [*evidence, Evidence("same_domain" if is_same_domain else "other_domain")]


def link_evidence(dead: DeadUrl, key: bytes) -> list[Evidence]:
    """Return the evidence of links for the candidate with this URL key."""
    evidence: list[Evidence] = []
    if (substitution := dead.substitutions.get(key)) is not None:
        evidence.append(substitution_evidence(substitution))
    if key in dead.declared:
        kind, strength = dead.declared[key]
        evidence.append(Evidence(kind.name.lower(), round(strength, 4)))
    return evidence


def substitution_evidence(substitution: Substitution) -> Evidence:
    """Return a link substitution as evidence: its strength, the number of linking pages, and their anchor."""
    strength = round(substitution.strength, 4)
    return Evidence("link_substitution", strength, pages=substitution.pages, anchor=substitution.anchor)


def _rule_evidence(prediction: Prediction) -> Evidence:
    return Evidence("rule", round(prediction.confidence, 4), f"{prediction.rule} ({prediction.support} moves)")

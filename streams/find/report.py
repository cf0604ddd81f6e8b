"""From ranked candidates to what an answer says of them: confidence, figures, evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streams.find import score as scoring
from streams.find.answer import Candidate, Evidence
from streams.timestamps import iso
from streams.urls import domain_prefix, host_prefix

if TYPE_CHECKING:
    from streams.find.candidates import DeadUrl
    from streams.find.history import Life
    from streams.find.paths import Predicted
    from streams.find.ranking import Ranked, Stop

_FOLDED_CONTAINMENT = 0.5
_FOLDED_RESEMBLANCE = 0.3
_BESIDE_SHOWN = 0.2
_UNSEEN_TARGET = 0.6  # a redirect to a URL that no sweep held
_PATH_SHOWN = 0.3
_COSINE_SHOWN = 0.2
_GUESS = 0.3


class Redirected(NamedTuple):
    """The end of the redirects that the crawler met at a URL; `polite` ones are met by many URLs alike."""

    url: str
    key: bytes
    life: Life
    polite: bool
    steps: int


class Found(NamedTuple):
    """All that was found for one URL, best candidates first."""

    question: DeadUrl
    ranked: list[Ranked]
    stops: list[Stop]
    redirected: Redirected | None
    predicted: dict[bytes, Predicted]


def candidates_of(found: Found, limit: int) -> list[Candidate]:
    """Candidates with their confidence, best first: a redirect that nothing speaks against, then by score."""
    ranked, redirected = found.ranked, found.redirected
    redirect = _redirect_candidate(found) if redirected else None
    others = [each for each in ranked if redirected is None or each.life.key != redirected.key]
    left = 1.0
    out: list[Candidate] = []
    if redirect is not None and redirect.confidence > scoring.REDIRECT_DOUBTED:
        out.append(redirect)
        left -= redirect.confidence
    for at, each in enumerate(others[:limit]):
        sure = _confidence(found, others, at)
        # Only one can be right: what the first leaves is all that others can have.
        sure = min(sure, left) if out else sure
        out.append(_candidate(found, each, sure))
        left = min(left, 1.0 - out[0].confidence)
    if redirect is not None and redirect not in out:
        out.append(redirect)
        out.sort(key=lambda candidate: -candidate.confidence)
    return out[:limit]


def _confidence(found: Found, ranked: list[Ranked], at: int) -> float:
    each = ranked[at]
    second = next((other.score for other in ranked if other is not each and not _same_page(other, each)), 0.0)
    sure = scoring.confidence(each.score, second, each.traits)
    for stop in found.stops:
        sure *= stop.confidence
    if found.stops and each.traits.resemblance == 1.0:
        # The very page: doubts about URLs that it had on the way say nothing about where it is.
        own = [scoring.score(other.traits) for other in ranked if other is not each and not _same_page(other, each)]
        sure = max(sure, scoring.confidence(scoring.score(each.traits), max(own, default=0.0), each.traits))
    return sure


def _same_page(a: Ranked, b: Ranked) -> bool:
    """Two spellings of one page's URL, such as `/x` and `/x/`, which must not make each other doubtful."""
    one, other = a.life.last, b.life.last
    if one is None or other is None or one.document != other.document:
        return False
    trim = (b"/", b".html", b"/index", b"/")
    keys = [a.life.key, b.life.key]
    for end in trim:
        keys = [key.removesuffix(end) for key in keys]
    return keys[0] == keys[1]


def _redirect_candidate(found: Found) -> Candidate | None:
    redirected = found.redirected
    if redirected is None:
        return None
    detail = redirected.url if redirected.steps == 1 else f"{redirected.url} in {redirected.steps} steps"
    evidence = Evidence("redirect", detail=detail)
    there = next((each for each in found.ranked if each.life.key == redirected.key), None)
    if there is None:
        life = redirected.life
        soft = bool(life.refused) and life.refused[-1].document is not None
        if soft or (life.answered and not life.alive):
            against = Evidence("suspected_soft_404") if soft else Evidence("target_missing")
            return _bare(redirected.url, life, 0.0, [evidence, against])
        # One that lives may not have been compared: it holds no text, or another crawl than the one that missed this.
        sure = scoring.REDIRECT_CONFIDENCE if life.alive else _UNSEEN_TARGET
        why = [] if life.alive else [Evidence("not_captured")]
        return _bare(redirected.url, life, scoring.REDIRECT_DOUBTED if redirected.polite else sure, [evidence, *why])
    if redirected.polite and scoring.doubtful_redirect(there.traits):
        evidence = Evidence("redirect_of_many", detail=detail)
        return _candidate(found, there, scoring.REDIRECT_DOUBTED, evidence)
    return _candidate(found, there, scoring.REDIRECT_CONFIDENCE, evidence)


def _bare(url: str, life: Life, sure: float, evidence: list[Evidence]) -> Candidate:
    first = life.held[0] if life.held else life.textless
    last = life.answered
    return Candidate(
        url=url,
        confidence=sure,
        resemblance=None,
        containment=None,
        first_seen=iso(first.time) if first else None,
        last_seen=iso(last.time) if last else None,
        evidence=evidence,
    )


def soft_404(life: Life) -> Candidate:
    """The old URL itself, which now serves what many others do: reported, never a target."""
    last = life.refused[-1]
    names = "the URL serves a page that many unrelated URLs of its host serve"
    evidence = [Evidence("suspected_soft_404", detail=names)]
    return Candidate(
        url=last.url,
        confidence=0.0,
        resemblance=None,
        containment=None,
        first_seen=None,
        last_seen=iso(last.time),
        evidence=evidence,
    )


def guess(life: Life, predicted: Predicted) -> Candidate:
    """Where a rule leads from a URL that was never seen."""
    evidence = [_rule(predicted)]
    url = life.held[-1].url
    return _bare(url, life, round(_GUESS * predicted.confidence, 4), evidence)


def _candidate(found: Found, each: Ranked, sure: float, first: Evidence | None = None) -> Candidate:
    life, traits = each.life, each.traits
    known = found.question.row is not None
    return Candidate(
        url=life.held[-1].url,
        confidence=round(sure, 4),
        resemblance=round(traits.resemblance, 4) if known else None,
        containment=round(traits.containment, 4) if known else None,
        first_seen=iso(life.held[0].time),
        last_seen=iso(life.held[-1].time),
        evidence=([first] if first else []) + _evidence(found, each),
    )


def _evidence(found: Found, each: Ranked) -> list[Evidence]:
    """Reasons for and against, as the ranking weighed them."""
    traits, key = each.traits, each.life.key
    out = [Evidence("stop", round(stop.confidence, 4), stop.url) for stop in found.stops]
    if traits.containment >= _FOLDED_CONTAINMENT and traits.resemblance < _FOLDED_RESEMBLANCE:
        out.append(Evidence("folded_in", round(traits.containment, 4)))
    if traits.cosine is not None and traits.cosine >= _COSINE_SHOWN:
        out.append(Evidence("words", round(traits.cosine, 4)))
    if traits.appeared:
        out.append(Evidence("appeared", detail="in the sweep that missed the old URL"))
    if traits.beside >= _BESIDE_SHOWN:
        out.append(Evidence("stood_beside", round(traits.beside, 4)))
    if traits.replica > 0:
        out.append(Evidence("copied_tree", round(traits.replica, 4)))
    if traits.path >= _PATH_SHOWN:
        out.append(Evidence("path", round(traits.path, 4)))
    if traits.rule > 0 and key in found.predicted:
        out.append(_rule(found.predicted[key]))
    out.append(_neighbourhood(found.question.key, key))
    return out


def _rule(predicted: Predicted) -> Evidence:
    return Evidence("rule", round(predicted.confidence, 4), f"{predicted.rule} ({predicted.support} moves)")


def _neighbourhood(old: bytes, new: bytes) -> Evidence:
    if host_prefix(old) == host_prefix(new):
        return Evidence("same_host")
    return Evidence("same_domain" if domain_prefix(old) == domain_prefix(new) else "other_domain")

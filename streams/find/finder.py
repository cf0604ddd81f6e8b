"""Find where the page of a URL is now: the lost and found of Broder, Glassman, Manasse and Zweig (1997), extended.

URL ─▶ life (alive? missing since which sweep?) ─▶ redirects ─▶ trace (collect, select, rank, follow stops)
    ─▶ rewrite rules learned from the sure moves of all questions ─▶ confidence ─▶ answer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from streams.errors import BadUrl
from streams.find import score as scoring
from streams.find.answer import Answer
from streams.find.context import FindContext
from streams.find.dead_url import read_dead_url
from streams.find.missing_rule import absent_since
from streams.find.ranking import best_first
from streams.find.redirects import folder_neighbours, follow_redirects
from streams.find.report import SearchResult, build_candidates, guess, soft_404
from streams.find.rewrite_rules import NO_RULES, Rules
from streams.find.trace import Trace, Tracer
from streams.timestamps import iso
from streams.urls import host_prefix, url_key

if TYPE_CHECKING:
    from state.view import View
    from streams.find.answer import Candidate
    from streams.find.dead_url import DeadUrl
    from streams.find.missing_rule import Life
    from streams.find.ranking import RankedCandidate
    from streams.find.report import RedirectTarget
    from streams.find.rewrite_rules import Prediction
    from streams.settings import Settings

BLOCK = 2_000  # URLs that are traced before the rules learned from them are applied
LEARN_CONFIDENCE_MIN = 0.35
MOVES_MAX = 20_000  # rules are learned from the last moves
NEIGHBOURS = 24  # missing neighbours that are traced too, to learn rules for a few URLs


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One URL, traced but not yet answered."""

    url: str
    life: Life | None = None
    dead: DeadUrl | None = None
    trace: Trace | None = None
    redirect: RedirectTarget | None = None


class Finder:
    """Answers questions about one state of a view: its LRU caches keep values as of their first read."""

    def __init__(self, view: View, settings: Settings) -> None:
        self._context = FindContext(view, settings)
        self._settings = self._context.settings
        self.counters = self._context.counters  # how often each limit was reached
        self._tracer = Tracer(self._context)

    def find(self, url: str) -> Answer:
        """Return the answer for one URL by its own evidence, without rules."""
        return self._answer(self._trace(url), NO_RULES)

    def find_many(self, urls: Iterable[str]) -> Iterator[Answer]:
        """Yield answers for many URLs, in their order.

        Sure moves among them teach rewrite rules, which support the answers of the same block of URLs and of later
        blocks. Rules are learned from the last `MOVES_MAX` moves of this call. For a few URLs, their missing
        neighbours are traced too, to learn rules from them.
        """
        remaining = iter(urls)
        moves: dict[str, str] = {}
        while block := list(islice(remaining, BLOCK)):
            cases = [self._trace(url) for url in block]
            traced = {case.url for case in cases}
            is_small = len(block) <= NEIGHBOURS // 4
            extra = [url for case in cases for url in self._missing_neighbours(case)] if is_small else []
            others = (self._trace(url) for url in dict.fromkeys(extra) if url not in traced)
            for case in (*cases, *others):
                if (target := self._sure_move(case)) is not None:
                    moves[case.url] = target
            dropped = list(islice(moves, max(0, len(moves) - MOVES_MAX)))
            self.counters["find_moves_max"] += len(dropped)
            for url in dropped:
                del moves[url]
            rules = Rules(moves.items())
            yield from (self._answer(case, rules) for case in cases)

    def missing_since(self, url: str) -> int | None:
        """Return the number of the first sweep that missed a URL which had a page; None if none did."""
        life = self._context.lives.checked(url_key(url))
        return absent_since(life, self._context.sweeps) if life.pages else None

    def ranked_urls(self, url: str) -> list[str]:
        """Return the URLs of all ranked candidates: a new home that is not among them was lost by the look-ups."""
        trace = self._trace(url).trace
        return [candidate.life.pages[-1].url for candidate in trace.ranked] if trace else []

    def _trace(self, url: str) -> _Case:
        try:
            key = url_key(url)
        except BadUrl:
            return _Case(url=url)
        life = self._context.lives.checked(key)
        redirect = follow_redirects(self._context, life)
        if life.is_alive:
            absent = absent_since(life, self._context.sweeps)
            if absent is None or not life.pages:
                return _Case(url=url, life=life)
            dead = read_dead_url(self._context, life, absent)
            return _Case(url=url, life=life, dead=dead, trace=self._trace_left_behind(dead))
        if life.last_answer is None and not life.refusals:
            return _Case(url=url, life=life)
        missing_since = life.missing_since
        if missing_since is None:
            missing_since = self._context.sweeps.last_visit(host_prefix(key))
        dead = read_dead_url(self._context, life, missing_since)
        trace = self._tracer.trace(dead, [redirect.key] if redirect else [])
        return _Case(url=url, life=life, dead=dead, trace=trace, redirect=redirect)

    def _trace_left_behind(self, dead: DeadUrl) -> Trace | None:
        """Trace a URL whose host is no longer visited: only new URLs count, and only if the best one is sure."""
        trace = self._tracer.trace(dead)
        new = [candidate for candidate in trace.ranked if candidate.life.pages[0].sweep >= dead.missing_since]
        trace = Trace(new, trace.stops)
        return trace if self._confidence(dead, trace) >= self._settings.confidence_min else None

    def _missing_neighbours(self, case: _Case) -> list[str]:
        """Return missing URLs in the folder of a URL that has no sure answer, in order of key."""
        if case.life is None or case.trace is None or self._sure_move(case) is not None:
            return []
        keys = (key for key in folder_neighbours(self._context, case.life.key) if key != case.life.key)
        lives = self._context.lives.many(keys)
        missing = (life.pages[-1].url for life in lives if life.pages and life.missing_since is not None)
        return list(islice(missing, NEIGHBOURS))

    def _sure_move(self, case: _Case) -> str | None:
        """Return the sure target of a URL, to learn rules from; copied trees and pages with stops teach no rules."""
        if case.trace is None or case.dead is None or not case.trace.ranked:
            return None
        best = case.trace.ranked[0]
        if best.traits.replica > scoring.REPLICA_FROM or case.trace.stops:
            return None
        is_sure = self._confidence(case.dead, case.trace) >= LEARN_CONFIDENCE_MIN
        return best.life.last_page.url if is_sure and best.life.last_page else None

    def _confidence(self, dead: DeadUrl, trace: Trace) -> float:
        """Return the confidence of the best candidate without rules and redirects."""
        result = SearchResult(dead=dead, ranked=trace.ranked, stops=trace.stops, redirect=None, predictions={})
        return max((candidate.confidence for candidate in build_candidates(result, 1)), default=0.0)

    def _answer(self, case: _Case, rules: Rules) -> Answer:
        life = case.life
        if life is None or (case.dead is None and not life.is_alive):
            candidates = self._guesses(case.url, rules) if life else []
            return Answer(url=case.url, status="unknown", last_seen=None, document=None, candidates=candidates)
        last_seen = iso(life.last_answer.time) if life.last_answer else None
        document = life.last_page.document.hex() if life.last_page and life.last_page.document else None
        if case.dead is None or (life.is_alive and case.trace is None):
            return Answer(url=case.url, status="alive", last_seen=last_seen, document=document, candidates=[])
        limit = self._settings.answers_max
        candidates = build_candidates(self._apply_rules(case, case.dead, rules), limit)
        if life.refusals and life.refusals[-1].document is not None and life.refusals[-1].redirect is None:
            candidates = [*candidates[: max(1, limit - 1)], soft_404(life)][:limit]
        is_sure = bool(candidates) and candidates[0].confidence >= self._settings.confidence_min
        status = "moved" if is_sure else "gone"
        return Answer(url=case.url, status=status, last_seen=last_seen, document=document, candidates=candidates)

    def _apply_rules(self, case: _Case, dead: DeadUrl, rules: Rules) -> SearchResult:
        """Return the trace with the URLs that rules predict, if they are alive in the last sweep."""
        predictions: dict[bytes, Prediction] = {}
        for prediction in rules.predict(case.url):
            if (key := _target_key(prediction)) is not None and key != dead.key:
                predictions.setdefault(key, prediction)
        trace = case.trace or Trace([], [])
        known = {candidate.life.key for candidate in trace.ranked}
        more = self._tracer.ranker.rank_more(dead, [key for key in predictions if key not in known])
        ranked = [
            self._with_rule(dead, candidate, predictions.get(candidate.life.key))
            for candidate in [*trace.ranked, *more]
        ]
        return SearchResult(
            dead=dead,
            ranked=best_first(ranked),
            stops=trace.stops,
            redirect=case.redirect,
            predictions=predictions,
        )

    def _with_rule(self, dead: DeadUrl, candidate: RankedCandidate, prediction: Prediction | None) -> RankedCandidate:
        """Add the support of a rule to a candidate, but not to a copy; a folding rule only suggests candidates."""
        ranker = self._tracer.ranker
        if (
            prediction is None
            or prediction.rule.folded
            or ranker.copied_share(dead, candidate.life.key) > scoring.REPLICA_FROM
            or ranker.is_mirrored(dead, candidate)
        ):
            return candidate
        traits = candidate.traits._replace(rule=prediction.confidence)
        return candidate._replace(traits=traits, score=candidate.score + scoring.RULE * prediction.confidence)

    def _guesses(self, url: str, rules: Rules) -> list[Candidate]:
        """Return candidates for a URL that no sweep captured: living pages that rules predict."""
        candidates: list[Candidate] = []
        for prediction in rules.predict(url):
            key = _target_key(prediction)
            if key is not None and (life := self._context.lives.checked(key)).is_alive and life.pages:
                candidates.append(guess(life, prediction))
        return candidates[: self._settings.answers_max]


def _target_key(prediction: Prediction) -> bytes | None:
    try:
        return url_key("https:" + prediction.target)
    except ValueError:
        return None

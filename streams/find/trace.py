"""Follow a dead URL to the new home of its page, even if the page moved more than once.

If the best candidate is dead too and the match is sure enough, it is a stop on the way: its last text and its URL are
closer to the current page than the old ones. The search continues from the stop, and its scores count four fifths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from streams.find import score as scoring
from streams.find.candidates import CandidateSelector
from streams.find.find_context import DeadUrl, FindContext
from streams.find.missing_rule import Life, absent_since
from streams.find.ranking import TOP, PageComparer, RankedCandidate, Ranker, best_first


class Stop(NamedTuple):
    """A dead URL that the page passed on its way, and the confidence of that step."""

    url: str
    confidence: float
    life: Life
    missing_since: int


class Trace(msgspec.Struct, frozen=True):
    """The result for one dead URL: living candidates, the best first, and the stops on the way to them."""

    ranked: list[RankedCandidate]
    stops: list[Stop]


class Tracer:
    def __init__(self, context: FindContext, ranker: Ranker) -> None:
        self._context, self._ranker = context, ranker
        self._selector = CandidateSelector(context)

    def trace(
        self, dead: DeadUrl, extra_keys: Iterable[bytes] = (), visited: frozenset[bytes] = frozenset(), hops: int = 0
    ) -> Trace:
        """Trace one dead URL; `extra_keys` are candidates to rank in any case, `visited` are never candidates."""
        visited |= {dead.key}
        comparer = PageComparer(self._context, dead)
        ranked = self._ranker.rank(comparer, self._selector.select(dead, extra_keys, visited))
        living = [candidate for candidate in ranked if candidate.life.is_alive]
        stop = self._find_stop(dead, ranked) if hops < scoring.HOPS_MAX else None
        if stop is None:
            return Trace(living, [])
        onward = self._follow(stop, living, visited, hops)
        if not onward.ranked:
            return Trace(living, [])
        if stop.life.is_alive:
            living = [c for c in living if absent_since(c.life, self._context.sweeps) is None]
        return Trace(self._blend(comparer, living, onward), [stop, *onward.stops])

    def _find_stop(self, dead: DeadUrl, ranked: list[RankedCandidate]) -> Stop | None:
        """Return the best candidate if a later sweep missed it too, or its host is no longer visited."""
        if not ranked:
            return None
        best = ranked[0]
        missing_since = absent_since(best.life, self._context.sweeps)
        if missing_since is None or missing_since <= dead.missing_since:
            return None
        second = ranked[1].score if len(ranked) > 1 else 0.0
        confidence = scoring.confidence(best.score, second, best.traits)
        is_sure = confidence >= scoring.CHAIN_CONFIDENCE_MIN
        return Stop(best.life.pages[-1].url, confidence, best.life, missing_since) if is_sure else None

    def _follow(self, stop: Stop, living: list[RankedCandidate], visited: frozenset[bytes], hops: int) -> Trace:
        """Trace the page from a stop; no candidates if only the stop's host is gone and no new URL is sure."""
        extra_keys = [candidate.life.key for candidate in living[:TOP]]
        dead = self._context.read_dead_url(stop.life, stop.missing_since)
        onward = self.trace(dead, extra_keys, visited, hops + 1)
        if not stop.life.is_alive:
            return onward
        # The stop's host is no longer visited: the page moved only if a new URL appeared with the other hosts.
        new = [candidate for candidate in onward.ranked if candidate.life.pages[0].sweep >= stop.missing_since]
        return Trace(new if new and new[0].score >= scoring.LEFT_BEHIND_MIN else [], onward.stops)

    def _blend(self, comparer: PageComparer, living: list[RankedCandidate], onward: Trace) -> list[RankedCandidate]:
        """Return the candidates of both searches, scored by the weighted mean of the two scores."""
        direct = {candidate.life.key: candidate for candidate in living}
        for candidate in onward.ranked[:TOP]:
            if candidate.life.key not in direct:
                direct[candidate.life.key] = self._ranker.score(comparer, candidate.life)
        onward_scores = {candidate.life.key: candidate.score for candidate in onward.ranked}
        return best_first(
            c._replace(score=(1 - scoring.CHAIN) * c.score + scoring.CHAIN * onward_scores.get(key, 0.0))
            for key, c in direct.items()
        )

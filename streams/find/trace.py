"""Follow a dead URL to the new home of its page, even if the page moved more than once.

If the best candidate is dead too and the match is sure enough, the candidate is a hop. The search continues from the
hop, because its last text and its URL are more similar to the current page than the old text and URL are. The score
of a candidate is then four fifths of its score from the hop plus one fifth of its score from the old URL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from streams.find import score as scoring
from streams.find.candidates import CandidateSelector
from streams.find.find_context import DeadUrl, FindContext
from streams.find.missing_rule import UrlHistory
from streams.find.ranking import CHECKED_MAX, PageComparer, RankedCandidate, Ranker, best_first


class Hop(NamedTuple):
    """A dead URL at which the page was for a time, and the confidence of the move to this URL."""

    url: str
    confidence: float
    history: UrlHistory
    missing_since: int


class Trace(msgspec.Struct, frozen=True):
    """The result for one dead URL: living candidates, the best first, and the hops on the way to them."""

    ranked: list[RankedCandidate]
    hops: list[Hop]


class Tracer:
    """Finds the candidates for dead URLs, including candidates behind hops."""

    def __init__(self, context: FindContext, ranker: Ranker) -> None:
        self._context, self._ranker = context, ranker
        self.selector = CandidateSelector(context)

    def trace(
        self, dead: DeadUrl, extra_keys: Iterable[bytes] = (), visited: frozenset[bytes] = frozenset(), depth: int = 0
    ) -> Trace:
        """Trace one dead URL, reached through `depth` hops. Always compare `extra_keys`, but never `visited` keys."""
        visited |= {dead.key}
        comparer = PageComparer(self._context, dead)
        ranked = self._ranker.rank(
            comparer, self.selector.select(dead, [*extra_keys, *dead.substitutions, *dead.declared], visited)
        )
        living = [candidate for candidate in ranked if candidate.history.is_alive]
        hop = self._find_hop(dead, ranked) if depth < scoring.HOPS_MAX else None
        if hop is None:
            return Trace(living, [])
        extra_keys = [candidate.history.key for candidate in living[:CHECKED_MAX]]
        dead_hop = self._context.read_dead_url(hop.history, hop.missing_since)
        onward = self.trace(dead_hop, extra_keys, visited, depth + 1)
        if not onward.ranked:
            return Trace(living, [])
        return Trace(self._blend(comparer, living, onward), [hop, *onward.hops])

    def _find_hop(self, dead: DeadUrl, ranked: list[RankedCandidate]) -> Hop | None:
        """Return the best candidate as a hop if it is sure enough and went missing later than the dead URL."""
        if not ranked:
            return None
        best = ranked[0]
        missing_since = best.history.missing_since
        if missing_since is None or missing_since <= dead.missing_since:
            return None
        second = ranked[1].score if len(ranked) > 1 else 0.0
        confidence = scoring.confidence(best.score, second, best.traits)
        is_sure = confidence >= scoring.HOP_CONFIDENCE_MIN
        return Hop(best.history.pages[-1].url, confidence, best.history, missing_since) if is_sure else None

    def _blend(self, comparer: PageComparer, living: list[RankedCandidate], onward: Trace) -> list[RankedCandidate]:
        """Return the candidates of both searches, each with the weighted mean of its two scores."""
        candidates = {candidate.history.key: candidate for candidate in living}
        for candidate in onward.ranked[:CHECKED_MAX]:
            if candidate.history.key not in candidates:
                candidates[candidate.history.key] = self._ranker.score(comparer, candidate.history)
        onward_scores = {candidate.history.key: candidate.score for candidate in onward.ranked}
        return best_first(
            c._replace(score=(1 - scoring.HOP_WEIGHT) * c.score + scoring.HOP_WEIGHT * onward_scores.get(key, 0.0))
            for key, c in candidates.items()
        )

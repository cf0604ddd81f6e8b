"""Select the most promising candidate URLs, among those that had a page when the old URL was missing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from streams.find import score as scoring
from streams.find.candidates import CandidateCollector
from streams.find.path_similarity import path_features, path_similarity_to

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.find.candidates import CandidateSet
    from streams.find.context import FindContext
    from streams.find.dead_url import DeadUrl
    from streams.find.missing_rule import Life

_DOCUMENTS_PER_READ = 32  # whose locations are read together
_LIVES_PER_READ = 16
_PROMISE_SHARE_MIN = 0.2  # of the best promise: candidates that promise less are not compared

cached_path_features = lru_cache(maxsize=16_384)(path_features)


class CandidateSelector:
    """Selects at most `find.compared_max` of the collected URLs, in addition to the given ones."""

    def __init__(self, context: FindContext) -> None:
        self._context = context
        self._collector = CandidateCollector(context)

    def select(self, dead: DeadUrl, extra_keys: Iterable[bytes], excluded: frozenset[bytes]) -> list[Life]:
        """Return lives of URLs that had a page when the old URL was missing: extra keys, then the most promising."""
        context, compared_max = self._context, self._context.settings.compared_max
        candidates = self._collector.collect(dead)
        given = [key for key in dict.fromkeys([*extra_keys, *candidates.urls]) if key not in excluded]
        promise = self._promise(dead, candidates, {*given, *excluded})
        order = sorted(promise, key=lambda key: (-promise[key], key))
        lives: list[Life] = []
        read = 0
        while read < len(order) and len(lives) < compared_max:
            if lives and promise[order[read]] < _PROMISE_SHARE_MIN * promise[lives[0].key]:
                context.counters["find_promise_share_min"] += 1
                break
            lives += self._surviving_lives(dead, order[read : read + _LIVES_PER_READ])
            read += _LIVES_PER_READ
        if len(lives) + (read < len(order)) > compared_max:
            context.counters["find_compared_max"] += 1
        return [*self._surviving_lives(dead, given), *lives[:compared_max]]

    def _promise(self, dead: DeadUrl, candidates: CandidateSet, known: set[bytes]) -> dict[bytes, float]:
        """Rate about `find.candidates_max` URLs of the collected documents before their texts are read.

        The promise is that of the URL's most promising document, plus the similarity of the paths.
        """
        content: dict[bytes, float] = {}
        documents = candidates.documents
        for start in range(0, len(documents), _DOCUMENTS_PER_READ):
            if len(content) >= self._context.settings.candidates_max:
                self._context.counters["find_candidates_max"] += 1
                break
            batch = documents[start : start + _DOCUMENTS_PER_READ]
            for document, keys in zip(batch, self._context.locations.many(batch), strict=True):
                promise = candidates.promise.get(document, 0.0)
                for key in keys:
                    if key not in known and promise >= content.get(key, 0.0):
                        content[key] = promise
        path_similarity = path_similarity_to(cached_path_features(dead.key))
        return {
            key: promise + scoring.PATH * path_similarity(cached_path_features(key))
            for key, promise in content.items()
        }

    def _surviving_lives(self, dead: DeadUrl, keys: list[bytes]) -> list[Life]:
        """Return the lives of those URLs that had a page when the old URL was missing."""
        lives = self._context.lives.many(keys)
        return [life for life in lives if life.last_page and life.last_page.sweep >= dead.missing_since]

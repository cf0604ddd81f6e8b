"""Rank candidates by their traits, and check the best ones for error pages and copied trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streams.find import score as scoring
from streams.find.comparison import PageComparer
from streams.find.score import Traits
from streams.find.selection import cached_path_features
from streams.urls import host_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.find.context import FindContext
    from streams.find.dead_url import DeadUrl
    from streams.find.missing_rule import Life

_VERSIONS_MAX = 2
TOP = 12  # candidates that are checked for error pages and copies, and that are passed on to the next stop


class RankedCandidate(NamedTuple):
    """A candidate with its traits and its score."""

    life: Life
    traits: Traits
    score: float

    def with_traits(self, traits: Traits) -> RankedCandidate:
        """Return the candidate with other traits and the score that follows from them."""
        return RankedCandidate(self.life, traits, scoring.score(traits))


class Ranker:
    """Ranks the candidates of dead URLs."""

    def __init__(self, context: FindContext) -> None:
        self._context = context

    def rank(self, comparer: PageComparer, lives: list[Life]) -> list[RankedCandidate]:
        """Return candidates, the best first, without error pages among the first `TOP`."""
        comparer.load(document for life in lives for document in _compared_documents(comparer.dead, life))
        ranked = best_first(self.score(comparer, life) for life in lives)
        self._context.soft_errors.load(candidate.life for candidate in ranked[:TOP])
        checked = [
            self._check_copies(comparer.dead, candidate)
            for candidate in ranked[:TOP]
            if not self._context.soft_errors.is_soft_404(candidate.life)
        ]
        return best_first([*self._mark_frozen_copies(comparer.dead, checked), *ranked[TOP:]])

    def rank_more(self, dead: DeadUrl, keys: Iterable[bytes]) -> list[RankedCandidate]:
        """Rank further URLs, such as predictions of rules; skip those that are not alive or are error pages."""
        comparer = PageComparer(self._context, dead)
        lives = [life for life in self._context.lives.many(keys) if life.is_alive and life.pages]
        self._context.soft_errors.load(lives)
        return [self.score(comparer, life) for life in lives if not self._context.soft_errors.is_soft_404(life)]

    def score(self, comparer: PageComparer, life: Life) -> RankedCandidate:
        """Return a candidate with its traits and score."""
        dead = comparer.dead
        figures = [comparer.compare(document) for document in _versions(dead, life)]
        old_version = life.document_at(dead.last_sweep)
        appeared = life.pages[0].sweep == dead.missing_since
        traits = Traits(
            resemblance=max((f.resemblance for f in figures), default=0.0),
            containment=max((f.containment for f in figures), default=0.0),
            weighted_containment=max((f.weighted_containment for f in figures), default=0.0),
            cosine=max((f.cosine or 0.0 for f in figures), default=0.0) if comparer.has_text else None,
            title=max((f.title for f in figures), default=0.0),
            coexisted=comparer.compare(old_version).resemblance if old_version is not None else 0.0,
            path=comparer.path_similarity(life.key),
            appeared=appeared,
            url_variant=appeared and _is_url_variant(dead.key, life.key),
        )
        return RankedCandidate(life, traits, scoring.score(traits))

    def copied_share(self, dead: DeadUrl, key: bytes) -> float:
        """Return the share of the old page's neighbours that have a copy near a candidate."""
        return self._context.copies.copied_share(dead.key, key, dead.last_sweep, dead.missing_since)

    def is_mirrored(self, dead: DeadUrl, candidate: RankedCandidate) -> bool:
        """Whether a candidate is the old page's counterpart in a parallel tree, but shares little of its text."""
        traits = candidate.traits
        if traits.weighted_containment >= scoring.MIRROR_CONTENT_MAX or traits.replica > scoring.REPLICA_FROM:
            return False
        return self._context.copies.mirrored_share(dead.key, candidate.life.key) >= scoring.MIRRORED_FROM

    def _check_copies(self, dead: DeadUrl, candidate: RankedCandidate) -> RankedCandidate:
        traits = candidate.traits._replace(replica=self.copied_share(dead, candidate.life.key))
        if self.is_mirrored(dead, candidate):
            traits = traits._replace(path=0.0)
        return candidate.with_traits(traits)

    def _mark_frozen_copies(self, dead: DeadUrl, ranked: list[RankedCandidate]) -> list[RankedCandidate]:
        """Mark candidates in a copy of a tree that is gone as a whole.

        An identical candidate is a copy if a second candidate appeared in the sweep that missed the page and
        resembles it: a site that archives an old version unchanged keeps a changed version of the page elsewhere.
        """
        shares: dict[bytes, float] = {}
        trees: list[bytes] = []
        for candidate in ranked:
            if candidate.traits.resemblance == 1.0 and candidate.traits.replica <= scoring.REPLICA_FROM:
                key = candidate.life.key
                share, tree = self._context.copies.frozen_share(dead.key, key, dead.last_sweep, dead.missing_since)
                if share >= scoring.FROZEN_FROM:
                    shares[key] = share
                    trees.append(tree)
        if not trees or not any(self._is_new_home(dead, candidate, tuple(trees)) for candidate in ranked):
            return ranked
        return [
            candidate.with_traits(
                candidate.traits._replace(replica=shares.get(candidate.life.key, candidate.traits.replica))
            )
            for candidate in ranked
        ]

    def _is_new_home(self, dead: DeadUrl, candidate: RankedCandidate, copied_trees: tuple[bytes, ...]) -> bool:
        """Whether a candidate outside the copied trees appeared, resembles the old page, and is not another page.

        Resemblance counts rather than containment: a site that moved unchanged may have a new page that contains all
        others, for printing.
        """
        traits = candidate.traits
        if not traits.appeared or traits.replica > scoring.REPLICA_FROM or traits.resemblance < scoring.NEW_HOME_FROM:
            return False
        return not candidate.life.key.startswith(copied_trees) and not self._is_other_page(dead, candidate.life)

    def _is_other_page(self, dead: DeadUrl, life: Life) -> bool:
        """Whether another URL had a candidate's first document while the old URL was alive."""
        document = life.pages[0].document
        if document is None:
            return False
        keys = (key for key in self._context.locations(document) if key not in {dead.key, life.key})
        others = self._context.lives.many(keys)
        return any(other.document_at(dead.last_sweep) == document for other in others)


def best_first(candidates: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Sort candidates by score; ties by URL key."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.life.key))


def _versions(dead: DeadUrl, life: Life) -> list[bytes]:
    """Return the candidate's documents that count: the first one since the old URL is missing, and the last one."""
    versions = life.documents_since(dead.missing_since)
    return versions if len(versions) <= _VERSIONS_MAX else [versions[0], *versions[-(_VERSIONS_MAX - 1) :]]


def _compared_documents(dead: DeadUrl, life: Life) -> list[bytes]:
    old_version = life.document_at(dead.last_sweep)
    return [*_versions(dead, life), *([old_version] if old_version is not None else [])]


def _is_url_variant(old: bytes, new: bytes) -> bool:
    """Whether two URLs of one host have the same path words, at least one."""
    words = cached_path_features(old).words
    return bool(words) and words == cached_path_features(new).words and host_prefix(old) == host_prefix(new)

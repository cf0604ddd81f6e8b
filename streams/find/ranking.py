"""Compare candidates with the old page, rank them by their traits, and check the best ones for errors and copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streams.find import score as scoring
from streams.find.find_context import DeadUrl, FindContext
from streams.find.missing_rule import UrlHistory
from streams.find.path_similarity import path_features, path_similarity_to
from streams.find.rewrite_rules import Prediction
from streams.find.score import Traits
from streams.find.text_similarity import OldText, Similarity
from streams.sketch import sketcher
from streams.urls import host_prefix

CHECKED_MAX = 12  # best candidates that are checked for soft 404s and copies, and passed to the search from a hop


class PageComparer:
    """Compares the page of one dead URL with documents and paths, each document only once."""

    def __init__(self, context: FindContext, dead: DeadUrl) -> None:
        self.dead, self._context = dead, context
        self._path_similarity = path_similarity_to(path_features(dead.key))
        self._similarities: dict[bytes, Similarity] = {}
        self._text: OldText | None = None
        if dead.features is not None:
            site = context.site_statistics(host_prefix(dead.key))
            self._text = OldText(dead.features, site, dead.last_sweep, context.texts)

    def load(self, documents: Iterable[bytes]) -> None:
        """Read the data for comparisons with these documents in batches."""
        distinct = list(dict.fromkeys(documents))
        if self._text is not None:
            features = self._context.texts.features_of.many(distinct)
            distinct = [document for document, text in zip(distinct, features, strict=True) if text is None]
        self._context.rows.many(distinct)

    def path_similarity(self, key: bytes) -> float:
        """Return how similar the path of a URL key is to the old URL's path, 0 to 1."""
        return self._path_similarity(path_features(key))

    def compare(self, document: bytes) -> Similarity:
        if document not in self._similarities:
            self._similarities[document] = self._compare(document)
        return self._similarities[document]

    def _compare(self, document: bytes) -> Similarity:
        features = self._context.texts.features_of(document) if self._text is not None else None
        if self._text is not None and features is not None:
            return self._text.compare(document, features)
        row = self._context.rows(document)
        if row is None or self.dead.row is None:
            return Similarity()
        comparison = sketcher.compare(self.dead.row.sketch, row.sketch)
        containment = scoring.shrunk_containment(comparison.containment, comparison.containment_error)
        return Similarity(comparison.resemblance, containment, containment)


class RankedCandidate(NamedTuple):
    """A candidate with its traits and its score."""

    history: UrlHistory
    traits: Traits
    score: float

    def with_traits(self, **changes: Any) -> RankedCandidate:
        """Return the candidate with changed traits and the score of these traits."""
        traits = self.traits._replace(**changes)
        return RankedCandidate(self.history, traits, scoring.score(traits))


class Ranker:
    def __init__(self, context: FindContext) -> None:
        self._context = context

    def rank(self, comparer: PageComparer, histories: list[UrlHistory]) -> list[RankedCandidate]:
        """Return the candidates, the best first. Soft 404s among the first `CHECKED_MAX` are dropped."""
        dead, soft_404s = comparer.dead, self._context.soft_404s
        old_versions = (history.document_at(dead.last_sweep) for history in histories)
        versions = (document for history in histories for document in _versions(dead, history))
        comparer.load([*versions, *(document for document in old_versions if document is not None)])
        ranked = best_first(self.score(comparer, history) for history in histories)
        soft_404s.load(candidate.history for candidate in ranked[:CHECKED_MAX])
        real_pages = (candidate for candidate in ranked[:CHECKED_MAX] if not soft_404s.is_soft_404(candidate.history))
        checked = [self._check_copies(dead, candidate) for candidate in real_pages]
        return best_first([*self._mark_frozen_copies(dead, checked), *ranked[CHECKED_MAX:]])

    def score(self, comparer: PageComparer, history: UrlHistory) -> RankedCandidate:
        dead = comparer.dead
        similarities = [comparer.compare(document) for document in _versions(dead, history)]
        old_version = history.document_at(dead.last_sweep)
        appeared = history.pages[0].sweep == dead.missing_since
        traits = Traits(
            resemblance=max((s.resemblance for s in similarities), default=0.0),
            containment=max((s.containment for s in similarities), default=0.0),
            weighted_containment=max((s.weighted_containment for s in similarities), default=0.0),
            cosine=max((s.cosine or 0.0 for s in similarities), default=0.0) if dead.features is not None else None,
            title=max((s.title for s in similarities), default=0.0),
            coexisted=comparer.compare(old_version).resemblance if old_version is not None else 0.0,
            path=comparer.path_similarity(history.key),
            appeared=appeared,
            url_variant=appeared and _is_url_variant(dead.key, history.key),
        )
        return RankedCandidate(history, traits, scoring.score(traits))

    def apply_predictions(
        self, dead: DeadUrl, ranked: list[RankedCandidate], predictions: Mapping[bytes, Prediction]
    ) -> list[RankedCandidate]:
        """Add predicted URLs that are alive as candidates, and add the support of rules to the scores."""
        if not predictions:
            return ranked
        context, comparer = self._context, PageComparer(self._context, dead)
        known = {candidate.history.key for candidate in ranked}
        histories = context.url_histories.many(key for key in predictions if key not in known)
        living = [history for history in histories if history.is_alive and history.pages]
        context.soft_404s.load(living)
        more = [self.score(comparer, history) for history in living if not context.soft_404s.is_soft_404(history)]
        return best_first(self._with_rule(dead, c, predictions.get(c.history.key)) for c in [*ranked, *more])

    def _with_rule(self, dead: DeadUrl, candidate: RankedCandidate, prediction: Prediction | None) -> RankedCandidate:
        """Add the support of a rule to a candidate that is not a copy. A folding rule only suggests candidates."""
        if (
            prediction is None
            or prediction.rule.is_folding
            or self._copied_share(dead, candidate.history.key) > scoring.COPIED_TREE_ABOVE
            or self._is_mirrored(dead, candidate)
        ):
            return candidate
        traits = candidate.traits._replace(rule=prediction.confidence)
        return candidate._replace(traits=traits, score=candidate.score + scoring.RULE * prediction.confidence)

    def _check_copies(self, dead: DeadUrl, candidate: RankedCandidate) -> RankedCandidate:
        candidate = candidate.with_traits(copied_tree=self._copied_share(dead, candidate.history.key))
        return candidate.with_traits(path=0.0) if self._is_mirrored(dead, candidate) else candidate

    def _copied_share(self, dead: DeadUrl, key: bytes) -> float:
        return self._context.copies.copied_share(dead.key, key, dead.last_sweep, dead.missing_since)

    def _is_mirrored(self, dead: DeadUrl, candidate: RankedCandidate) -> bool:
        """Whether a candidate is the old page's counterpart in a parallel tree, with little of the old text."""
        traits = candidate.traits
        if traits.weighted_containment >= scoring.MIRRORED_CONTENT_MAX or traits.is_copied:
            return False
        return self._context.copies.mirrored_share(dead.key, candidate.history.key) >= scoring.MIRRORED_MIN

    def _mark_frozen_copies(self, dead: DeadUrl, ranked: list[RankedCandidate]) -> list[RankedCandidate]:
        """Mark candidates that are in a copy of the old tree, if the whole old tree is gone.

        A candidate identical to the old page is a copy if a second candidate resembles the old page and appeared when
        the old URL went missing: a site that archives a version unchanged keeps a changed version elsewhere.
        """
        shares: dict[bytes, float] = {}
        trees: tuple[bytes, ...] = ()
        for candidate in ranked:
            if candidate.traits.resemblance == 1.0 and not candidate.traits.is_copied:
                key = candidate.history.key
                share, tree = self._context.copies.frozen_share(dead.key, key, dead.last_sweep, dead.missing_since)
                if share >= scoring.FROZEN_MIN:
                    shares[key] = share
                    trees += (tree,)
        if not trees or not any(self._is_new_home(dead, candidate, trees) for candidate in ranked):
            return ranked
        return [c.with_traits(copied_tree=shares.get(c.history.key, c.traits.copied_tree)) for c in ranked]

    def _is_new_home(self, dead: DeadUrl, candidate: RankedCandidate, copied_trees: tuple[bytes, ...]) -> bool:
        """Whether a candidate is a new page outside the copied trees, and resembles the old page.

        Containment is not enough, because a moved site may have a new page for printing that contains all others.
        """
        traits = candidate.traits
        if not traits.appeared or traits.is_copied or traits.resemblance < scoring.NEW_HOME_RESEMBLANCE_MIN:
            return False
        return not candidate.history.key.startswith(copied_trees) and not self._is_other_page(dead, candidate.history)

    def _is_other_page(self, dead: DeadUrl, history: UrlHistory) -> bool:
        """Whether a third URL had a candidate's first document while the old URL was alive."""
        document = history.pages[0].document
        if document is None:
            return False
        keys = (key for key in self._context.locations(document) if key not in {dead.key, history.key})
        return any(other.document_at(dead.last_sweep) == document for other in self._context.url_histories.many(keys))


def best_first(candidates: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Sort candidates by score, the best first, and candidates with equal scores by URL key."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.history.key))


def _versions(dead: DeadUrl, history: UrlHistory) -> list[bytes]:
    """Return the candidate's documents to compare: the first and the last since the old URL went missing."""
    versions = history.documents_since(dead.missing_since)
    return versions if len(versions) <= 2 else [versions[0], versions[-1]]


def _is_url_variant(old: bytes, new: bytes) -> bool:
    """Whether two URLs are on one host and have the same path words (at least one)."""
    words = path_features(old).words
    return bool(words) and words == path_features(new).words and host_prefix(old) == host_prefix(new)

"""Compare candidates with the old page, rank them by traits, and check the best ones for soft 404s and copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from streams.find import score as scoring
from streams.find.copies import is_parallel, tree_roots, version_closeness
from streams.find.find_context import DeadUrl, FindContext
from streams.find.missing_rule import UrlHistory
from streams.find.path_similarity import path_features, path_similarity_to
from streams.find.rewrite_rules import Prediction
from streams.find.score import Traits
from streams.find.text_similarity import OldText, Similarity
from streams.sketch import sketcher
from streams.urls import host_prefix

CHECKED_MAX = 12  # best candidates that are checked for soft 404s and copies, and that a hop passes on


class PageComparer:
    """Compares the page of a dead URL with documents, and its path with other paths. Similarities are cached."""

    def __init__(self, context: FindContext, dead: DeadUrl) -> None:
        self.dead, self._context = dead, context
        self._path_similarity = path_similarity_to(path_features(dead.key))
        self._similarities: dict[bytes, Similarity] = {}
        self._old_text: OldText | None = None
        if dead.features is not None:
            site = context.site_statistics(host_prefix(dead.key))
            self._old_text = OldText(dead.features, site, dead.last_sweep, context.text_features)

    def preload(self, documents: Iterable[bytes]) -> None:
        """Read what comparisons with these documents need, in batches."""
        without_text = list(dict.fromkeys(documents))
        if self._old_text is not None:
            features = self._context.text_features.by_document.get_many(without_text)
            without_text = [document for document, f in zip(without_text, features, strict=True) if f is None]
        self._context.rows.get_many(without_text)

    def path_similarity(self, key: bytes) -> float:
        """Return the similarity of a URL key's path to the old URL's path, from 0 to 1."""
        return self._path_similarity(path_features(key))

    def compare(self, document: bytes) -> Similarity:
        if document not in self._similarities:
            self._similarities[document] = self._compare(document)
        return self._similarities[document]

    def _compare(self, document: bytes) -> Similarity:
        features = self._context.text_features.by_document(document) if self._old_text is not None else None
        if self._old_text is not None and features is not None:
            return self._old_text.compare(document, features)
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
    copies: tuple[RankedCandidate, ...] = ()  # the candidates that this one represents; see copy_groups.py

    def with_traits(self, **changes: Any) -> RankedCandidate:
        """Return the candidate with changed traits and the resulting score."""
        traits = self.traits._replace(**changes)
        return RankedCandidate(self.history, traits, scoring.score(traits))


class Ranker:
    """Compares candidates with the page of a dead URL, and ranks them by their scores."""

    def __init__(self, context: FindContext) -> None:
        self._context = context

    def rank(self, comparer: PageComparer, histories: list[UrlHistory]) -> list[RankedCandidate]:
        """Return the candidates, the best first. Drop suspected soft 404s among the first `CHECKED_MAX`."""
        dead, soft_404_detector = comparer.dead, self._context.soft_404_detector
        coexisting_documents = (history.document_in_sweep(dead.last_sweep) for history in histories)
        versions = chain.from_iterable(_versions_to_compare(dead, history) for history in histories)
        comparer.preload(filter(None, chain(versions, coexisting_documents)))
        ranked = best_first(self.score(comparer, history) for history in histories)
        soft_404_detector.preload(candidate.history.last_page for candidate in ranked[:CHECKED_MAX])
        checked = [
            self._check_copies(dead, candidate)
            for candidate in ranked[:CHECKED_MAX]
            if not soft_404_detector.has_suspected_page(candidate.history)
        ]
        return best_first(_mark_copied_trees(dead, [*checked, *ranked[CHECKED_MAX:]]))

    def score(self, comparer: PageComparer, history: UrlHistory) -> RankedCandidate:
        """Return one candidate with its traits and its score, without the checks of `rank`."""
        dead = comparer.dead
        similarities = [comparer.compare(document) for document in _versions_to_compare(dead, history)]
        coexisting_document = history.document_in_sweep(dead.last_sweep) or self._document_of_another_page(
            dead, history
        )
        appeared = history.pages[0].sweep == dead.missing_since
        traits = Traits(
            resemblance=max((s.resemblance for s in similarities), default=0.0),
            containment=max((s.containment for s in similarities), default=0.0),
            weighted_containment=max((s.weighted_containment for s in similarities), default=0.0),
            cosine=max((s.cosine or 0.0 for s in similarities), default=0.0) if dead.features is not None else None,
            title=max((s.title for s in similarities), default=0.0),
            coexisted=comparer.compare(coexisting_document).resemblance if coexisting_document is not None else 0.0,
            path=comparer.path_similarity(history.key),
            appeared=appeared,
            url_variant=appeared and _is_url_variant(dead.key, history.key),
            link=dead.substitutions[history.key].strength if history.key in dead.substitutions else 0.0,
            declared=dead.declared[history.key][1] if history.key in dead.declared else 0.0,
        )
        return RankedCandidate(history, traits, scoring.score(traits))

    def apply_predictions(
        self, dead: DeadUrl, ranked: list[RankedCandidate], predictions: Mapping[bytes, Prediction]
    ) -> list[RankedCandidate]:
        """Add living URLs that rules predict to the candidates, and the support of rules to the scores."""
        if not predictions:
            return ranked
        context, comparer = self._context, PageComparer(self._context, dead)
        ranked_keys = {candidate.history.key for candidate in ranked}
        histories = context.url_histories.get_many(key for key in predictions if key not in ranked_keys)
        living = [history for history in histories if history.is_alive and history.pages]
        context.soft_404_detector.preload(history.last_page for history in living)
        added = [
            self.score(comparer, history)
            for history in living
            if not context.soft_404_detector.has_suspected_page(history)
        ]
        return best_first(self._with_rules(dead, candidate, predictions) for candidate in [*ranked, *added])

    def _with_rules(
        self, dead: DeadUrl, candidate: RankedCandidate, predictions: Mapping[bytes, Prediction]
    ) -> RankedCandidate:
        """Add the support of a rule to the score, unless the candidate is a copy or the rule is a folding rule.

        If rules predict a different URL, a candidate at the same path in another version's tree is a copy.
        """
        confidences = {key: p.confidence for key, p in predictions.items() if not p.rule.is_folding}
        key, traits = candidate.history.key, candidate.traits
        confidence, best_confidence = confidences.get(key, 0.0), max(confidences.values(), default=0.0)
        rules_lead_elsewhere = best_confidence > max(scoring.COPIED_TREE_ABOVE, 2 * confidence)
        if rules_lead_elsewhere and is_parallel(dead.key, key) and not version_closeness(dead.key, key):
            penalty = 0.0 if traits.is_copied else scoring.COPIED_TREE_WEIGHT
            return candidate._replace(
                traits=traits._replace(copied_tree=best_confidence), score=candidate.score - penalty
            )
        if (
            not confidence
            or self._copied_share(dead, key) > scoring.COPIED_TREE_ABOVE
            or self._is_mirrored(dead, candidate)
        ):
            return candidate
        return candidate._replace(
            traits=traits._replace(rule=confidence), score=candidate.score + scoring.RULE_WEIGHT * confidence
        )

    def _check_copies(self, dead: DeadUrl, candidate: RankedCandidate) -> RankedCandidate:
        candidate = candidate.with_traits(copied_tree=self._copied_share(dead, candidate.history.key))
        return candidate.with_traits(path=0.0) if self._is_mirrored(dead, candidate) else candidate

    def _copied_share(self, dead: DeadUrl, key: bytes) -> float:
        return self._context.copy_detector.copied_share(dead.key, key, dead.last_sweep, dead.missing_since)

    def _is_mirrored(self, dead: DeadUrl, candidate: RankedCandidate) -> bool:
        """Return whether a candidate is the old page's counterpart in a parallel tree, with little of its text."""
        traits = candidate.traits
        if traits.weighted_containment >= scoring.MIRRORED_CONTENT_MAX or traits.is_copied:
            return False
        return self._context.copy_detector.mirrored_share(dead.key, candidate.history.key) >= scoring.MIRRORED_MIN

    def _existed_elsewhere(self, dead: DeadUrl, history: UrlHistory) -> bool:
        """Return whether a third URL served a candidate's first document when the old URL was last captured."""
        document = history.pages[0].document
        if document is None:
            return False
        keys = (key for key in self._context.latest_locations(document) if key not in {dead.key, history.key})
        return any(
            other.document_in_sweep(dead.last_sweep) == document
            for other in self._context.url_histories.get_many(keys)
        )

    def _document_of_another_page(self, dead: DeadUrl, history: UrlHistory) -> bytes | None:
        """Return a candidate's first document if a third URL served it when the old URL was last captured.

        The candidate is then a copy or the new home of that third page, and need not be more similar to the old page
        than the third page was.
        """
        document = history.pages[0].document
        is_old_page = dead.row is not None and document == dead.row.sketch.document
        return document if not is_old_page and self._existed_elsewhere(dead, history) else None


def best_first(candidates: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Sort candidates by score, the best first, and candidates with equal scores by URL key."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.history.key))


def _mark_copied_trees(dead: DeadUrl, candidates: list[RankedCandidate]) -> list[RankedCandidate]:
    """Mark all candidates in a copied tree, even those whose own check found no copies."""
    shares: dict[bytes, float] = {}
    for candidate in candidates:
        _, tree = tree_roots(dead.key, candidate.history.key)
        if candidate.traits.is_copied and not dead.key.startswith(tree):
            shares[tree] = max(candidate.traits.copied_tree, shares.get(tree, 0.0))
    return [_mark_if_under(candidate, shares) for candidate in candidates] if shares else candidates


def _mark_if_under(candidate: RankedCandidate, shares: Mapping[bytes, float]) -> RankedCandidate:
    own_shares = [share for tree, share in shares.items() if candidate.history.key.startswith(tree)]
    return (
        candidate.with_traits(copied_tree=max(candidate.traits.copied_tree, *own_shares)) if own_shares else candidate
    )


def _versions_to_compare(dead: DeadUrl, history: UrlHistory) -> list[bytes]:
    """Return the candidate's first and last distinct documents since the old URL went missing."""
    versions = history.documents_since(dead.missing_since)
    return versions if len(versions) <= 2 else [versions[0], versions[-1]]


def _is_url_variant(old_key: bytes, new_key: bytes) -> bool:
    """Return whether two URLs are on one host and have the same path words (at least one)."""
    words = path_features(old_key).words
    return bool(words) and words == path_features(new_key).words and host_prefix(old_key) == host_prefix(new_key)

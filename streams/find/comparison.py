"""Compare the old page with documents of candidates, on stored texts or else on sketches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streams.find import score as scoring
from streams.find.path_similarity import path_similarity_to
from streams.find.selection import cached_path_features
from streams.find.text_similarity import OldText
from streams.sketch import sketcher
from streams.urls import host_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.find.context import FindContext
    from streams.find.dead_url import DeadUrl


class Figures(NamedTuple):
    """How similar a document is to the old page, 0 to 1; `cosine` is None if one of the texts is not stored."""

    resemblance: float = 0.0
    containment: float = 0.0
    weighted_containment: float = 0.0
    cosine: float | None = None
    title: float = 0.0


class PageComparer:
    """Compares one dead URL with documents and paths; a document is compared once."""

    def __init__(self, context: FindContext, dead: DeadUrl) -> None:
        self.dead, self._context = dead, context
        self._path_similarity = path_similarity_to(cached_path_features(dead.key))
        self._figures: dict[bytes, Figures] = {}
        self._text: OldText | None = None
        if dead.features is not None:
            site = context.site_statistics(host_prefix(dead.key))
            self._text = OldText(dead.features, site, dead.last_sweep, context.texts)

    @property
    def has_text(self) -> bool:
        """Whether the text of the old page is stored."""
        return self._text is not None

    def load(self, documents: Iterable[bytes]) -> None:
        """Read in batches what comparisons with these documents need."""
        distinct = list(dict.fromkeys(documents))
        if self._text is not None:
            features = self._context.texts.features_of.many(distinct)
            distinct = [document for document, text in zip(distinct, features, strict=True) if text is None]
        self._context.rows.many(distinct)

    def path_similarity(self, key: bytes) -> float:
        """Return the similarity of the old URL's path and another one, 0 to 1."""
        return self._path_similarity(cached_path_features(key))

    def compare(self, document: bytes) -> Figures:
        """Return the figures of one document."""
        if document not in self._figures:
            self._figures[document] = self._compare(document)
        return self._figures[document]

    def _compare(self, document: bytes) -> Figures:
        features = self._context.texts.features_of(document) if self._text is not None else None
        if self._text is not None and features is not None:
            similarity = self._text.compare(document, features)
            return Figures(
                resemblance=similarity.resemblance,
                containment=similarity.containment,
                weighted_containment=(similarity.containment + similarity.rare_containment) / 2,
                cosine=similarity.cosine,
                title=similarity.title,
            )
        row = self._context.rows(document)
        if row is None or self.dead.row is None:
            return Figures()
        comparison = sketcher.compare(self.dead.row.sketch, row.sketch)
        containment = scoring.shrunk_containment(comparison.containment, comparison.containment_error)
        return Figures(resemblance=comparison.resemblance, containment=containment, weighted_containment=containment)

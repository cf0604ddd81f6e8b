"""The page of a dead URL, and its comparison with documents of candidates by stored texts or else by sketches."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from state.model import DocumentRow
from streams.find import score as scoring
from streams.find.context import FindContext
from streams.find.missing_rule import Life
from streams.find.path_similarity import path_features, path_similarity_to
from streams.find.text_similarity import OldText, Similarity, TextFeatures
from streams.sketch import sketcher
from streams.urls import host_prefix

_VERSIONS_READ = 8
_STUB_SHARE = 0.4  # a last version shorter than this share of the longest version is a stub


class DeadUrl(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A URL that is missing since a sweep, and the document with which candidates are compared.

    `row` is None if the URL never had a document; `features` is None if the text of the document is not stored.
    """

    key: bytes
    url: str
    row: DocumentRow | None
    features: TextFeatures | None
    last_sweep: int  # with a page; `missing_since` if the URL never had one
    missing_since: int  # sweep


def read_dead_url(context: FindContext, life: Life, missing_since: int) -> DeadUrl:
    """Read the document of a URL that is missing since a sweep."""
    row = _representative_row(context, life)
    return DeadUrl(
        key=life.key,
        url=(life.last_answer or life.refusals[-1]).url,
        row=row,
        features=context.texts.features_of(row.sketch.document) if row else None,
        last_sweep=life.last_page.sweep if life.last_page else missing_since,
        missing_since=missing_since,
    )


def _representative_row(context: FindContext, life: Life) -> DocumentRow | None:
    """Return the last document of a URL, or the longest version if the last one is a stub."""
    rows = [row for row in context.rows.many(life.documents_since(0)[-_VERSIONS_READ:]) if row is not None]
    if not rows:
        return None
    last = context.rows(life.last_page.document) if life.last_page and life.last_page.document else None
    longest = max(rows, key=lambda row: row.sketch.shingles)
    is_stub = last is None or last.sketch.shingles < _STUB_SHARE * longest.sketch.shingles
    return longest if is_stub else last


class PageComparer:
    """Compares one dead URL with documents and paths; a document is compared once."""

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
        """Return the similarity of the old URL's path and another path, 0 to 1."""
        return self._path_similarity(path_features(key))

    def compare(self, document: bytes) -> Similarity:
        """Return how similar a document is to the old page."""
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

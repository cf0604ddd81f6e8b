"""How alike a page and its candidates are by their kept texts, and how common words and shingles are on their site.

    containment   (c + c') / 2 of the asked page's shingles in the candidate: c counts shingles alike, c' weighs each
                  by how rare it is on the site, so that menus and other mechanical text count for little
    cosine        of TF-IDF vectors (ln(1 + counts), IDF of the site): sees pages that were rewritten
    title         share of the asked page's title in the candidate's, by squared IDF; the first words stand in for a
                  title where there is none

A site's figures come from a bounded sample of its URLs, read once.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.urls import directory_prefix

if TYPE_CHECKING:
    from state.values import Capture
    from streams.find.view import FindView
    from streams.sketching import Sketcher

_SCAN_MAX = 1024  # captures read in one run; a site with more is sampled directory by directory
_SKIPS_MAX = 48
_SKIP_CAPTURES = 24
_COMMON_FROM = 3  # documents of the sample that may share a shingle before it weighs less
_SITE_LEAST = 8
_VECTORS_KEPT = 4096
_LEAD_CHARACTERS = 300
_LEAD_WORDS = 12


class TextFeatures(NamedTuple):
    """A text as columns, each ascending: distinct shingles, distinct words with ln(1 + count), words of the title."""

    shingles: NDArray[np.uint32]
    words: NDArray[np.uint32]
    weights: NDArray[np.float64]
    title: NDArray[np.uint32]


class Likeness(NamedTuple):
    """How alike the asked page a and a candidate b are, 0 to 1."""

    resemblance: float
    containment: float  # of a in b, all shingles alike
    rare_containment: float  # of a in b, shingles weighed by rarity
    cosine: float
    title: float  # of a's in b's


class Texts:
    """Features of documents by id, the last `size` of them kept."""

    def __init__(self, view: FindView, sketcher: Sketcher, size: int = 4096) -> None:
        self._view, self._sketcher, self._size = view, sketcher, size
        self._kept: OrderedDict[bytes, TextFeatures | None] = OrderedDict()

    def get(self, document: bytes) -> TextFeatures | None:
        """Features of a document, None where its text is not kept."""
        if document in self._kept:
            self._kept.move_to_end(document)
            return self._kept[document]
        held = self._view.title_and_text(document)
        features = self.of(*held) if held is not None else None
        self._kept[document] = features
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return features

    def of(self, title: str, text: str) -> TextFeatures:
        """Features of a text with its title."""
        shingles, words, counts = self._sketcher.shingles_and_words(text)
        lead = title.strip() or " ".join(text[:_LEAD_CHARACTERS].split()[:_LEAD_WORDS])
        named = self._sketcher.word_hashes(lead[:_LEAD_CHARACTERS])[0]
        return TextFeatures(shingles, words, np.log1p(counts.astype(np.float64)), named)


class Site:
    """How rare words and shingles are in a sample of a site: of its last sweep, and of earlier ones."""

    def __init__(self, captures: list[list[Capture]], texts: Texts, last: int) -> None:
        self._captures, self._texts = captures, texts
        documents = self._held_in(last)
        self._count = len(documents)
        self._words, self._word_counts = _tally([f.words for f in documents])
        self._common: dict[int, tuple[NDArray[np.uint32], NDArray[np.float64]]] = {}
        self._last = last
        self._vectors: dict[bytes, tuple[NDArray[np.float64], float]] = {}

    def _held_in(self, sweep: int) -> list[TextFeatures]:
        held = {c.document for each in self._captures for c in each if c.sweep == sweep and c.document is not None}
        return [f for f in map(self._texts.get, sorted(held)) if f is not None]

    def idf(self, words: NDArray[np.uint32]) -> NDArray[np.float64]:
        """ln((1 + documents) / (1 + documents with the word)), at least 0."""
        counts = _look_up(words, self._words, self._word_counts)
        return np.asarray(np.log((1.0 + self._count) / (1.0 + counts)))

    def vector(self, document: bytes, features: TextFeatures) -> tuple[NDArray[np.float64], float]:
        """The TF-IDF vector of a document over its words, and its length."""
        if document not in self._vectors:
            if len(self._vectors) >= _VECTORS_KEPT:
                self._vectors.pop(next(iter(self._vectors)))
            vector = features.weights * self.idf(features.words)
            self._vectors[document] = vector, float(np.sqrt(vector @ vector))
        return self._vectors[document]

    def rarity(self, shingles: NDArray[np.uint32], sweep: int) -> NDArray[np.float64]:
        """Weights of shingles, 1 for rare ones to 0 for those on every page of the last sweep or of `sweep`."""
        weights = np.ones(len(shingles))
        for number in {self._last, sweep}:
            if number not in self._common:
                self._common[number] = self._read_common(number)
            common, share = self._common[number]
            weights = np.minimum(weights, 1.0 - _look_up(shingles, common, share))
        return weights

    def _read_common(self, sweep: int) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        documents = self._held_in(sweep)
        shingles, counts = _tally([f.shingles for f in documents])
        total = max(len(documents), _SITE_LEAST)
        common = counts > _COMMON_FROM
        rare = np.log(total / counts[common]) / np.log(total / _COMMON_FROM)
        return shingles[common], 1.0 - np.clip(rare, 0.0, 1.0)


class Asked:
    """The asked page, made ready to be compared with many."""

    def __init__(self, features: TextFeatures, site: Site, sweep: int) -> None:
        self._features, self._site = features, site
        self._rarity = site.rarity(features.shingles, sweep)
        self._rare_total = float(self._rarity.sum()) + 2.0  # a page of nothing but menus is contained in nothing
        self._vector = features.weights * site.idf(features.words)
        self._norm = float(np.sqrt(self._vector @ self._vector))
        self._title = site.idf(features.title) ** 2
        self._title_total = max(float(self._title.sum()), 1e-9)

    def like(self, document: bytes, other: TextFeatures) -> Likeness:
        """Compare with a candidate's text, that of a document."""
        from streams.estimating import common_places

        a = self._features
        shared, _ = common_places(a.shingles, other.shingles)
        common = len(shared)
        union = len(a.shingles) + len(other.shingles) - common
        vector, length = self._site.vector(document, other)
        norm = self._norm * length
        mine, theirs = common_places(a.words, other.words)
        return Likeness(
            common / union if union else 1.0,
            common / len(a.shingles) if len(a.shingles) else 0.0,
            float(self._rarity[shared].sum()) / self._rare_total,
            float(self._vector[mine] @ vector[theirs]) / norm if norm > 0 else 0.0,
            float(self._title[common_places(a.title, other.title)[0]].sum()) / self._title_total,
        )


def sample_site(view: FindView, host: bytes, urls_max: int) -> list[list[Capture]]:
    """Captures of at most `urls_max` URLs of a host, a list a URL; spread over its directories where it is large."""
    captures = view.captures_under(host, _SCAN_MAX)
    if len(captures) == _SCAN_MAX:
        captures = _skim(view, host)
    urls: dict[bytes, list[Capture]] = {}
    for capture in captures:
        urls.setdefault(capture.key, []).append(capture)
    chosen = sorted(urls, key=lambda key: (zlib.crc32(key), key))[:urls_max]
    return [urls[key] for key in chosen]


def _skim(view: FindView, host: bytes) -> list[Capture]:
    """The first captures of each directory, for as many directories as the limit allows."""
    found: list[Capture] = []
    start: bytes | None = None
    for _ in range(_SKIPS_MAX):
        captures = view.captures_under(host, _SKIP_CAPTURES, start)
        found += captures
        if len(captures) < _SKIP_CAPTURES:
            break
        start = directory_prefix(captures[-1].key) + b"\xff"
    return found


def _tally(columns: list[NDArray[np.uint32]]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    if not columns:
        return np.empty(0, np.uint32), np.empty(0)
    values, counts = np.unique(np.concatenate(columns), return_counts=True)
    return values, counts.astype(np.float64)


def _look_up(values: NDArray[np.uint32], keys: NDArray[np.uint32], held: NDArray[np.float64]) -> NDArray[np.float64]:
    """The held figure of each value, 0 where there is none; `keys` ascending."""
    if not len(keys):
        return np.zeros(len(values))
    at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.where(keys[at] == values, held[at], 0.0)

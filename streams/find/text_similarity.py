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
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streams.find.batch_lru import BatchLru
from streams.urls import directory_prefix

if TYPE_CHECKING:
    from state.model import Capture
    from streams.find.find_view import FindView
    from streams.sketch.sketcher import Sketcher

_SCAN_MAX = 4_096  # captures whose keys are read in one run; a site with more is sampled directory by directory
_SKIPS_MAX = 64  # directories
_SKIP_CAPTURES, _SKIP_URLS = 128, 8
_URLS_SHARE = 4  # URLs looked at for one that the last sweep holds
_CAPTURES_MAX = 1_536
_COMMON_FROM = 3  # documents of the sample that may share a shingle before it weighs less
_SITE_LEAST = 8
_VECTORS_KEPT = 4096
_LEAD_CHARACTERS = 300
_LEAD_WORDS = 12


class TextFeatures(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A text as columns, each ascending: distinct shingles, distinct words with ln(1 + count); and its title."""

    shingles: NDArray[np.uint32]
    words: NDArray[np.uint32]
    weights: NDArray[np.float64]
    title: str


class Likeness(NamedTuple):
    """How alike the asked page a and a candidate b are, 0 to 1."""

    resemblance: float
    containment: float  # of a in b, all shingles alike
    rare_containment: float  # of a in b, shingles weighed by rarity
    cosine: float
    title: float  # of a's in b's


class Texts:
    """Features of documents by id, None where no text is kept; the last `size` of them are remembered."""

    def __init__(self, view: FindView, sketcher: Sketcher, size: int = 4096) -> None:
        self._view, self._sketcher = view, sketcher
        self.of: BatchLru[bytes, TextFeatures | None] = BatchLru(self._read, size)
        self.title_words = lru_cache(maxsize=size)(lambda title: sketcher.word_hashes(title)[0])

    def _read(self, documents: list[bytes]) -> Iterator[TextFeatures | None]:
        for held in self._view.titles_and_texts(documents):
            yield self.features(*held) if held is not None else None

    def features(self, title: str, text: str) -> TextFeatures:
        """Features of a text with its title."""
        shingles, words, counts = self._sketcher.shingles_and_words(text)
        lead = title.strip() or " ".join(text[:_LEAD_CHARACTERS].split()[:_LEAD_WORDS])
        return TextFeatures(shingles, words, np.log1p(counts.astype(np.float64)), lead[:_LEAD_CHARACTERS])


class Site:
    """How rare words and shingles are in a sample of a site: of its last sweep, and of earlier ones."""

    def __init__(self, captures: list[list[Capture]], texts: Texts, last: int, documents_max: int = 64) -> None:
        self._captures, self._texts, self._documents_max = captures, texts, documents_max
        documents = self._held_in(last)
        self._count = len(documents)
        self._words, self._word_counts = _tally([f.words for f in documents])
        self._common: dict[int, tuple[NDArray[np.uint32], NDArray[np.float64]]] = {}
        self._last = last
        self._vectors: dict[bytes, tuple[NDArray[np.float64], float]] = {}

    def _held_in(self, sweep: int) -> list[TextFeatures]:
        held = (c.document for each in self._captures for c in each if c.sweep == sweep and c.document is not None)
        chosen = list(islice(dict.fromkeys(held), self._documents_max))
        return [f for f in self._texts.of.many(chosen) if f is not None]

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

    def __init__(self, features: TextFeatures, site: Site, sweep: int, texts: Texts) -> None:
        self._features, self._site, self._texts = features, site, texts
        self._rarity = site.rarity(features.shingles, sweep)
        self._rare_total = float(self._rarity.sum()) + 2.0  # a page of nothing but menus is contained in nothing
        self._vector = features.weights * site.idf(features.words)
        self._norm = float(np.sqrt(self._vector @ self._vector))
        self._title_words = texts.title_words(features.title)
        self._title = site.idf(self._title_words) ** 2
        self._title_total = max(float(self._title.sum()), 1e-9)

    def like(self, document: bytes, other: TextFeatures) -> Likeness:
        """Compare with a candidate's text, that of a document."""
        from streams.sketch.similarity import shared_product, shared_weight

        a = self._features
        common, rare = shared_weight(a.shingles, self._rarity, other.shingles)
        union = len(a.shingles) + len(other.shingles) - common
        vector, length = self._site.vector(document, other)
        norm = self._norm * length
        _, titles = shared_weight(self._title_words, self._title, self._texts.title_words(other.title))
        return Likeness(
            common / union if union else 1.0,
            common / len(a.shingles) if len(a.shingles) else 0.0,
            rare / self._rare_total,
            shared_product(a.words, self._vector, other.words, vector) / norm if norm > 0 else 0.0,
            titles / self._title_total,
        )


def sample_site(view: FindView, host: bytes, urls_max: int, last: int) -> list[list[Capture]]:
    """Captures of URLs of a host, a list a URL: about `urls_max` that the sweep `last` holds, and others by the way.

    Spread over the host's directories where it is large.
    """
    urls = view.urls_under(host, _SCAN_MAX)
    if len(urls) > 1 and view.urls_under(host, 1, urls[-1] + b"\xff"):
        spread = _skim(view, host)
        urls = spread if len(spread) >= urls_max else [*spread, *urls]
    found: list[list[Capture]] = []
    read = held = 0
    order = sorted(set(urls), key=lambda key: (zlib.crc32(key), key))[: _URLS_SHARE * urls_max]
    for at in range(0, len(order), urls_max):
        for captures in view.histories(order[at : at + urls_max]):
            found.append(captures)
            read += len(captures)
            held += any(capture.sweep == last for capture in captures)
            if held >= urls_max or read >= _CAPTURES_MAX:
                return found
    return found


def _skim(view: FindView, host: bytes) -> list[bytes]:
    """The first URLs of each directory, and some of the root's, for as many directories as the limit allows."""
    found: list[bytes] = []
    start: bytes | None = None
    for _ in range(_SKIPS_MAX):
        read = view.urls_under(host, _SKIP_CAPTURES, start)
        if not read:
            break
        urls = read[:_SKIP_URLS]
        found += urls
        folder = directory_prefix(urls[-1])
        # All other directories are in the root's.
        start = (folder if len(folder) > len(host) + 1 else read[-1]) + b"\xff"
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

"""Compare the stored texts of two pages, given how common their words and shingles are on the site.

    containment   share of the old page's shingles in the candidate; `rare_containment` weights each shingle by its
                  rarity on the site, so that menus and other boilerplate weigh little
    cosine        cosine similarity of the TF-IDF vectors, ln(1 + count) x IDF on the site; recognises rewritten pages
    title         share of the old page's title words in the candidate's title, weighted by squared IDF; the first
                  words of a page replace a missing title

Site statistics come from a bounded sample of the site's URLs, which is read once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.model import Capture
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.sketch.sketcher import Sketcher
from streams.urls import directory_prefix

_COMMON_ABOVE = 3  # a shingle in more than this many sampled documents weighs less
# A smaller sample is treated as one of this size, so that even the shingles of all its pages keep some weight.
_SITE_DOCUMENTS_MIN = 8
_DOCUMENTS_CACHED = 4096  # per cache
_TITLE_CHARACTERS_MAX = 300
_LEAD_WORDS = 12  # number of leading words that replace a missing title
_RARE_TOTAL_EXTRA = 2.0  # added to the sum of rarities, so that a page with only menus has a low `rare_containment`
_SCAN_CAPTURES_MAX = 4_096  # captures whose keys are read at once; a larger site is sampled by directory
_DIRECTORIES_MAX = 64
_DIRECTORY_CAPTURES, _DIRECTORY_URLS = 128, 8  # per directory: captures whose keys are read, and URLs sampled
_URLS_FACTOR = 4  # for each URL wanted from the last sweep, at most this many URLs are read
_SAMPLE_CAPTURES_MAX = 1_536


class TextFeatures(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The distinct shingles and words of a text (both ascending), the count of each word, and the title."""

    shingles: NDArray[np.uint32]
    words: NDArray[np.uint32]
    log_counts: NDArray[np.float64]  # ln(1 + count), per word
    title: str  # or the first words of the text


class Similarity(NamedTuple):
    """How similar the old page (a) and a candidate's document (b) are, from 0 to 1."""

    resemblance: float = 0.0
    containment: float = 0.0  # share of a's shingles in b
    rare_containment: float = 0.0  # the same share, with shingles weighted by rarity
    cosine: float | None = None  # None: one of the texts is not stored
    title: float = 0.0  # share of a's title words in b's title

    @property
    def weighted_containment(self) -> float:
        return (self.containment + self.rare_containment) / 2


class TextFeatureCache:
    """An LRU cache of text features by document id. The value is None if the document's text is not stored."""

    def __init__(self, view: View, sketcher: Sketcher) -> None:
        self._view, self._sketcher = view, sketcher
        self.by_document: BatchLru[bytes, TextFeatures | None] = BatchLru(self._read, _DOCUMENTS_CACHED)
        self.title_words = lru_cache(maxsize=_DOCUMENTS_CACHED)(lambda title: sketcher.words_and_counts(title)[0])

    def _read(self, documents: list[bytes]) -> Iterator[TextFeatures | None]:
        for title_and_text in self._view.titles_and_texts(documents):
            yield self.compute(*title_and_text) if title_and_text is not None else None

    def compute(self, title: str, text: str) -> TextFeatures:
        shingles, words, counts = self._sketcher.shingles_and_words(text)
        title = title.strip() or " ".join(text[:_TITLE_CHARACTERS_MAX].split()[:_LEAD_WORDS])
        return TextFeatures(shingles, words, np.log1p(counts.astype(np.float64)), title[:_TITLE_CHARACTERS_MAX])


class SiteStatistics:
    """How rare words and shingles are in a sample of a site: words in the last sweep, shingles in a given sweep."""

    def __init__(
        self, sample: list[list[Capture]], text_features: TextFeatureCache, last_sweep: int, documents_max: int = 64
    ) -> None:
        self._sample, self._text_features, self._documents_max = sample, text_features, documents_max
        features = self._features_in(last_sweep)
        self._document_count = len(features)
        self._words, self._word_counts = _count_columns([f.words for f in features])
        self._common_shingles = lru_cache(maxsize=64)(self._read_common_shingles)
        self._last_sweep = last_sweep
        self._vectors: dict[bytes, tuple[NDArray[np.float64], float]] = {}

    def _features_in(self, sweep: int) -> list[TextFeatures]:
        captures = (c for captures in self._sample for c in captures)
        documents = (c.document for c in captures if c.sweep == sweep and c.document is not None)
        chosen = list(islice(dict.fromkeys(documents), self._documents_max))
        return [f for f in self._text_features.by_document.get_many(chosen) if f is not None]

    def idf(self, words: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return ln((1 + documents) / (1 + documents with the word)) for each word; never negative."""
        counts = _look_up(words, self._words, self._word_counts)
        return np.asarray(np.log((1.0 + self._document_count) / (1.0 + counts)))

    def vector(self, document_id: bytes, features: TextFeatures) -> tuple[NDArray[np.float64], float]:
        """Return the TF-IDF vector of a document over its words, and the norm of the vector."""
        if document_id not in self._vectors:
            if len(self._vectors) >= _DOCUMENTS_CACHED:
                self._vectors.pop(next(iter(self._vectors)))
            vector = features.log_counts * self.idf(features.words)
            self._vectors[document_id] = vector, float(np.sqrt(vector @ vector))
        return self._vectors[document_id]

    def rarity(self, shingles: NDArray[np.uint32], sweep: int) -> NDArray[np.float64]:
        """Return a weight per shingle: 1 if rare, 0 if on every sampled page of the last sweep or of `sweep`."""
        weights = np.ones(len(shingles))
        for sampled_sweep in {self._last_sweep, sweep}:
            common_shingles, commonness = self._common_shingles(sampled_sweep)
            weights = np.minimum(weights, 1.0 - _look_up(shingles, common_shingles, commonness))
        return weights

    def _read_common_shingles(self, sweep: int) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """Return the common shingles of a sweep, ascending, and how common each of them is, from 0 to 1."""
        features = self._features_in(sweep)
        shingles, counts = _count_columns([f.shingles for f in features])
        total = max(len(features), _SITE_DOCUMENTS_MIN)
        is_common = counts > _COMMON_ABOVE
        rarity = np.log(total / counts[is_common]) / np.log(total / _COMMON_ABOVE)
        return shingles[is_common], 1.0 - np.clip(rarity, 0.0, 1.0)


class OldText:
    """The text of the old page, prepared for many comparisons."""

    def __init__(
        self, features: TextFeatures, site: SiteStatistics, sweep: int, text_features: TextFeatureCache
    ) -> None:
        self._features, self._site, self._text_features = features, site, text_features
        self._rarity = site.rarity(features.shingles, sweep)
        self._rare_total = float(self._rarity.sum()) + _RARE_TOTAL_EXTRA
        self._vector = features.log_counts * site.idf(features.words)
        self._norm = float(np.sqrt(self._vector @ self._vector))
        self._title_words = text_features.title_words(features.title)
        self._title_weights = site.idf(self._title_words) ** 2
        self._title_total = max(float(self._title_weights.sum()), 1e-9)

    def compare(self, document_id: bytes, candidate: TextFeatures) -> Similarity:
        from streams.sketch.similarity import count_and_weigh_shared, sparse_dot_product

        old = self._features
        shared, shared_rarity = count_and_weigh_shared(old.shingles, self._rarity, candidate.shingles)
        union = len(old.shingles) + len(candidate.shingles) - shared
        vector, candidate_norm = self._site.vector(document_id, candidate)
        norms = self._norm * candidate_norm
        title_words = self._text_features.title_words(candidate.title)
        _, title_weight = count_and_weigh_shared(self._title_words, self._title_weights, title_words)
        return Similarity(
            resemblance=shared / union if union else 1.0,
            containment=shared / len(old.shingles) if len(old.shingles) else 0.0,
            rare_containment=shared_rarity / self._rare_total,
            cosine=sparse_dot_product(old.words, self._vector, candidate.words, vector) / norms if norms > 0 else 0.0,
            title=title_weight / self._title_total,
        )


def _count_columns(columns: list[NDArray[np.uint32]]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Return the distinct values of all columns, ascending, and the number of columns with each value."""
    if not columns:
        return np.empty(0, np.uint32), np.empty(0)
    values, counts = np.unique(np.concatenate(columns), return_counts=True)
    return values, counts.astype(np.float64)


def _look_up(
    keys: NDArray[np.uint32], table_keys: NDArray[np.uint32], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the value of each key, or 0 if the key is not in `table_keys`, which are ascending."""
    if not len(table_keys):
        return np.zeros(len(keys))
    positions = np.minimum(np.searchsorted(table_keys, keys), len(table_keys) - 1)
    return np.where(table_keys[positions] == keys, values[positions], 0.0)


def sample_site(view: View, host: bytes, last_sweep_urls_wanted: int, last_sweep: int) -> list[list[Capture]]:
    """Return the captures of a sample of a host's URLs, one list per URL.

    Read URLs until `last_sweep_urls_wanted` of them were captured in `last_sweep`, or until `_SAMPLE_CAPTURES_MAX`
    captures are read. The sample contains all URLs that were read. On a large host, they are spread over many
    directories.
    """
    keys = view.url_keys_under(host, _SCAN_CAPTURES_MAX)
    has_more_captures = len(keys) > 1 and bool(view.url_keys_under(host, 1, keys[-1] + b"\xff"))
    if has_more_captures:
        directory_keys = _skim_directories(view, host)
        keys = directory_keys if len(directory_keys) >= last_sweep_urls_wanted else [*directory_keys, *keys]
    sample: list[list[Capture]] = []
    captures_read = last_sweep_urls = 0
    shuffled_keys = sorted(set(keys), key=lambda key: (zlib.crc32(key), key))[: _URLS_FACTOR * last_sweep_urls_wanted]
    for start in range(0, len(shuffled_keys), last_sweep_urls_wanted):
        for captures in view.histories(shuffled_keys[start : start + last_sweep_urls_wanted]):
            sample.append(captures)
            captures_read += len(captures)
            last_sweep_urls += any(capture.sweep == last_sweep for capture in captures)
            if last_sweep_urls >= last_sweep_urls_wanted or captures_read >= _SAMPLE_CAPTURES_MAX:
                return sample
    return sample


def _skim_directories(view: View, host: bytes) -> list[bytes]:
    """Return the keys of the first URLs of at most `_DIRECTORIES_MAX` directories, and of some URLs in the root."""
    results: list[bytes] = []
    start: bytes | None = None
    for _ in range(_DIRECTORIES_MAX):
        keys = view.url_keys_under(host, _DIRECTORY_CAPTURES, start)
        if not keys:
            break
        results += keys[:_DIRECTORY_URLS]
        directory = directory_prefix(results[-1])
        # Skip the rest of the directory, except in the root, which contains all other directories.
        start = (directory if len(directory) > len(host) + 1 else keys[-1]) + b"\xff"
    return results

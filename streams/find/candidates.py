"""Collect candidates for the new home of a dead URL with bounded look-ups, and select the most promising ones.

| source    | finds                                               | bounded by                                |
|-----------|-----------------------------------------------------|-------------------------------------------|
| bands     | similar pages                                       | postings per bucket                       |
| samples   | longer pages that absorbed the old page             | 16 shingles, postings per shingle         |
| words     | rewritten pages that share hardly any shingles      | 48 words, postings per word               |
| path      | pages that share path words or a page name          | 25 words and names, postings per word     |
| position  | the same path on other hosts, and parent pages      | hosts of the domain, new hosts            |

The last source yields URLs. The others yield documents: they take turns, each with its best documents first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, product, zip_longest

import numpy as np

from state.model import PREFIX_BYTES, DocumentRow
from streams.find import score as scoring
from streams.find.batch_lru import BatchLru
from streams.find.find_context import DeadUrl, FindContext
from streams.find.missing_rule import UrlHistory
from streams.find.path_similarity import path_features, path_similarity_to
from streams.find.text_similarity import TextFeatures
from streams.sketch import sketcher
from streams.sketch.index_terms import (
    choose_text_words,
    most_divisible_shingles,
    page_name_hash,
    path_terms,
    segment_name_variants,
    site_hash,
)
from streams.urls import directory_prefix, host_prefix

WORD_POSTINGS_MAX = 400  # words and names that more documents of a site share are ignored
QUERY_WORDS_MAX = 48
WORDS_PER_READ = 32
WORD_ROWS_MAX, SAMPLE_ROWS_MAX = 4_000, 4_000  # postings of words and of sampled shingles read for one dead URL
NAMES_MAX, SITES_MAX, HOSTS_MAX, PARENT_PAGES_MAX = 18, 4, 16, 12
COMPARED_MAX = 64  # documents compared by sketch
SIMILARITY_MIN = 0.04  # a smaller sum of containment and resemblance is within the error of sketches
_LOOKUPS_CACHED = 512  # look-ups per source; a result takes a few kilobytes at most
_HOT_WORDS_MAX = 100_000  # words known to be too common, whose postings are not read again
_DOCUMENTS_PER_READ = 32  # documents whose locations are read together
_HISTORIES_PER_READ = 16
_PROMISE_SHARE_MIN = 0.2  # candidates with less than this share of the best promise are not compared


class CandidateSelector:
    """Selects candidates. Look-ups are cached, because the search from a hop repeats many of the first look-ups."""

    def __init__(self, context: FindContext) -> None:
        self._context, self._counters = context, context.counters
        view, samples_max = context.view, context.sample_postings_max
        self._buckets = BatchLru(view.bucket_postings, _LOOKUPS_CACHED)
        self._samples: BatchLru[int, list[bytes]] = BatchLru(
            lambda values: view.sample_postings(values, samples_max + 1), _LOOKUPS_CACHED
        )
        self._words: BatchLru[tuple[bytes, int], list[bytes]] = BatchLru(
            lambda words: view.word_postings(words, WORD_POSTINGS_MAX + 1), _LOOKUPS_CACHED
        )
        self._rows: BatchLru[bytes, list[DocumentRow]] = BatchLru(self._read_rows, _LOOKUPS_CACHED)
        self._hot_words: set[tuple[bytes, int]] = set()

    def select(self, dead: DeadUrl, extra_keys: Iterable[bytes], excluded: frozenset[bytes]) -> list[UrlHistory]:
        """Return the histories of candidates: URLs that had a page when the old URL was missing.

        These are the extra keys, URLs by position, and the `find.compared_max` most promising URLs of documents.
        """
        compared_max = self._context.settings.compared_max
        fixed_keys = [key for key in dict.fromkeys([*extra_keys, *self._by_position(dead)]) if key not in excluded]
        promises = self._rate_urls(dead, self._rate_documents(dead), {*fixed_keys, *excluded})
        order = sorted(promises, key=lambda key: (-promises[key], key))
        histories: list[UrlHistory] = []
        urls_read = 0
        while urls_read < len(order) and len(histories) < compared_max:
            if histories and promises[order[urls_read]] < _PROMISE_SHARE_MIN * promises[histories[0].key]:
                self._counters["find_promise_share_min"] += 1
                break
            histories += self._surviving_histories(dead, order[urls_read : urls_read + _HISTORIES_PER_READ])
            urls_read += _HISTORIES_PER_READ
        if len(histories) + (urls_read < len(order)) > compared_max:
            self._counters["find_compared_max"] += 1
        return [*self._surviving_histories(dead, fixed_keys), *histories[:compared_max]]

    def _rate_urls(self, dead: DeadUrl, by_document: dict[bytes, float], known: set[bytes]) -> dict[bytes, float]:
        """Return the promise of about `find.candidates_max` URLs, those of the first documents.

        The promise of a URL is that of its most promising document, plus the similarity of the paths.
        """
        by_url: dict[bytes, float] = {}
        documents = list(by_document)
        for start in range(0, len(documents), _DOCUMENTS_PER_READ):
            if len(by_url) >= self._context.settings.candidates_max:
                self._counters["find_candidates_max"] += 1
                break
            batch = documents[start : start + _DOCUMENTS_PER_READ]
            for document, keys in zip(batch, self._context.locations.many(batch), strict=True):
                for key in keys:
                    if key not in known and by_document[document] >= by_url.get(key, 0.0):
                        by_url[key] = by_document[document]
        similarity = path_similarity_to(path_features(dead.key))
        return {key: promise + scoring.PATH * similarity(path_features(key)) for key, promise in by_url.items()}

    def _surviving_histories(self, dead: DeadUrl, keys: list[bytes]) -> list[UrlHistory]:
        """Return the histories of the URLs that had a page when the old URL was missing."""
        histories = self._context.url_histories.many(keys)
        return [h for h in histories if h.last_page and h.last_page.sweep >= dead.missing_since]

    def _rate_documents(self, dead: DeadUrl) -> dict[bytes, float]:
        """Return the promise of candidate documents by prefix, in the order in which their sources take turns.

        The promise of a document is its containment plus its resemblance, estimated by sketches, plus the strength of
        its shared words as a share of the highest strength.
        """
        gathered_max = self._context.settings.gathered_max
        by_content = self._by_content(dead.row) if dead.row else {}
        sites = self._sites(dead)
        by_words = self._by_words(sites, _query_words(dead.features))
        names = [page_name_hash(name) for name in segment_name_variants(dead.url)[:NAMES_MAX]]
        by_path = self._by_words(sites, dict.fromkeys([*names, *path_terms(dead.url, self._context.sketcher)]))
        total: dict[bytes, float] = defaultdict(float)
        for source in (by_content, by_words, by_path):
            strongest = max(source.values(), default=1.0)
            for prefix, strength in source.items():
                total[prefix] += strength / strongest
        if len(total) > gathered_max:
            self._counters["gathered_max"] += 1
        chosen = _strongest(total, gathered_max)
        by_sketch = self._compare_sketches(dead, by_content)
        documents = _take_turns(chosen, [by_sketch, by_path, by_words, total])
        strongest = max(by_words.values(), default=1.0)
        return {prefix: by_sketch.get(prefix, 0.0) + by_words.get(prefix, 0.0) / strongest for prefix in documents}

    def _compare_sketches(self, dead: DeadUrl, by_content: dict[bytes, float]) -> dict[bytes, float]:
        """Return containment plus resemblance of the documents that share the most bands and shingles."""
        if dead.row is None:
            return {}
        rows = list(chain.from_iterable(self._rows.many(_strongest(by_content, COMPARED_MAX))))
        figures = sketcher.compare_with_each(dead.row.sketch, [row.sketch for row in rows])
        sums = (figures.containment + figures.resemblance).tolist()
        by_prefix = {row.sketch.document[:PREFIX_BYTES]: value for row, value in zip(rows, sums, strict=True)}
        return {prefix: value for prefix, value in by_prefix.items() if value >= SIMILARITY_MIN}

    def _read_rows(self, prefixes: list[bytes]) -> Iterable[list[DocumentRow]]:
        rows: dict[bytes, list[DocumentRow]] = {prefix: [] for prefix in prefixes}
        for row in self._context.view.documents_by_prefixes(prefixes):
            rows[row.sketch.document[:PREFIX_BYTES]].append(row)
        return rows.values()

    def _by_content(self, row: DocumentRow) -> dict[bytes, float]:
        """Return the strength of documents that share bands or sampled shingles with the old document."""
        strengths: dict[bytes, float] = defaultdict(float)
        buckets = sketcher.cut_into_buckets(row.sketch.signature[None, :], self._context.view.scheme)[0]
        for postings in self._buckets.many(bucket.tobytes() for bucket in buckets):
            for prefix in postings:
                strengths[prefix] += 1.0
        remaining = SAMPLE_ROWS_MAX
        for postings in self._samples.many(most_divisible_shingles(row.sketch)):
            if remaining <= 0:
                self._counters["find_rows_max"] += 1
                break
            remaining -= len(postings)
            if len(postings) > self._context.sample_postings_max:
                self._counters["sample_postings_max"] += 1
                continue
            weight = 1.0 + 4.0 / math.log2(2 + len(postings))
            for prefix in postings:
                strengths[prefix] += weight
        return strengths

    def _sites(self, dead: DeadUrl) -> list[bytes]:
        """Return the sites whose words are looked up: the old site, and sites new in the sweep without the old URL.

        If that sweep visited the old host and many new hosts, as a broad crawl does, the new sites are left out,
        because none of them is more likely than the others.
        """
        sweeps, host = self._context.sweeps, host_prefix(dead.key)
        new_hosts = sweeps.new_hosts(dead.missing_since, dead.last_sweep)[:SITES_MAX]
        if len(new_hosts) == SITES_MAX and sweeps.has_visited(dead.missing_since, host):
            new_hosts = []
        return list(dict.fromkeys(site_hash(name + b"/") for name in [host, *new_hosts]))[:SITES_MAX]

    def _by_words(self, sites: list[bytes], words: Iterable[int]) -> dict[bytes, float]:
        """Return the strength of documents that share words; rare words weigh more."""
        strengths: dict[bytes, float] = defaultdict(float)
        remaining = WORD_ROWS_MAX
        keys = [(site, word) for word, site in product(words, sites)]
        cold_keys = [key for key in keys if key not in self._hot_words]
        self._counters["word_postings_max"] += len(keys) - len(cold_keys)
        for start in range(0, len(cold_keys), WORDS_PER_READ):
            if remaining <= 0:
                self._counters["find_rows_max"] += 1
                break
            batch = cold_keys[start : start + WORDS_PER_READ]
            for key, postings in zip(batch, self._words.many(batch), strict=True):
                remaining -= len(postings)
                if len(postings) > WORD_POSTINGS_MAX:
                    self._counters["word_postings_max"] += 1
                    if len(self._hot_words) < _HOT_WORDS_MAX:
                        self._hot_words.add(key)
                    continue
                weight = math.log(2 * WORD_POSTINGS_MAX / (1 + len(postings)))
                for prefix in postings:
                    strengths[prefix] += weight
        return strengths

    def _by_position(self, dead: DeadUrl) -> list[bytes]:
        """Return the keys of URLs with the same path on other hosts, and of parent pages."""
        sweeps, host = self._context.sweeps, host_prefix(dead.key)
        newest = sweeps.committed[-1] if sweeps.committed else dead.missing_since
        hosts: list[bytes] = []
        for sweep in {dead.missing_since, newest}:
            hosts += sweeps.hosts_of_domain(sweep, dead.key, HOSTS_MAX)
            hosts += sweeps.new_hosts(sweep, dead.last_sweep)[:SITES_MAX]
        elsewhere = [other + dead.key[len(host) :] for other in dict.fromkeys(hosts) if other != host]
        return [*elsewhere[:HOSTS_MAX], *parent_pages(dead.key)]


def _strongest(strengths: dict[bytes, float], limit: int) -> list[bytes]:
    return sorted(strengths, key=strengths.__getitem__, reverse=True)[:limit]


def _take_turns(chosen: list[bytes], sources: list[dict[bytes, float]]) -> list[bytes]:
    """Return the chosen prefixes from each source in turn, so that no source crowds out the others."""
    orders = [_strongest({p: source[p] for p in chosen if p in source}, len(chosen)) for source in sources]
    turns = chain.from_iterable(zip_longest(*orders))
    return list(dict.fromkeys(prefix for prefix in turns if prefix is not None))


def _query_words(features: TextFeatures | None) -> list[int]:
    """Return the words of the old text to look up, usually more than the index contains per text."""
    if features is None:
        return []
    counts = np.expm1(features.weights).round().astype(np.int64)
    return [int(word) for word in choose_text_words(features.words, counts, QUERY_WORDS_MAX)]


def parent_pages(key: bytes) -> list[bytes]:
    """Return the keys of pages that may have absorbed a URL's page: `/a/b.html` and `/a/b/` for `/a/b/c.html`."""
    host = host_prefix(key)
    bare = key.split(b"?", 1)[0]
    name = bare[bare.rfind(b"/") + 1 :]
    extension = name[name.rfind(b".") :] if b"." in name else b""
    pages: dict[bytes, None] = {}
    folder = directory_prefix(bare if name else bare[:-1])
    while len(folder) > len(host) + 1:
        index = folder + b"index" + (extension or b".html")
        pages.update(dict.fromkeys((folder[:-1] + extension, folder, folder[:-1], index)))
        folder = directory_prefix(folder[:-1])
    pages.pop(key, None)
    return list(pages)[:PARENT_PAGES_MAX]

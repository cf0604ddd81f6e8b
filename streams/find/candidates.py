"""Collect candidates for the new home of a dead URL with bounded look-ups, and select the most promising ones.

| source    | finds                                               | bounded by                                |
|-----------|-----------------------------------------------------|-------------------------------------------|
| bands     | similar pages                                       | postings per bucket                       |
| samples   | longer pages that absorbed the old page             | 16 shingles, postings per shingle         |
| words     | rewritten pages, which share hardly any shingles    | 48 words, postings per word               |
| path      | pages that share path words or a page name          | 25 words and names, postings per word     |
| position  | the same path on other hosts, and parent pages      | hosts of the domain, new hosts            |

The last source yields URLs. The others yield documents, which are taken from each source in turn, the best first. The
*promise* of a document or URL is an estimate of its similarity that needs no texts; only the texts of the most
promising URLs are compared.
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

WORD_POSTINGS_MAX = 400  # a word or page name with more postings on a site is ignored
QUERY_WORDS_MAX = 48
WORDS_PER_READ = 32
WORD_POSTINGS_READ_MAX, SAMPLE_POSTINGS_READ_MAX = 4_000, 4_000  # per dead URL: of words, and of sampled shingles
NAMES_MAX, SITES_MAX, HOSTS_MAX, PARENT_PAGES_MAX = 18, 4, 16, 12
SKETCHES_COMPARED_MAX = 64  # documents whose sketches are compared
SKETCH_SIMILARITY_MIN = 0.04  # a smaller sum of containment and resemblance may be due to sampling error alone
_LOOKUPS_CACHED = 512  # per source; each result needs a few kilobytes at most
_HOT_WORDS_MAX = 100_000  # words remembered as too common, so that their postings are not read again
_DOCUMENTS_PER_READ = 32  # documents whose locations are read together
_HISTORIES_PER_READ = 16
_PROMISE_SHARE_MIN = 0.2  # a URL with less than this share of the best promise is not compared


class CandidateSelector:
    """Selects candidates. Look-ups are cached, because a search from a hop repeats many of them."""

    def __init__(self, context: FindContext) -> None:
        self._context, self._counters = context, context.counters
        view, samples_max = context.view, context.sample_postings_max
        self._bucket_postings = BatchLru(view.bucket_postings, _LOOKUPS_CACHED)
        self._sample_postings: BatchLru[int, list[bytes]] = BatchLru(
            lambda shingles: view.sample_postings(shingles, samples_max + 1), _LOOKUPS_CACHED
        )
        self._word_postings: BatchLru[tuple[bytes, int], list[bytes]] = BatchLru(
            lambda words: view.word_postings(words, WORD_POSTINGS_MAX + 1), _LOOKUPS_CACHED
        )
        self._rows_by_prefix: BatchLru[bytes, list[DocumentRow]] = BatchLru(self._read_rows, _LOOKUPS_CACHED)
        self._hot_words: set[tuple[bytes, int]] = set()

    def select(self, dead: DeadUrl, extra_keys: Iterable[bytes], excluded: frozenset[bytes]) -> list[UrlHistory]:
        """Return the histories of the candidates that have had a page since the old URL went missing.

        Candidates are `extra_keys`, URLs found by position, and the `find.compared_max` most promising URLs of the
        documents found. URLs in `excluded` are never candidates.
        """
        compared_max = self._context.settings.compared_max
        always_selected = [
            key for key in dict.fromkeys([*extra_keys, *self._keys_by_position(dead)]) if key not in excluded
        ]
        promises = self._rate_urls(dead, self._rate_documents(dead), {*always_selected, *excluded})
        ordered_keys = sorted(promises, key=lambda key: (-promises[key], key))
        histories: list[UrlHistory] = []
        urls_read = 0
        while urls_read < len(ordered_keys) and len(histories) < compared_max:
            if histories and promises[ordered_keys[urls_read]] < _PROMISE_SHARE_MIN * promises[histories[0].key]:
                self._counters["find_promise_share_min"] += 1
                break
            histories += self._surviving_histories(dead, ordered_keys[urls_read : urls_read + _HISTORIES_PER_READ])
            urls_read += _HISTORIES_PER_READ
        if len(histories) > compared_max or (len(histories) == compared_max and urls_read < len(ordered_keys)):
            self._counters["find_compared_max"] += 1
        return [*self._surviving_histories(dead, always_selected), *histories[:compared_max]]

    def _rate_urls(
        self, dead: DeadUrl, promise_by_document: dict[bytes, float], excluded: set[bytes]
    ) -> dict[bytes, float]:
        """Return the promise of each URL of the first documents, by URL key, for about `find.candidates_max` URLs.

        The promise of a URL is that of its most promising document, plus the weighted similarity of the paths.
        """
        promise_by_url: dict[bytes, float] = {}
        documents = list(promise_by_document)
        for start in range(0, len(documents), _DOCUMENTS_PER_READ):
            if len(promise_by_url) >= self._context.settings.candidates_max:
                self._counters["find_candidates_max"] += 1
                break
            batch = documents[start : start + _DOCUMENTS_PER_READ]
            for document, keys in zip(batch, self._context.latest_locations.get_many(batch), strict=True):
                for key in keys:
                    if key not in excluded and promise_by_document[document] >= promise_by_url.get(key, 0.0):
                        promise_by_url[key] = promise_by_document[document]
        similarity = path_similarity_to(path_features(dead.key))
        return {
            key: promise + scoring.PATH_WEIGHT * similarity(path_features(key))
            for key, promise in promise_by_url.items()
        }

    def _surviving_histories(self, dead: DeadUrl, keys: list[bytes]) -> list[UrlHistory]:
        """Return the histories of the URLs that had a page in `dead.missing_since` or a later sweep."""
        histories = self._context.url_histories.get_many(keys)
        return [h for h in histories if h.last_page and h.last_page.sweep >= dead.missing_since]

    def _rate_documents(self, dead: DeadUrl) -> dict[bytes, float]:
        """Return the promise of candidate documents, by prefix. Each source in turn contributes its best document.

        The promise of a document is the sum of its containment and its resemblance, both estimated from sketches, and
        the strength of its shared words as a share of the highest such strength.
        """
        gathered_max = self._context.settings.gathered_max
        content_strengths = self._strengths_by_content(dead.row) if dead.row else {}
        sites = self._searched_sites(dead)
        word_strengths = self.strengths_by_words(sites, _query_words(dead.features))
        names = [page_name_hash(name) for name in segment_name_variants(dead.url)[:NAMES_MAX]]
        path_strengths = self.strengths_by_words(
            sites, dict.fromkeys([*names, *path_terms(dead.url, self._context.sketcher)])
        )
        total_strengths: dict[bytes, float] = defaultdict(float)
        for source in (content_strengths, word_strengths, path_strengths):
            source_max = max(source.values(), default=1.0)
            for prefix, strength in source.items():
                total_strengths[prefix] += strength / source_max
        if len(total_strengths) > gathered_max:
            self._counters["gathered_max"] += 1
        chosen = _strongest_prefixes(total_strengths, gathered_max)
        sketch_similarities = self._compare_sketches(dead, content_strengths)
        documents = _interleave(chosen, [sketch_similarities, path_strengths, word_strengths, total_strengths])
        words_max = max(word_strengths.values(), default=1.0)
        return {
            prefix: sketch_similarities.get(prefix, 0.0) + word_strengths.get(prefix, 0.0) / words_max
            for prefix in documents
        }

    def _compare_sketches(self, dead: DeadUrl, content_strengths: dict[bytes, float]) -> dict[bytes, float]:
        """Return containment plus resemblance, by prefix, of the documents with the highest content strengths."""
        if dead.row is None:
            return {}
        prefixes = _strongest_prefixes(content_strengths, SKETCHES_COMPARED_MAX)
        rows = list(chain.from_iterable(self._rows_by_prefix.get_many(prefixes)))
        comparisons = sketcher.compare_with_each(dead.row.sketch, [row.sketch for row in rows])
        sums = (comparisons.containment + comparisons.resemblance).tolist()
        by_prefix = {row.sketch.document[:PREFIX_BYTES]: value for row, value in zip(rows, sums, strict=True)}
        return {prefix: value for prefix, value in by_prefix.items() if value >= SKETCH_SIMILARITY_MIN}

    def _read_rows(self, prefixes: list[bytes]) -> Iterable[list[DocumentRow]]:
        rows: dict[bytes, list[DocumentRow]] = {prefix: [] for prefix in prefixes}
        for row in self._context.view.documents_by_prefixes(prefixes):
            rows[row.sketch.document[:PREFIX_BYTES]].append(row)
        return rows.values()

    def _strengths_by_content(self, row: DocumentRow) -> dict[bytes, float]:
        """Return the number of shared bands plus the weights of shared sampled shingles, by document prefix."""
        strengths: dict[bytes, float] = defaultdict(float)
        buckets = sketcher.cut_into_buckets(row.sketch.signature[None, :], self._context.view.scheme)[0]
        for postings in self._bucket_postings.get_many(bucket.tobytes() for bucket in buckets):
            for prefix in postings:
                strengths[prefix] += 1.0
        postings_left = SAMPLE_POSTINGS_READ_MAX
        for postings in self._sample_postings.get_many(most_divisible_shingles(row.sketch)):
            if postings_left <= 0:
                self._counters["find_rows_max"] += 1
                break
            postings_left -= len(postings)
            if len(postings) > self._context.sample_postings_max:
                self._counters["sample_postings_max"] += 1
                continue
            weight = 1.0 + 4.0 / math.log2(2 + len(postings))
            for prefix in postings:
                strengths[prefix] += weight
        return strengths

    def _searched_sites(self, dead: DeadUrl) -> list[bytes]:
        """Return the hashes of the sites to search: the old site, and the sites that are new in `missing_since`.

        If the sweep `missing_since` visited the old host and many new hosts, as a broad crawl does, the new sites are
        left out, because none of them is more likely than the others.
        """
        sweeps, old_host = self._context.sweeps, host_prefix(dead.key)
        new_hosts = sweeps.new_hosts(dead.missing_since, dead.last_sweep)[:SITES_MAX]
        if len(new_hosts) == SITES_MAX and sweeps.has_visited(dead.missing_since, old_host):
            new_hosts = []
        return list(dict.fromkeys(site_hash(host + b"/") for host in [old_host, *new_hosts]))[:SITES_MAX]

    def strengths_by_words(self, sites: list[bytes], words: Iterable[int]) -> dict[bytes, float]:
        """Return the sum of the weights of shared words, by document prefix. Rare words weigh more."""
        strengths: dict[bytes, float] = defaultdict(float)
        postings_left = WORD_POSTINGS_READ_MAX
        keys = [(site, word) for word, site in product(words, sites)]
        cold_keys = [key for key in keys if key not in self._hot_words]
        self._counters["word_postings_max"] += len(keys) - len(cold_keys)
        for start in range(0, len(cold_keys), WORDS_PER_READ):
            if postings_left <= 0:
                self._counters["find_rows_max"] += 1
                break
            batch = cold_keys[start : start + WORDS_PER_READ]
            for key, postings in zip(batch, self._word_postings.get_many(batch), strict=True):
                postings_left -= len(postings)
                if len(postings) > WORD_POSTINGS_MAX:
                    self._counters["word_postings_max"] += 1
                    if len(self._hot_words) < _HOT_WORDS_MAX:
                        self._hot_words.add(key)
                    continue
                weight = math.log(2 * WORD_POSTINGS_MAX / (1 + len(postings)))
                for prefix in postings:
                    strengths[prefix] += weight
        return strengths

    def _keys_by_position(self, dead: DeadUrl) -> list[bytes]:
        """Return the keys of URLs with the same path on other hosts, and of parent pages."""
        sweeps, host = self._context.sweeps, host_prefix(dead.key)
        last_committed = sweeps.committed[-1] if sweeps.committed else dead.missing_since
        hosts: list[bytes] = []
        for sweep in {dead.missing_since, last_committed}:
            hosts += sweeps.hosts_of_domain(sweep, dead.key, HOSTS_MAX)
            hosts += sweeps.new_hosts(sweep, dead.last_sweep)[:SITES_MAX]
        same_path_keys = [
            other_host + dead.key[len(host) :] for other_host in dict.fromkeys(hosts) if other_host != host
        ]
        return [*same_path_keys[:HOSTS_MAX], *parent_page_keys(dead.key)]


def _strongest_prefixes(strengths: dict[bytes, float], limit: int) -> list[bytes]:
    return sorted(strengths, key=strengths.__getitem__, reverse=True)[:limit]


def _interleave(chosen: list[bytes], sources: list[dict[bytes, float]]) -> list[bytes]:
    """Take the best of the chosen prefixes from each source in turn, so that no source crowds out the others."""
    rankings = [
        _strongest_prefixes({prefix: source[prefix] for prefix in chosen if prefix in source}, len(chosen))
        for source in sources
    ]
    interleaved = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(prefix for prefix in interleaved if prefix is not None))


def _query_words(features: TextFeatures | None) -> list[int]:
    """Return the hashes of the words to look up, usually more than the index contains for one text."""
    if features is None:
        return []
    counts = np.expm1(features.log_counts).round().astype(np.int64)
    return [int(word) for word in choose_text_words(features.words, counts, QUERY_WORDS_MAX)]


def parent_page_keys(key: bytes) -> list[bytes]:
    """Return the keys of possible parent pages, such as `/a/b.html` and `/a/b/` for `/a/b/c.html`."""
    host = host_prefix(key)
    without_query = key.split(b"?", 1)[0]
    name = without_query[without_query.rfind(b"/") + 1 :]
    extension = name[name.rfind(b".") :] if b"." in name else b""
    keys: dict[bytes, None] = {}
    folder = directory_prefix(without_query if name else without_query[:-1])
    while len(folder) > len(host) + 1:
        index_page = folder + b"index" + (extension or b".html")
        keys.update(dict.fromkeys((folder[:-1] + extension, folder, folder[:-1], index_page)))
        folder = directory_prefix(folder[:-1])
    keys.pop(key, None)
    return list(keys)[:PARENT_PAGES_MAX]

"""Candidates for one old URL, from bounded look-ups: documents that its content or its path points at, and URLs.

| source   | finds                                               | bounded by                                |
|----------|-----------------------------------------------------|-------------------------------------------|
| bands    | pages like it                                       | postings a bucket                         |
| samples  | longer pages that it was folded into                | 16 shingles, postings a shingle           |
| words    | pages rewritten beyond shingles                     | 16 words, postings a word                 |
| path     | pages with its path words or its name               | 7 words, postings a word                  |
| paths    | the same path elsewhere, and pages above it         | hosts of the domain, new hosts            |

Documents are then compared by their sketches, and ordered so that the best of each source come first in turn.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import chain, product, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from state.model import PREFIX_BYTES, DocumentRow
from streams.find.batch_lru import BatchLru
from streams.sketch import sketcher as sketching
from streams.sketch.index_terms import most_sampled, name_hash, path_terms, segment_names, site_key, text_words
from streams.urls import directory_prefix, host_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.find.find_view import FindView
    from streams.find.history import SweepIndex
    from streams.find.text_similarity import TextFeatures
    from streams.sketch.sketcher import Sketcher

WORD_POSTINGS_MAX = 400  # a word or name that more documents of a site share is passed over
ASKED_WORDS_MAX = 48
WORDS_AT_ONCE = 32  # looked up together
WORD_ROWS_MAX = 4_000  # postings after which a question reads no more of words, and counts no more of its samples
SAMPLE_ROWS_MAX = 4_000
NAMES_MAX = 18
COMPARED_MAX = 64  # documents compared by sketch
ALIKE_MIN = 0.04  # containment and resemblance together: less is within the sketches' error
_LOOKUPS_KEPT = 512  # of each kind, each some kilobytes at most
_HOT_KEPT = 100_000  # words known to be common, so that they are not read again
SITES_MAX = 4
HOSTS_MAX = 16


class Gathered(NamedTuple):
    """Prefixes of documents of the page perhaps, the most promising first, and URLs to be looked at of themselves.

    `promise` is what is known of documents before their texts are read: containment and resemblance by sketches, and
    the strength of shared words beside that of the document which shares most.
    """

    documents: list[bytes]
    urls: list[bytes]
    promise: dict[bytes, float]


class DeadUrl(NamedTuple):
    """The old URL, the document that is looked for (None: it never held one), and its words where texts are kept."""

    key: bytes
    url: str
    row: DocumentRow | None
    features: TextFeatures | None
    last: int  # sweep
    missed: int  # sweep


class Gatherer:
    """Looks candidates up; `counters` says which limits bit how often."""

    def __init__(
        self,
        view: FindView,
        calendar: SweepIndex,
        sketcher: Sketcher,
        *,
        gathered_max: int,
        sample_postings_max: int,
    ) -> None:
        self._view, self._calendar, self._sketcher = view, calendar, sketcher
        self._gathered_max = gathered_max
        self._sample_postings_max = sample_postings_max
        # A stop on a page's way asks for much of what the page itself did.
        self._buckets = BatchLru(view.buckets, _LOOKUPS_KEPT)
        self._samples: BatchLru[int, list[bytes]] = BatchLru(
            lambda values: view.sample_postings(values, sample_postings_max + 1), _LOOKUPS_KEPT
        )
        self._words: BatchLru[tuple[bytes, int], list[bytes]] = BatchLru(
            lambda words: view.word_postings(words, WORD_POSTINGS_MAX + 1), _LOOKUPS_KEPT
        )
        self._rows: BatchLru[bytes, list[DocumentRow]] = BatchLru(self._read_rows, _LOOKUPS_KEPT)
        self.counters: Counter[str] = Counter()
        self._hot: set[tuple[bytes, int]] = set()

    def gather(self, asked: DeadUrl) -> Gathered:
        """Candidates for one question."""
        content = self._by_content(asked.row) if asked.row else {}
        sites = self._sites(asked)
        by_words = self._by_words(sites, asked_words(asked.features))
        names = [name_hash(name) for name in segment_names(asked.url)[:NAMES_MAX]]
        by_path = self._by_words(sites, dict.fromkeys([*names, *path_terms(asked.url, self._sketcher)]))
        total: dict[bytes, float] = defaultdict(float)
        for found in (content, by_words, by_path):
            most = max(found.values(), default=1.0)
            for prefix, strength in found.items():
                total[prefix] += strength / most
        if len(total) > self._gathered_max:
            self.counters["gathered_max"] += 1
        chosen = _strongest(total, self._gathered_max)
        alike = self._alike(asked, content)
        turns = _take_turns(chosen, [alike, by_path, by_words, total])
        most = max(by_words.values(), default=1.0)
        promise = {prefix: alike.get(prefix, 0.0) + by_words.get(prefix, 0.0) / most for prefix in turns}
        return Gathered(turns, self._by_position(asked), promise)

    def _alike(self, asked: DeadUrl, content: dict[bytes, float]) -> dict[bytes, float]:
        """Containment and resemblance by sketches, of documents that share most with the asked one."""
        if asked.row is None:
            return {}
        rows = list(chain.from_iterable(self._rows.many(_strongest(content, COMPARED_MAX))))
        figures = sketching.compare_many(asked.row.sketch, [row.sketch for row in rows])
        alike = (figures.containment + figures.resemblance).tolist()
        found = {row.sketch.document[:PREFIX_BYTES]: each for row, each in zip(rows, alike, strict=True)}
        return {prefix: each for prefix, each in found.items() if each >= ALIKE_MIN}

    def _read_rows(self, prefixes: list[bytes]) -> list[list[DocumentRow]]:
        held: dict[bytes, list[DocumentRow]] = {prefix: [] for prefix in prefixes}
        for row in self._view.documents_by_prefixes(prefixes):
            held[row.sketch.document[:PREFIX_BYTES]].append(row)
        return list(held.values())

    def _by_content(self, row: DocumentRow) -> dict[bytes, float]:
        """Strengths of documents that share bands or sampled shingles with the asked one."""
        found: dict[bytes, float] = defaultdict(float)
        buckets = sketching.buckets(row.sketch.signature[None, :], self._view.scheme)[0]
        for postings in self._buckets.many(bucket.tobytes() for bucket in buckets):
            for prefix in postings:
                found[prefix] += 1.0
        limit, left = self._sample_postings_max, SAMPLE_ROWS_MAX
        for postings in self._samples.many(most_sampled(row.sketch)):
            if left <= 0:
                self.counters["find_rows_max"] += 1
                break
            left -= len(postings)
            if len(postings) > limit:
                self.counters["sample_postings_max"] += 1
                continue
            weight = 1.0 + 4.0 / math.log2(2 + len(postings))
            for prefix in postings:
                found[prefix] += weight
        return found

    def _sites(self, asked: DeadUrl) -> list[bytes]:
        """Sites whose words are looked up: the old URL's own, and those that first came with the missing sweep.

        Where its host lives on and many others came, as in any wide crawl, nothing speaks for some of these.
        """
        host = host_prefix(asked.key)
        new = self._calendar.new_hosts(asked.missed, asked.last, SITES_MAX)
        if len(new) == SITES_MAX and self._calendar.visited(asked.missed, host):
            new = []
        return list(dict.fromkeys(site_key(each + b"/") for each in [host, *new]))[:SITES_MAX]

    def _by_words(self, sites: list[bytes], words: Iterable[int]) -> dict[bytes, float]:
        """Strengths of documents that share words, rare ones for more."""
        found: dict[bytes, float] = defaultdict(float)
        left = WORD_ROWS_MAX
        asked = [(site, word) for word, site in product(words, sites)]
        cold = [each for each in asked if each not in self._hot]
        self.counters["word_postings_max"] += len(asked) - len(cold)
        for at in range(0, len(cold), WORDS_AT_ONCE):
            if left <= 0:
                self.counters["find_rows_max"] += 1
                break
            part = cold[at : at + WORDS_AT_ONCE]
            for each, postings in zip(part, self._words.many(part), strict=True):
                left -= len(postings)
                if len(postings) > WORD_POSTINGS_MAX:
                    self.counters["word_postings_max"] += 1
                    if len(self._hot) < _HOT_KEPT:
                        self._hot.add(each)
                    continue
                weight = math.log(2 * WORD_POSTINGS_MAX / (1 + len(postings)))
                for prefix in postings:
                    found[prefix] += weight
        return found

    def _by_position(self, asked: DeadUrl) -> list[bytes]:
        """URLs at the same path on other hosts, and pages above the old one."""
        host = host_prefix(asked.key)
        path = asked.key[len(host) :]
        last = self._calendar.committed[-1] if self._calendar.committed else asked.missed
        others: list[bytes] = []
        for number in {asked.missed, last}:
            others += self._calendar.hosts_of_domain(number, asked.key, HOSTS_MAX)
            others += self._calendar.new_hosts(number, asked.last, SITES_MAX)
        elsewhere = [other + path for other in dict.fromkeys(others) if other != host]
        return [*elsewhere[:HOSTS_MAX], *above(asked.key)]


def _strongest(strengths: dict[bytes, float], most: int) -> list[bytes]:
    return sorted(strengths, key=strengths.__getitem__, reverse=True)[:most]


def _take_turns(chosen: list[bytes], sources: list[dict[bytes, float]]) -> list[bytes]:
    """All that was chosen, the best of each source in turn, so that none crowds out another."""
    orders = [_strongest({p: source[p] for p in chosen if p in source}, len(chosen)) for source in sources]
    turns = chain.from_iterable(zip_longest(*orders))
    return list(dict.fromkeys(prefix for prefix in turns if prefix is not None))


def asked_words(features: TextFeatures | None) -> list[int]:
    """Words of the asked text that are looked up: more than are indexed of one, as another text has other counts."""
    if features is None:
        return []
    counts = np.expm1(features.weights).round().astype(np.int64)
    return [int(word) for word in text_words(features.words, counts, ASKED_WORDS_MAX)]


def above(key: bytes) -> list[bytes]:
    """Keys of pages that the old one may have been folded into by place: `/a/b/c.html`: `/a/b.html`, `/a/b/`."""
    host = host_prefix(key)
    bare = key.split(b"?", 1)[0]
    name = bare[bare.rfind(b"/") + 1 :]
    end = name[name.rfind(b".") :] if b"." in name else b""
    found: dict[bytes, None] = {}
    folder = directory_prefix(bare if name else bare[:-1])
    while len(folder) > len(host) + 1:
        for each in (folder[:-1] + end, folder, folder[:-1], folder + b"index" + (end or b".html")):
            found[each] = None
        folder = directory_prefix(folder[:-1])
    found.pop(key, None)
    return list(found)[:12]

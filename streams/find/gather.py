"""Candidates for one old URL, from bounded look-ups: documents that its content or its path points at, and URLs.

| source   | finds                                               | bounded by                                |
|----------|-----------------------------------------------------|-------------------------------------------|
| bands    | pages like it                                       | postings a bucket                         |
| samples  | longer pages that it was folded into                | 16 shingles, postings a shingle           |
| words    | pages rewritten beyond shingles                     | 16 words, postings a word                 |
| path     | pages with its path words or its name               | 7 words, postings a word                  |
| paths    | the same path elsewhere, and pages above it         | hosts of the domain, new hosts            |

Documents are then compared by their sketches, and the best of each source are kept, so that none crowds out another.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from state.values import DocumentRow
from streams import sketching
from streams.terms import most_sampled, path_terms, site_key, text_words
from streams.urls import directory_prefix, host_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.find.history import Calendar
    from streams.find.texts import TextFeatures
    from streams.find.view import FindView
    from streams.sketching import Sketcher

WORD_POSTINGS_MAX = 128  # a word or name that more pages of a site share is passed over
SITES_MAX = 4
HOSTS_MAX = 16
# Shares of `candidates_max` that each source may fill before the rest competes.
QUOTAS = {"content": 0.45, "words": 0.25, "path": 0.30}


class Gathered(NamedTuple):
    """Documents that may hold the page now, best first, and URLs to be looked at by their own right."""

    documents: list[DocumentRow]
    urls: list[bytes]


class Question(NamedTuple):
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
        calendar: Calendar,
        sketcher: Sketcher,
        *,
        gathered_max: int,
        candidates_max: int,
        sample_postings_max: int,
    ) -> None:
        self._view, self._calendar, self._sketcher = view, calendar, sketcher
        self._gathered_max, self._candidates_max = gathered_max, candidates_max
        self._sample_postings_max = sample_postings_max
        self.counters: Counter[str] = Counter()

    def gather(self, asked: Question) -> Gathered:
        """Candidates for one question."""
        content = self._by_content(asked.row) if asked.row else Counter[bytes]()
        sites = self._sites(asked)
        words = text_words_of(asked.features)
        by_words = self._by_words(sites, words)
        by_path = self._by_words(sites, path_terms(asked.url, self._sketcher))
        total: Counter[bytes] = Counter()
        for found in (content, by_words, by_path):
            most = max(found.values(), default=1.0)
            for prefix, strength in found.items():
                total[prefix] += strength / most  # type: ignore[assignment]
        chosen = sorted(total, key=lambda prefix: (-total[prefix], prefix))
        if len(chosen) > self._gathered_max:
            self.counters["gathered_max"] += 1
        rows = self._view.documents_by_prefixes(chosen[: self._gathered_max])
        return Gathered(self._choose(asked, rows, by_words, by_path), self._by_position(asked))

    def _choose(
        self, asked: Question, rows: list[DocumentRow], by_words: Counter[bytes], by_path: Counter[bytes]
    ) -> list[DocumentRow]:
        """The best documents of each source, at most `candidates_max`."""
        most = self._candidates_max
        if len(rows) <= most:
            return rows
        self.counters["find_candidates_max"] += 1
        alike = np.zeros(len(rows))
        if asked.row is not None:
            figures = sketching.compare_many(asked.row.sketch, [row.sketch for row in rows])
            alike = figures.containment + figures.resemblance
        prefixes = [row.sketch.document[:5] for row in rows]
        columns = {
            "content": alike,
            "words": np.array([by_words.get(prefix, 0.0) for prefix in prefixes]),
            "path": np.array([by_path.get(prefix, 0.0) for prefix in prefixes]),
        }
        chosen: dict[int, None] = {}
        for name, column in columns.items():
            order = [int(at) for at in np.argsort(-column, kind="stable") if column[at] > 0]
            chosen.update(dict.fromkeys(order[: int(QUOTAS[name] * most)]))
        both = sum(column / max(float(column.max()), 1e-9) for column in columns.values())
        rest = np.argsort(-np.asarray(both), kind="stable")
        chosen.update(dict.fromkeys(int(at) for at in rest))
        return [rows[at] for at in list(chosen)[:most]]

    def _by_content(self, row: DocumentRow) -> Counter[bytes]:
        """Strengths of documents that share bands or sampled shingles with the asked one."""
        found: Counter[bytes] = Counter()
        buckets = sketching.buckets(row.sketch.signature[None, :], self._view.scheme)[0]
        for postings in self._view.buckets([bucket.tobytes() for bucket in buckets]):
            found.update(postings)
        values = most_sampled(row.sketch)
        limit = self._sample_postings_max
        for value in values:
            postings = self._view.sample_postings(value, limit + 1)
            if len(postings) > limit:
                self.counters["sample_postings_max"] += 1
                continue
            weight = 1 + round(4 / math.log2(2 + len(postings)))
            for prefix in postings:
                found[prefix] += weight
        return found

    def _sites(self, asked: Question) -> list[bytes]:
        """Sites whose words are looked up: the old URL's own, and those that first came with the missing sweep."""
        hosts = [host_prefix(asked.key), *self._calendar.new_hosts(asked.missed, asked.last, SITES_MAX - 1)]
        return list(dict.fromkeys(site_key(host + b"/") for host in hosts))[:SITES_MAX]

    def _by_words(self, sites: list[bytes], words: Iterable[int]) -> Counter[bytes]:
        """Strengths of documents that share words, rare ones for more."""
        found: Counter[bytes] = Counter()
        for word in words:
            for site in sites:
                postings = self._view.word_postings(site, word, WORD_POSTINGS_MAX + 1)
                if len(postings) > WORD_POSTINGS_MAX:
                    self.counters["word_postings_max"] += 1
                    continue
                weight = math.log(2 * WORD_POSTINGS_MAX / (1 + len(postings)))
                for prefix in postings:
                    found[prefix] += weight  # type: ignore[assignment]
        return found

    def _by_position(self, asked: Question) -> list[bytes]:
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


def text_words_of(features: TextFeatures | None) -> list[int]:
    """The indexed words of the asked text."""
    if features is None:
        return []
    counts = np.expm1(features.weights).round().astype(np.int64)
    return [int(word) for word in text_words(features.words, counts)]


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

"""Detect suspected soft 404s: error pages with status 200, to which many unrelated URLs of a host changed.

An error page often contains the requested URL or a request id, so each URL serves a document of its own. The
documents of one cluster are therefore treated as one page. A cluster is suspected on a host if, in one sweep,

- at least `urls_min` unrelated URLs serve it that served documents of at least `urls_min` other clusters before.
  URLs with the same page name are related: they are a page's old and new URLs, or its versions or translations;
- each of these URLs has lost most of the text of its previous document;
- these URLs are at least as many as the unrelated URLs that have always served the cluster. Short links and empty tag
  pages, which have always looked alike, prove nothing.

A URL that served the cluster before the others changed to it, such as a home page, is exempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from state.model import Capture, DocumentRow
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.sketch import sketcher
from streams.sketch.index_terms import page_name
from streams.urls import host_prefix, key_url

if TYPE_CHECKING:
    from streams.find.missing_rule import UrlHistory

_READ_MIN, _READ_FACTOR = 256, 16  # limit on documents and on URLs per cluster: 16 times `urls_min`, at least 256
_RESULTS_CACHED = 16_384
_CONTAINMENT_MAX = 0.5  # a document that contains more of the previous one is a new version of the same page


class _ServingUrl(NamedTuple):
    """A URL that has served a cluster."""

    key: bytes
    first_sweep: int
    last_sweep: int
    previous_document: bytes | None  # the last document of a different cluster before `last_sweep`
    document: bytes  # the last document of the cluster


class Soft404Detector:
    """Detects suspected soft 404s. Results are cached and never refreshed."""

    def __init__(self, view: View, rows: BatchLru[bytes, DocumentRow | None], urls_min: int) -> None:
        self._view, self._rows, self._urls_min = view, rows, urls_min
        self._roots: BatchLru[bytes, bytes] = BatchLru(view.roots, _RESULTS_CACHED)
        # By root and host: the keys of exempt URLs, or None if the cluster is not suspected.
        self._exempt_keys: BatchLru[tuple[bytes, bytes], frozenset[bytes] | None] = BatchLru(
            self._read_exempt_keys, _RESULTS_CACHED
        )

    def is_suspected_soft_404(self, document: bytes, key: bytes) -> bool:
        """Return whether `document`, which the URL `key` serves, is a suspected soft 404."""
        exempt_keys = self._exempt_keys((self._roots(document), host_prefix(key)))
        return exempt_keys is not None and key not in exempt_keys

    def has_suspected_page(self, history: UrlHistory) -> bool:
        document = history.last_page.document if history.last_page else None
        return document is not None and self.is_suspected_soft_404(document, history.key)

    def preload(self, pages: Iterable[Capture | None]) -> None:
        """Read what `is_suspected_soft_404` needs for the documents of these captures, in one batch."""
        documents_and_hosts = [(page.document, host_prefix(page.key)) for page in pages if page and page.document]
        roots = self._roots.get_many(document for document, _ in documents_and_hosts)
        self._exempt_keys.get_many((root, host) for root, (_, host) in zip(roots, documents_and_hosts, strict=True))

    def _read_exempt_keys(self, roots_and_hosts: list[tuple[bytes, bytes]]) -> Iterator[frozenset[bytes] | None]:
        read_max = max(_READ_MIN, _READ_FACTOR * self._urls_min)
        clusters = self._view.some_members([root for root, _ in roots_and_hosts], read_max)
        for (root, host), documents in zip(roots_and_hosts, clusters, strict=True):
            # The locations of a document are sorted by URL key, so those on one host share a prefix.
            locations = self._view.locations([document + host for document in documents], read_max)
            keys = list(islice(dict.fromkeys(chain.from_iterable(locations)), read_max))
            yield self._find_exempt_keys(root, keys) if _count_names(keys) >= self._urls_min else None

    def _find_exempt_keys(self, root: bytes, keys: list[bytes]) -> frozenset[bytes] | None:
        urls = list(self._serving_urls(root, keys))
        changed = [url for url in urls if self._has_lost_its_page(url)]
        for sweep in sorted({url.first_sweep for url in changed}):
            serving_now = [url for url in changed if url.first_sweep <= sweep <= url.last_sweep]
            always_serving = [url.key for url in urls if url.previous_document is None and url.first_sweep < sweep]
            previous_roots = {self._roots(url.previous_document) for url in serving_now if url.previous_document}
            evidence = min(_count_names(url.key for url in serving_now), len(previous_roots))
            if evidence >= self._urls_min and _count_names(always_serving) <= len(serving_now):
                return frozenset(always_serving)
        return None

    def _serving_urls(self, root: bytes, keys: list[bytes]) -> Iterator[_ServingUrl]:
        histories = self._view.histories(keys)
        self._roots.get_many(capture.document for captures in histories for capture in captures if capture.document)
        for key, captures in zip(keys, histories, strict=True):
            pages = [(c.sweep, c.document) for c in captures if c.document is not None]
            in_cluster = [(sweep, document) for sweep, document in pages if self._roots(document) == root]
            if in_cluster:
                last_sweep, document = in_cluster[-1]
                others = [d for sweep, d in pages if sweep < last_sweep and self._roots(d) != root]
                yield _ServingUrl(key, in_cluster[0][0], last_sweep, others[-1] if others else None, document)

    def _has_lost_its_page(self, url: _ServingUrl) -> bool:
        """Return whether the URL's current document contains little of the URL's previous document."""
        if url.previous_document is None:
            return False
        previous_row, row = self._rows.get_many([url.previous_document, url.document])
        if previous_row is None or row is None:
            return False
        return sketcher.compare(previous_row.sketch, row.sketch).containment < _CONTAINMENT_MAX


def _count_names(keys: Iterable[bytes]) -> int:
    """Return the number of distinct page names. URLs with the same page name are related."""
    return len({page_name(key_url(key)) for key in keys})

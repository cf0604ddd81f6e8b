"""Suspect soft 404s: error pages with status 200, to which many unrelated URLs of a host changed.

An error page often contains the requested URL or a request id, so each URL serves a document of its own. Documents of
one cluster therefore count as one page. A cluster is suspected on a host if, in one sweep,

- at least `urls_min` unrelated URLs serve it that served documents of as many other clusters before. URLs with the
  same page name are related: they are one page at old and new paths, or in several versions or languages;
- each of these URLs lost most of the document that it served before;
- no more URLs served the cluster all along. Short links or empty tag pages that always looked alike prove nothing.

A URL that served the cluster before the others changed to it, such as a home page, is not suspected.
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

_READ_MIN, _READ_FACTOR = 256, 16  # documents and URLs read per cluster: at least 256, and 16 times `urls_min`
_CACHED = 16_384
_CONTAINMENT_MAX = 0.5  # a document that contains more of the previous one is a new version of the same page

_Suspicion = frozenset[bytes] | None  # keys of the URLs that are not suspected; None: no URL is suspected


class _Service(NamedTuple):
    """How one URL serves a cluster."""

    key: bytes
    first_sweep: int
    last_sweep: int
    previous: bytes | None  # the last document of another cluster that the URL served before `last_sweep`
    document: bytes  # the last document of the cluster


class Soft404Detector:
    """Detects suspected soft 404s. Results are cached and never refreshed."""

    def __init__(self, view: View, rows: BatchLru[bytes, DocumentRow | None], urls_min: int) -> None:
        self._view, self._rows, self._urls_min = view, rows, urls_min
        self._roots: BatchLru[bytes, bytes] = BatchLru(view.roots, _CACHED)
        self._suspicions: BatchLru[tuple[bytes, bytes], _Suspicion] = BatchLru(self._read, _CACHED)

    def is_suspected(self, document: bytes, key: bytes) -> bool:
        """Whether a document that a URL serves is a suspected soft 404."""
        suspicion = self._suspicions((self._roots(document), host_prefix(key)))
        return suspicion is not None and key not in suspicion

    def has_suspected_page(self, history: UrlHistory) -> bool:
        document = history.last_page.document if history.last_page else None
        return document is not None and self.is_suspected(document, history.key)

    def preload(self, pages: Iterable[Capture | None]) -> None:
        """Read what `is_suspected` needs for the documents of these captures, in one batch."""
        documents_and_hosts = [(page.document, host_prefix(page.key)) for page in pages if page and page.document]
        roots = self._roots.get_many(document for document, _ in documents_and_hosts)
        self._suspicions.get_many((root, host) for root, (_, host) in zip(roots, documents_and_hosts, strict=True))

    def _read(self, pairs: list[tuple[bytes, bytes]]) -> Iterator[_Suspicion]:
        read_max = max(_READ_MIN, _READ_FACTOR * self._urls_min)
        clusters = self._view.some_members([root for root, _ in pairs], read_max)
        for (root, host), documents in zip(pairs, clusters, strict=True):
            # The locations of a document are sorted by URL key, so those on one host share a prefix.
            locations = self._view.locations([document + host for document in documents], read_max)
            keys = list(islice(dict.fromkeys(chain.from_iterable(locations)), read_max))
            has_enough_names = len({page_name(key_url(key)) for key in keys}) >= self._urls_min
            yield self._suspicion(list(self._services(root, keys))) if has_enough_names else None

    def _services(self, root: bytes, keys: list[bytes]) -> Iterator[_Service]:
        histories = self._view.histories(keys)
        self._roots.get_many(capture.document for captures in histories for capture in captures if capture.document)
        for key, captures in zip(keys, histories, strict=True):
            pages = [(c.sweep, c.document) for c in captures if c.document is not None]
            services = [(sweep, document) for sweep, document in pages if self._roots(document) == root]
            if services:
                last_sweep, document = services[-1]
                others = [d for sweep, d in pages if sweep < last_sweep and self._roots(d) != root]
                yield _Service(key, services[0][0], last_sweep, others[-1] if others else None, document)

    def _suspicion(self, services: list[_Service]) -> _Suspicion:
        changed = [service for service in services if self._has_lost_its_page(service)]
        for sweep in sorted({service.first_sweep for service in changed}):
            now = [service for service in changed if service.first_sweep <= sweep <= service.last_sweep]
            before = [service for service in services if service.previous is None and service.first_sweep < sweep]
            previous_roots = {self._roots(service.previous) for service in now if service.previous}
            if self._urls_min <= min(_count_names(now), len(previous_roots)) and _count_names(before) <= len(now):
                return frozenset(service.key for service in before)
        return None

    def _has_lost_its_page(self, service: _Service) -> bool:
        if service.previous is None:
            return False
        previous, row = self._rows.get_many([service.previous, service.document])
        if previous is None or row is None:
            return False
        return sketcher.compare(previous.sketch, row.sketch).containment < _CONTAINMENT_MAX


def _count_names(services: list[_Service]) -> int:
    return len({page_name(key_url(service.key)) for service in services})

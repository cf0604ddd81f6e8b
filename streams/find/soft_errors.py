"""Detect soft 404s: error pages that a server sends with status 200."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from state.view import View
from streams.find.batch_lru import BatchLru
from streams.find.missing_rule import Life
from streams.sketch.index_terms import page_name
from streams.urls import host_prefix, key_url

_LOCATIONS_READ_MIN = 64


class SoftErrors:
    """Suspects a document if `urls_min` or more unrelated URLs of one host serve it at the same time; cached.

    URLs with the same page name are related: they are one page under old and new paths, versions or languages. URLs
    that serve the document one after another can be one page whose URL gets a new id in every sweep.
    """

    def __init__(self, view: View, urls_min: int) -> None:
        self._view, self._urls_min = view, urls_min
        self._suspected: BatchLru[tuple[bytes, bytes], bool] = BatchLru(self._read, 16_384)

    def is_suspected(self, document: bytes, key: bytes) -> bool:
        """Whether a document is suspected on the host of a URL key."""
        return self._suspected((document, host_prefix(key)))

    def is_soft_404(self, life: Life) -> bool:
        """Whether the last page of a URL is suspected."""
        document = life.last_page.document if life.last_page else None
        return document is not None and self.is_suspected(document, life.key)

    def load(self, lives: Iterable[Life]) -> None:
        """Read the data of `is_soft_404` for these URLs in one batch."""
        pages = ((life.last_page, life.key) for life in lives)
        self._suspected.many((page.document, host_prefix(key)) for page, key in pages if page and page.document)

    def _read(self, pairs: list[tuple[bytes, bytes]]) -> Iterator[bool]:
        # Locations of a document are in order of URL key, so the locations on one host are adjacent.
        limit = max(_LOCATIONS_READ_MIN, 4 * self._urls_min)
        locations = self._view.locations([document + host for document, host in pairs], limit)
        for (document, _), keys in zip(pairs, locations, strict=True):
            names = {key: page_name(key_url(key)) for key in keys}
            is_common = len(set(names.values())) >= self._urls_min
            yield is_common and self._count_simultaneous(document, names) >= self._urls_min

    def _count_simultaneous(self, document: bytes, names: dict[bytes, str]) -> int:
        """Return the largest number of page names (by URL key) that serve a document in the same sweep.

        A URL counts from its first to its last sweep with the document.
        """
        spans: list[tuple[int, int, str]] = []
        for name, captures in zip(names.values(), self._view.histories(list(names)), strict=True):
            sweeps = [c.sweep for c in captures if c.document == document]
            if sweeps:
                spans.append((min(sweeps), max(sweeps), name))
        counts = (len({name for first, last, name in spans if first <= start <= last}) for start, _, _ in spans)
        return max(counts, default=0)

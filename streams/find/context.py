"""The state that all steps of one `Finder` share: the view, caches over it, the settings and the limit counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from state.model import DocumentRow
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.find.copies import CopyDetector
from streams.find.missing_rule import Life, SweepIndex, read_life
from streams.find.soft_errors import SoftErrors
from streams.find.text_similarity import SiteStatistics, TextFeatureCache, sample_site
from streams.settings import Settings
from streams.sketch.sketcher import Sketcher

_LIVES_CACHED = 16_384
_ROWS_CACHED = 8_192
_LOCATIONS_CACHED = 2_048
_LOCATIONS_MAX = 16  # per document: the URLs that received it last
_LOCATIONS_READ = 64


class FindContext:
    """The context of one state of the view: its LRU caches never refresh a value.

    `counters` counts how often each limit of the search was reached.
    """

    def __init__(self, view: View, settings: Settings) -> None:
        self.view, self.settings = view, settings.find
        self.sample_postings_max = settings.limits.sample_postings_max
        self.counters: Counter[str] = Counter()
        self.sketcher = Sketcher(view.scheme, settings.limits.tokens_max)
        self.sweeps = SweepIndex(view)
        self.soft_errors = SoftErrors(view, settings.find.soft_404_urls)
        self.lives: BatchLru[bytes, Life] = BatchLru(self._read_lives, _LIVES_CACHED)  # soft 404s count as pages
        self.rows: BatchLru[bytes, DocumentRow | None] = BatchLru(view.documents, _ROWS_CACHED)
        self.texts = TextFeatureCache(view, self.sketcher)
        self.copies = CopyDetector(view, self.rows, self.sweeps.last_visit)
        self.locations: BatchLru[bytes, list[bytes]] = BatchLru(self._read_locations, _LOCATIONS_CACHED)
        self.site_statistics = lru_cache(maxsize=64)(self._read_site)

    def checked_life(self, key: bytes) -> Life:
        """Return the life of a URL in which soft 404s are not pages; this check is expensive and is not cached."""
        (captures,) = self.view.histories([key])
        return read_life(key, captures, self.sweeps, self.soft_errors.is_suspected)

    def _read_lives(self, keys: list[bytes]) -> Iterator[Life]:
        for key, captures in zip(keys, self.view.histories(keys), strict=True):
            yield read_life(key, captures, self.sweeps, lambda _document, _key: False)

    def _read_locations(self, documents: list[bytes]) -> Iterator[list[bytes]]:
        """Yield the keys of at most `_LOCATIONS_MAX` URLs per document, given by id or prefix."""
        for locations in self.view.locations_seen(documents, _LOCATIONS_READ):
            if len(locations) <= _LOCATIONS_MAX:
                yield [key for key, _ in locations]
                continue
            self.counters["find_locations_max"] += 1
            newest = sorted(locations, key=lambda location: (-location[1], location[0]))
            yield [key for key, _ in newest[:_LOCATIONS_MAX]]

    def _read_site(self, host: bytes) -> SiteStatistics:
        last_sweep, documents_max = self.sweeps.last_visit(host), self.settings.site_sample_documents
        sample = sample_site(self.view, host, documents_max, last_sweep)
        return SiteStatistics(sample, self.texts, last_sweep, documents_max)

"""Define what all steps of a search share: the view, caches, settings, limit counters and the dead URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from state.model import Capture, DocumentRow, LinkKind
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.find.copies import CopyDetector
from streams.find.declared_links import declared_targets
from streams.find.link_evidence import LinkEvidence, Substitution
from streams.find.missing_rule import SweepIndex, UrlHistory, build_history
from streams.find.soft_404 import Soft404Detector
from streams.find.text_similarity import SiteStatistics, TextFeatureCache, TextFeatures, sample_site
from streams.settings import Settings
from streams.sketch.sketcher import Sketcher

_HISTORIES_CACHED, _ROWS_CACHED, _LOCATIONS_CACHED = 16_384, 8_192, 2_048
_LOCATIONS_MAX = 16  # URLs per document: those at which the document appeared most recently
_LOCATIONS_READ, _VERSIONS_READ = 64, 8
_STUB_SHARE = 0.4  # if the last version is shorter than this share of the longest version, it is a stub


class DeadUrl(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A URL that went missing in a sweep, with the row and text features of the document that represents its page.

    `row` is None if the URL never had a document. `features` is None if the text of the document is not stored.
    """

    key: bytes
    url: str
    row: DocumentRow | None
    features: TextFeatures | None
    last_sweep: int  # the last sweep with a page of the URL; if there is none, `missing_since`
    missing_since: int  # the sweep in which the URL went missing
    # Both by URL key: the targets that replaced the old URL in links, and the targets that the old page declared.
    substitutions: Mapping[bytes, Substitution] = {}
    declared: Mapping[bytes, tuple[LinkKind, float]] = {}


class FindContext:
    """The objects that all steps share. Caches are never refreshed, so a changed state needs a new context."""

    def __init__(self, view: View, settings: Settings) -> None:
        self.view, self.settings = view, settings.find
        self.sample_postings_max = settings.limits.sample_postings_max
        self.counters: Counter[str] = Counter()  # how often each limit of the search was reached
        self.sketcher = Sketcher(view.scheme, settings.limits.tokens_max)
        self.sweeps = SweepIndex(view, settings.find.scope)
        # In these histories, unlike those of `checked_history`, soft 404s are pages.
        self.url_histories: BatchLru[bytes, UrlHistory] = BatchLru(self._read_histories, _HISTORIES_CACHED)
        self.rows: BatchLru[bytes, DocumentRow | None] = BatchLru(view.documents, _ROWS_CACHED)
        self.soft_404_detector = Soft404Detector(view, self.rows, settings.find.soft_404_urls)
        self.text_features = TextFeatureCache(view, self.sketcher)
        self.copy_detector = CopyDetector(view, self.rows, self.sweeps.last_sweep_of)
        self.site_sample = lru_cache(maxsize=64)(self._read_site_sample)
        self.link_evidence = LinkEvidence(
            view,
            self.url_histories,
            self.site_sample,
            settings.find.link_sources_max,
            settings.find.soft_404_urls,
            self.counters,
        )
        self.latest_locations: BatchLru[bytes, list[bytes]] = BatchLru(self._read_locations, _LOCATIONS_CACHED)
        self.site_statistics = lru_cache(maxsize=64)(self._read_site_statistics)

    def checked_history(self, key: bytes) -> UrlHistory:
        """Return the history of a URL, with soft 404s classified as failures. This check is slow and not cached."""
        (captures,) = self.view.histories([key])
        return build_history(key, captures, self.sweeps, self.soft_404_detector.is_suspected_soft_404)

    def read_dead_url(self, history: UrlHistory, missing_since: int) -> DeadUrl:
        """Return a dead URL with the document that represents its page, and with the evidence of links."""
        row = self._representative_row(history)
        return DeadUrl(
            key=history.key,
            url=(history.last_success or history.failures[-1]).url,
            row=row,
            features=self.text_features.by_document(row.sketch.document) if row else None,
            last_sweep=history.last_page.sweep if history.last_page else missing_since,
            missing_since=missing_since,
            substitutions={s.key: s for s in self.link_evidence.substitutions(history.key, missing_since)},
            declared=declared_targets(self.view, _last_captures(history), self.settings.soft_404_urls),
        )

    def _representative_row(self, history: UrlHistory) -> DocumentRow | None:
        """Return the row of a URL's last document, or of the longest recent document if the last one is a stub."""
        rows = [row for row in self.rows.get_many(history.documents_since(0)[-_VERSIONS_READ:]) if row is not None]
        if not rows:
            return None
        last = self.rows(history.last_page.document) if history.last_page and history.last_page.document else None
        longest = max(rows, key=lambda row: row.sketch.shingles)
        is_stub = last is None or last.sketch.shingles < _STUB_SHARE * longest.sketch.shingles
        return longest if is_stub else last

    def _read_histories(self, keys: list[bytes]) -> Iterator[UrlHistory]:
        for key, captures in zip(keys, self.view.histories(keys), strict=True):
            yield build_history(key, captures, self.sweeps, lambda _document, _key: False)

    def _read_locations(self, documents: list[bytes]) -> Iterator[list[bytes]]:
        """Yield, for each document id or prefix, the keys of at most `_LOCATIONS_MAX` URLs, the most recent."""
        for locations in self.view.locations_with_times(documents, _LOCATIONS_READ):
            if len(locations) <= _LOCATIONS_MAX:
                yield [key for key, _ in locations]
                continue
            self.counters["find_locations_max"] += 1
            newest = sorted(locations, key=lambda key_and_time: (-key_and_time[1], key_and_time[0]))
            yield [key for key, _ in newest[:_LOCATIONS_MAX]]

    def _read_site_sample(self, host: bytes) -> list[list[Capture]]:
        return sample_site(self.view, host, self.settings.site_sample_documents, self.sweeps.last_sweep_of(host))

    def _read_site_statistics(self, host: bytes) -> SiteStatistics:
        last_sweep, documents_max = self.sweeps.last_sweep_of(host), self.settings.site_sample_documents
        return SiteStatistics(self.site_sample(host), self.text_features, last_sweep, documents_max)


def _last_captures(history: UrlHistory) -> list[Capture]:
    """Return the last page of a URL and the URL's last failure, if they exist."""
    return [*history.pages[-1:], *history.failures[-1:]]

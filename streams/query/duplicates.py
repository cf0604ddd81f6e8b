"""List duplicates: each URL with the URL that represents its cluster, and how similar the two pages are.

A URL is compared by its most recent document, so earlier versions of a page are not duplicates. Clusters are read one
after another, and the URLs of a cluster in batches. The memory needed therefore depends on the number of documents in
the largest cluster. While a sweep is being cancelled, all clusters are computed in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from state.model import Capture, SweepState
from state.view import View
from streams.query.clusters import clusters, location_counts
from streams.sketch import sketcher
from streams.urls import host_prefix

T = TypeVar("T")
_ROWS_PER_READ = 1024
_LOCATIONS_PER_READ = 64  # per document; if a document has more, its locations are read in a separate scan


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A URL, and the URL that represents its cluster, which may be the URL itself."""

    url: str
    representative: str
    kind: str  # `representative`, `identical` (same document as the representative) or `near` (a different document)
    resemblance: float
    containment: float  # share of this page's shingles that the representative contains
    contained: float  # share of the representative's shingles that this page contains
    document: str
    cluster: str


class _Page(NamedTuple):
    """The most recent page of a URL."""

    url: str
    key: bytes
    document: bytes
    is_current: bool  # the last sweep that visited the host captured the URL with a page
    first_seen: int  # ms since the epoch


def duplicates(view: View, *, include_representatives: bool = False) -> Iterator[Duplicate]:
    """Yield every URL that does not represent its cluster, compared with the representative, cluster by cluster.

    The representative is the URL that was captured first. URLs that the last sweep of their host captured take
    precedence. With `include_representatives`, also yield the representatives and the URLs without duplicates.
    """
    for documents in _clusters(view, include_lone_pages=include_representatives):
        representative = min(
            _read_pages(view, documents),
            key=lambda page: (not page.is_current, page.first_seen, page.key),
            default=None,
        )
        if representative is None:
            continue  # all documents are earlier versions, or belong to a sweep that is being cancelled
        for pages in _batches(_read_pages(view, documents)):
            for duplicate in _compare(view, pages, representative, documents[0].hex()):
                if include_representatives or duplicate.kind != "representative":
                    yield duplicate


def _clusters(view: View, *, include_lone_pages: bool) -> Iterator[list[bytes]]:
    """Yield the documents of each cluster, the root first. A lone page is a single document at a single URL."""
    if view.has_cancelling_sweep:
        for cluster in clusters(view, min_size=1 if include_lone_pages else 2):
            yield [bytes.fromhex(document) for document in cluster.documents]
        return
    for batch in _batches(location_counts(view)):
        # A former root may still list members, so only current roots are used.
        parents = view.parents([document for document, _ in batch])
        for (document, url_count), parent in zip(batch, parents, strict=True):
            if parent is not None:
                continue
            members = view.members(document)
            if len(members) > 1 or url_count > 1 or include_lone_pages:
                yield members


def _read_pages(view: View, documents: list[bytes]) -> Iterator[_Page]:
    """Yield the most recent page of each URL whose most recent document is one of these."""
    for batch in _batches(_locations(view, documents)):
        histories = view.histories([key for _, key in batch])
        for (document, key), captures in zip(batch, histories, strict=True):
            pages = [capture for capture in captures if capture.document is not None]
            if pages and pages[-1].document == document:
                yield _Page(pages[-1].url, key, document, _is_current(view, captures[-1]), min(c.time for c in pages))


def _is_current(view: View, last_capture: Capture) -> bool:
    """Return whether a URL's last capture has a page, and no later committed sweep has visited the host."""
    host = host_prefix(last_capture.key)
    committed = (sweep.number for sweep in view.sweeps() if sweep.state is SweepState.COMMITTED)
    later_sweeps = (number for number in committed if number > last_capture.sweep)
    is_superseded = any(view.captures_on_host(number, host) for number in later_sweeps)
    return last_capture.document is not None and not is_superseded


def _locations(view: View, documents: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each document with the key of each URL at which it was captured."""
    for batch in _batches(documents):
        for document, keys in zip(batch, view.locations(batch, _LOCATIONS_PER_READ), strict=True):
            if len(keys) < _LOCATIONS_PER_READ:
                yield from ((document, key) for key in keys)
            else:
                yield from view.all_locations(document)


def _compare(view: View, pages: list[_Page], representative: _Page, cluster: str) -> Iterator[Duplicate]:
    """Yield pages of one cluster, compared with the representative. `cluster` is the id of the root."""
    others = sorted({page.document for page in pages} - {representative.document})
    rows = [row for row in view.documents([representative.document, *others]) if row is not None]
    figures = {representative.document: (1.0, 1.0, 1.0)}
    if len(rows) > 1:
        comparisons = sketcher.compare_with_each(rows[0].sketch, [row.sketch for row in rows[1:]])
        for row, *shares in zip(
            rows[1:], comparisons.resemblance, comparisons.contained, comparisons.containment, strict=True
        ):
            # Different documents differ in at least one shingle, even if the estimate is 1.
            resemblance_max = row.sketch.shingles / (row.sketch.shingles + 1)
            resemblance, containment, contained = (share.item() for share in shares)
            figures[row.sketch.document] = min(resemblance, resemblance_max), containment, contained
    for page in pages:
        if page.document not in figures:
            continue  # deleted while the pages were read
        kind = "identical" if page.document == representative.document else "near"
        resemblance, containment, contained = figures[page.document]
        yield Duplicate(
            url=page.url,
            representative=representative.url,
            kind="representative" if page.key == representative.key else kind,
            resemblance=resemblance,
            containment=containment,
            contained=contained,
            document=page.document.hex(),
            cluster=cluster,
        )


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(values)
    while batch := list(islice(remaining, _ROWS_PER_READ)):
        yield batch

"""Clusters and their members: stored by the ingest, or computed from the stored edges for a different policy.

A policy consists of a threshold, whether containment is also compared, and optionally one sweep. A different policy
needs no page to be read again. Pairs below the threshold of the ingest are not stored, so a lower threshold joins no
further pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, groupby, islice

import msgspec
import numpy as np

from state.model import Edge
from state.view import View
from streams.operators.forest import DisjointSets
from streams.query.similar import read_occurrences
from streams.sketch import sketcher

_ROWS_PER_READ = 1024  # the size of clusters is unlimited, so their rows are read in batches
_UNLIMITED = 1 << 62  # for the number of locations to read


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of one cluster, and their URLs. The lists may be truncated; the counts include all.

    The http and https URLs of a page are one URL, spelled as in the last capture.
    """

    cluster: str  # id of the root
    documents: list[str]
    urls: list[str]
    document_count: int
    url_count: int


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a cluster, compared with the query document."""

    document: str
    resemblance: float
    containment: float  # share of the query document's shingles that this document contains
    contained: float  # share of this document's shingles that the query document contains
    title: str
    urls: list[str]
    first_seen: int  # ms since the epoch
    last_seen: int


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A stored pair of near-duplicates. The id `a` is less than the id `b`."""

    a: str
    b: str
    resemblance: float
    containment: float  # share of a's shingles that b contains
    contained: float  # share of b's shingles that a contains


def pairs(
    view: View, cluster: Cluster, *, threshold: float | None = None, containment: bool | None = None
) -> Iterator[Pair]:
    """Yield the stored pairs that join the listed documents of a cluster, in order of id.

    Only pairs that the ingest verified are stored, so not every two documents of a cluster are a pair. With
    `threshold` and `containment`, yield only the pairs that this policy accepts.
    """
    documents = {bytes.fromhex(document) for document in cluster.documents}
    ascending = sorted(documents)
    for start in range(0, len(ascending), _ROWS_PER_READ):
        for edge in chain.from_iterable(view.edges(ascending[start : start + _ROWS_PER_READ])):
            if edge.b in documents and _is_accepted(edge, threshold or 0.0, bool(containment)):
                yield Pair(
                    a=edge.a.hex(),
                    b=edge.b.hex(),
                    resemblance=edge.resemblance,
                    containment=edge.containment,
                    contained=edge.contained,
                )


def members(view: View, cluster: Cluster, document: bytes, urls_max: int) -> list[Member]:
    """Return the documents listed in `cluster`, most similar to the query document `document` first.

    Some members are connected only by a chain of pairs (version 1 ~ 2 ~ ... ~ 100). The figures show how much the two
    ends of such a chain differ.
    """
    rows = [row for hex_id in cluster.documents if (row := view.document(bytes.fromhex(hex_id)))]
    query_row = view.document(document)
    if query_row is None:
        return []
    comparisons = sketcher.compare_with_each(query_row.sketch, [row.sketch for row in rows])
    occurrences = read_occurrences(view, rows, urls_max)
    results = []
    for index in np.argsort(-comparisons.resemblance, kind="stable").tolist():
        row, comparison = rows[index], comparisons.comparison(index)
        results.append(
            Member(
                document=row.sketch.document.hex(),
                resemblance=comparison.resemblance,
                containment=comparison.containment,
                contained=comparison.contained,
                title=view.title(row.sketch.document),
                **occurrences[index]._asdict(),
            )
        )
    return results


def cluster(view: View, document: bytes, limit: int) -> Cluster:
    """Return the cluster of a document; a lone document is a cluster of one. `limit` truncates only the lists."""
    if view.has_cancelling_sweep:
        result = cluster_by_policy(view, document, threshold=0.0, containment=False, sweep=None, limit=limit)
        return result or _read_cluster(view, [document], limit)
    return _read_cluster(view, view.members(view.root(document)), limit)


def clusters(view: View, *, min_size: int = 2, min_urls: int = 1) -> Iterator[Cluster]:
    """Yield all clusters with at least `min_size` documents or URLs and at least `min_urls` URLs, largest first.

    Clusters of one document at one URL follow in order of id, without being collected in memory. While a sweep is
    being cancelled, clusters are computed from the edges between documents that other sweeps captured.
    """
    if view.has_cancelling_sweep:
        yield from clusters_by_policy(
            view, threshold=0.0, containment=False, sweep=None, min_size=min_size, min_urls=min_urls
        )
        return
    sizes: dict[bytes, int] = {}
    for root, _ in view.all_members():
        sizes[root] = sizes.get(root, 1) + 1
    parents = view.parents(list(sizes))
    # A former root may still list members, so only current roots are used.
    sizes = {root: size for (root, size), parent in zip(sizes.items(), parents, strict=True) if parent is None}
    for document, url_count in location_counts(view):
        if url_count > 1:
            root = view.root(document)
            sizes[root] = sizes.get(root, 1) + url_count - 1
    yield from _largest_first(view, sizes, view.members, min_size, min_urls)
    if max(min_size, min_urls) > 1:
        return
    others = (document for document in view.all_document_ids() if document not in sizes)
    while batch := list(islice(others, _ROWS_PER_READ)):
        for document, parent in zip(batch, view.parents(batch), strict=True):
            if parent is None:
                yield _read_cluster(view, [document])


def clusters_by_policy(
    view: View, *, threshold: float, containment: bool, sweep: int | None, min_size: int, min_urls: int = 1
) -> Iterator[Cluster]:
    """Yield the clusters of a different policy, in the order of `clusters`, computed from the stored edges.

    A `threshold` not above that of the ingest joins all stored pairs. With `containment`, a stored pair is also
    joined if the containment of either document in the other reaches the threshold. With `sweep`, only documents
    captured by this sweep are used.
    """
    url_counts = _count_urls(view, sweep)
    sets = _join_edges(view, url_counts, threshold, containment)
    groups = sets.groups()
    sizes = {root: len(members) for root, members in groups.items()}
    for document, url_count in location_counts(view) if url_counts is None else url_counts.items():
        if url_count > 1:
            root = sets.root(document) if document in sets.parents else document
            sizes[root] = sizes.get(root, 1) + url_count - 1
    yield from _largest_first(view, sizes, lambda root: groups.get(root, [root]), min_size, min_urls, sweep)
    if max(min_size, min_urls) > 1:
        return
    for document in view.all_document_ids() if url_counts is None else sorted(url_counts):
        if document not in sizes and document not in sets.parents:
            yield _read_cluster(view, [document], None, sweep)


def cluster_by_policy(
    view: View, document: bytes, *, threshold: float, containment: bool, sweep: int | None, limit: int
) -> Cluster | None:
    """Return the cluster of a document under a different policy; None if `sweep` did not capture the document."""
    url_counts = _count_urls(view, sweep)
    if url_counts is not None and document not in url_counts:
        return None
    sets = _join_edges(view, url_counts, threshold, containment)
    return _read_cluster(view, sets.groups().get(sets.root(document), [document]), limit, sweep)


def _join_edges(
    view: View, url_counts: Counter[bytes] | None, threshold: float, containment: bool
) -> DisjointSets[bytes]:
    """Join the edges that a policy accepts, between the documents in `url_counts` or, if None, all documents."""
    sets = DisjointSets[bytes]()
    for edge in view.all_edges():
        if _is_accepted(edge, threshold, containment) and (
            url_counts is None or (edge.a in url_counts and edge.b in url_counts)
        ):
            sets.union(edge.a, edge.b)
    return sets


def _is_accepted(edge: Edge, threshold: float, containment: bool) -> bool:
    figures = (edge.resemblance, edge.containment, edge.contained) if containment else (edge.resemblance,)
    return max(figures) >= threshold


def _count_urls(view: View, sweep: int | None) -> Counter[bytes] | None:
    """Count the URLs of each document in `sweep`, or in all sweeps that are not being cancelled.

    Return None if every document is included, so that no captures need to be read.
    """
    if sweep is None and not view.has_cancelling_sweep:
        return None
    counts: Counter[bytes] = Counter()
    for _, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        counts.update({c.document for c in captures if c.document and sweep in (None, c.sweep)})
    return counts


def location_counts(view: View) -> Iterator[tuple[bytes, int]]:
    """Yield every document that has a location, and the number of its locations, in order of id."""
    for document, locations in groupby(view.all_locations(), key=lambda location: location[0]):
        yield document, sum(1 for _ in locations)


def _largest_first(
    view: View,
    sizes: Mapping[bytes, int],
    read_members: Callable[[bytes], list[bytes]],
    min_size: int,
    min_urls: int,
    sweep: int | None = None,
) -> Iterator[Cluster]:
    """Yield clusters of at least these sizes, largest first. Clusters of equal size are ordered by root.

    The size of a cluster is its number of documents or of URLs, whichever is larger. `sizes` are upper bounds: a URL
    is counted once for each document captured there. The exact size is computed when a cluster is first in the
    queue; if it is below the bound, the cluster is queued again. This way, the first cluster is yielded before the
    exact sizes of all others are known.
    """
    queue = [(-size, root) for root, size in sizes.items() if size >= max(min_size, min_urls)]
    heapify(queue)
    while queue:
        negative_bound, root = heappop(queue)
        documents = read_members(root)
        bound, size = -negative_bound, len(documents)
        if bound > size > 1:
            size = max(size, _read_urls(view, documents, 0, sweep)[1])
        if size in (bound, 1):
            if (cluster := _read_cluster(view, documents, None, sweep)).url_count >= min_urls:
                yield cluster
        elif size >= min_size:
            heappush(queue, (-size, root))


def _read_cluster(view: View, documents: list[bytes], limit: int | None = None, sweep: int | None = None) -> Cluster:
    """Return the cluster of these documents, the root first."""
    urls, url_count = _read_urls(view, documents, limit, sweep)
    return Cluster(
        cluster=documents[0].hex(),
        documents=[document.hex() for document in documents[:limit]],
        urls=sorted(urls[:limit]),
        document_count=len(documents),
        url_count=url_count,
    )


def _read_urls(view: View, documents: list[bytes], limit: int | None, sweep: int | None) -> tuple[list[str], int]:
    """Return at least the first `limit` URLs at which these documents were captured, and the total number of URLs."""
    keys: set[bytes] = set()
    for start in range(0, len(documents), _ROWS_PER_READ):
        keys.update(chain.from_iterable(view.locations(documents[start : start + _ROWS_PER_READ], _UNLIMITED)))
    # Usually, every location is valid, so only the histories of the returned URLs need to be read.
    if sweep is None and not view.has_cancelling_sweep:
        return list(_captured_urls(view, sorted(keys)[:limit], documents, sweep)), len(keys)
    urls = list(_captured_urls(view, sorted(keys), documents, sweep))
    return urls, len(urls)


def _captured_urls(view: View, keys: list[bytes], documents: list[bytes], sweep: int | None) -> Iterator[str]:
    """Yield the URLs at which `sweep` (None: any sweep) captured one of the documents, as last spelled."""
    document_set = set(documents)
    for start in range(0, len(keys), _ROWS_PER_READ):
        for captures in view.histories(keys[start : start + _ROWS_PER_READ]):
            urls = [c.url for c in captures if c.document in document_set and sweep in (None, c.sweep)]
            if urls:
                yield urls[-1]

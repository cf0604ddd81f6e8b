"""Clusters of documents: stored by the ingest, or computed from the stored edges for another policy.

A policy is a threshold, whether containment counts, and optionally one sweep. Policies need no page to be read again,
but only pairs at or above the threshold of the ingest were stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, groupby, islice

import msgspec

from state.view import View
from streams.operators.forest import DisjointSets

_ROWS_PER_READ = 1024  # a cluster may have any number of members


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of one cluster and the URLs that have or had them; both lists are bounded, the counts are not.

    The http and https URLs of one page count as one URL, written as in its last capture.
    """

    cluster: str
    documents: list[str]
    urls: list[str]
    document_count: int
    url_count: int


def cluster(view: View, document: bytes, limit: int) -> Cluster:
    """Return the cluster of a document; a lone document is a cluster of one. `limit` bounds lists, not counts."""
    if view.cancelling:
        result = cluster_by_policy(view, document, threshold=0.0, containment=False, sweep=None, limit=limit)
        return result or _read_cluster(view, [document], limit)
    return _read_cluster(view, view.members(view.root(document)), limit)


def clusters(view: View, *, min_size: int = 2) -> Iterator[Cluster]:
    """Yield all clusters that have at least `min_size` documents or URLs, the largest first.

    A lone document at one URL is a cluster of one; these come last, in order of id, and are streamed without being
    collected in memory. While a sweep is being cancelled, clusters are computed from the edges between documents that
    other sweeps captured.
    """
    if view.cancelling:
        yield from clusters_by_policy(view, threshold=0.0, containment=False, sweep=None, min_size=min_size)
        return
    sizes: dict[bytes, int] = {}
    for root, _ in view.all_members():
        sizes[root] = sizes.get(root, 1) + 1
    parents = view.parents(list(sizes))
    # A former root may still list members: only the current roots count.
    sizes = {root: size for (root, size), parent in zip(sizes.items(), parents, strict=True) if parent is None}
    for document, url_count in _documents_at_several_urls(view):
        root = view.root(document)
        sizes[root] = sizes.get(root, 1) + url_count - 1
    yield from _largest_first(view, sizes, view.members, min_size)
    if min_size > 1:
        return
    for document in _roots_among(view, (key for key in view.all_document_ids() if key not in sizes)):
        yield _read_cluster(view, [document])


def clusters_by_policy(
    view: View, *, threshold: float, containment: bool, sweep: int | None, min_size: int
) -> Iterator[Cluster]:
    """Yield the clusters of another policy, in the order of `clusters`, computed from the stored edges.

    `threshold` must not be below the threshold of the ingest. With `containment`, a stored pair also counts if one of
    its documents contains the other to at least the threshold. At the threshold of the ingest that adds nothing, as
    all stored pairs count. Pairs below it are not stored; the bands would find few of them anyway, for example a page
    and a much longer one that contains it. With `sweep`, only the documents that this sweep captured count.
    """
    url_counts = _count_urls(view, sweep)
    sets = _join_edges(view, url_counts, threshold, containment)
    groups = sets.groups()
    sizes = {root: len(members) for root, members in groups.items()}
    for document, url_count in _documents_at_several_urls(view) if url_counts is None else url_counts.items():
        if url_count > 1:
            root = sets.root(document) if document in sets.parents else document
            sizes[root] = sizes.get(root, 1) + url_count - 1
    yield from _largest_first(view, sizes, lambda root: groups.get(root, [root]), min_size, sweep)
    if min_size > 1:
        return
    for document in view.all_document_ids() if url_counts is None else sorted(url_counts):
        if document not in sizes and document not in sets.parents:
            yield _read_cluster(view, [document], None, sweep)


def cluster_by_policy(
    view: View, document: bytes, *, threshold: float, containment: bool, sweep: int | None, limit: int
) -> Cluster | None:
    """Return the cluster of `clusters_by_policy` that has a document; None if the document does not count."""
    url_counts = _count_urls(view, sweep)
    if url_counts is not None and document not in url_counts:
        return None
    sets = _join_edges(view, url_counts, threshold, containment)
    return _read_cluster(view, sets.groups().get(sets.root(document), [document]), limit, sweep)


def _join_edges(
    view: View, documents: Counter[bytes] | None, threshold: float, containment: bool
) -> DisjointSets[bytes]:
    """Join the stored edges that a policy accepts between these documents; None stands for all documents."""
    sets = DisjointSets[bytes]()
    for edge in view.all_edges():
        figure = max(edge.resemblance, edge.containment, edge.contained) if containment else edge.resemblance
        if figure >= threshold and (documents is None or (edge.a in documents and edge.b in documents)):
            sets.union(edge.a, edge.b)
    return sets


def _count_urls(view: View, sweep: int | None) -> Counter[bytes] | None:
    """Count the URLs of each document that counts: captured by `sweep`, or by any sweep that is not being cancelled.

    None if all documents count, so that no captures need to be read.
    """
    if _all_locations_count(view, sweep):
        return None
    counts: Counter[bytes] = Counter()
    for _, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        counts.update({c.document for c in captures if c.document and sweep in (None, c.sweep)})
    return counts


def _all_locations_count(view: View, sweep: int | None) -> bool:
    """Whether every location row counts, so that no captures need to be read."""
    return sweep is None and not view.cancelling


def _documents_at_several_urls(view: View) -> Iterator[tuple[bytes, int]]:
    """Yield each document that has several URLs, with their number."""
    for document, locations in groupby(view.all_locations(), key=lambda location: location[0]):
        if (count := sum(1 for _ in locations)) > 1:
            yield document, count


def _roots_among(view: View, documents: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the documents that have no parent, in their order."""
    remaining = iter(documents)
    while batch := list(islice(remaining, _ROWS_PER_READ)):
        parents = view.parents(batch)
        yield from (document for document, parent in zip(batch, parents, strict=True) if parent is None)


def _largest_first(
    view: View,
    sizes: Mapping[bytes, int],
    read_members: Callable[[bytes], list[bytes]],
    min_size: int,
    sweep: int | None = None,
) -> Iterator[Cluster]:
    """Yield clusters by size, the larger of their document and URL counts, from `min_size` on; ties by root.

    `sizes` are upper bounds, because a URL is counted once for each document that it had. The exact size is computed
    when a cluster is first in the queue; if it is smaller than the bound, the cluster is queued again. So the first
    cluster is yielded before all of them are counted.
    """
    queue = [(-size, root) for root, size in sizes.items() if size >= min_size]
    heapify(queue)
    while queue:
        negative_bound, root = heappop(queue)
        members = read_members(root)
        bound, size = -negative_bound, len(members)
        if bound > size:
            size = bound if size == 1 else max(size, _url_count(view, members, sweep))
        if size == bound:
            yield _read_cluster(view, members, None, sweep)
        elif size >= min_size:
            heappush(queue, (-size, root))


def _read_cluster(view: View, members: list[bytes], limit: int | None = None, sweep: int | None = None) -> Cluster:
    """Return the cluster of these documents, the root first; if all locations count, only listed URLs are read."""
    keys = _location_keys(view, members)
    all_count = _all_locations_count(view, sweep)
    urls = list(_urls(view, keys[:limit] if all_count else keys, members, sweep))
    return Cluster(
        cluster=members[0].hex(),
        documents=[member.hex() for member in members[:limit]],
        urls=sorted(urls[:limit]),
        document_count=len(members),
        url_count=len(keys) if all_count else len(urls),
    )


def _url_count(view: View, members: list[bytes], sweep: int | None) -> int:
    keys = _location_keys(view, members)
    return len(keys) if _all_locations_count(view, sweep) else sum(1 for _ in _urls(view, keys, members, sweep))


def _location_keys(view: View, documents: list[bytes]) -> list[bytes]:
    """Return the keys of all URLs that have or had one of these documents, ascending; http and https share a key."""
    keys: set[bytes] = set()
    for start in range(0, len(documents), _ROWS_PER_READ):
        keys.update(chain.from_iterable(view.locations(documents[start : start + _ROWS_PER_READ], 1 << 62)))
    return sorted(keys)


def _urls(view: View, keys: list[bytes], documents: list[bytes], sweep: int | None) -> Iterator[str]:
    """Yield the URLs of these keys that had one of the documents in `sweep`, or in any sweep, as last written."""
    members = set(documents)
    for start in range(0, len(keys), _ROWS_PER_READ):
        for captures in view.histories(keys[start : start + _ROWS_PER_READ]):
            urls = [c.url for c in captures if c.document in members and sweep in (None, c.sweep)]
            if urls:
                yield urls[-1]

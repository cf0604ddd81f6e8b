"""Postpone the rebuilding of large clusters to the end of a command, for a collection to which pages are added.

If other writers exist, documents cannot be detached early (see `detachment`). Instead, the removals of a command
delete documents of large clusters, but not their edges, parents and memberships. The last removals delete these rows
and rebuild each cluster once.

One capture per cluster is kept until then. After an interruption, the same command therefore finds the cluster again.
A document without a location is recognised as deleted, whichever removal deleted it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from state.changes import Changes
from state.families import Family
from state.model import Capture
from state.rows import RowReader
from state.view import View
from streams.forgetting.detachment import delete_edges

LARGE_CLUSTER_MEMBERS = 32  # a smaller cluster is rebuilt by each removal that deletes some of its documents
_DOCUMENTS_PER_READ = 256


class DeferredClusters:
    """The large clusters that the removals of one command have reached, and one capture of each."""

    def __init__(self, reader: RowReader) -> None:
        self._view = View(reader)
        self.roots: set[bytes] = set()
        self.captures: list[Capture] = []  # removed last

    def defer(self, captures: Sequence[Capture]) -> list[Capture]:
        """Defer the large clusters of these captures. Return the captures to remove now: all but one per cluster."""
        documents = sorted({capture.document for capture in captures if capture.document})
        root_of = dict(zip(documents, self._view.roots(documents), strict=True))
        new_roots = sorted(set(root_of.values()) - self.roots)
        members = self._view.some_members(new_roots, LARGE_CLUSTER_MEMBERS)
        sizes = zip(new_roots, map(len, members), strict=True)
        new_large_roots = {root for root, size in sizes if size > LARGE_CLUSTER_MEMBERS}
        self.roots |= new_large_roots
        removable: list[Capture] = []
        for capture in captures:
            root = root_of[capture.document] if capture.document else None
            if root in new_large_roots:
                new_large_roots.remove(root)
                self.captures.append(capture)
            else:
                removable.append(capture)
        return removable


def delete_edges_of_missing(reader: RowReader, documents: Iterable[bytes]) -> Iterator[Changes]:
    """Yield changes that delete the edges of missing documents (see `missing_documents`) in these clusters."""
    view = View(reader)
    for root in sorted(set(view.roots(sorted(documents)))):
        members = view.members(root)
        if missing := missing_documents(reader, members):
            yield from delete_edges(reader, members, missing)


def missing_documents(reader: RowReader, documents: Iterable[bytes]) -> set[bytes]:
    """Return the documents without a location, which an earlier removal has deleted."""
    missing: set[bytes] = set()
    iterator = iter(documents)
    while chunk := list(islice(iterator, _DOCUMENTS_PER_READ)):
        keys = reader.keys_under(Family.LOCATIONS, chunk, 1)
        missing.update(document for document, locations in zip(chunk, keys, strict=True) if not locations)
    return missing

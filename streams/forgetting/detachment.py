"""Detach documents from their clusters before they are deleted in many removals.

A removal dissolves and rebuilds the clusters of the documents that it deletes. If a large cluster lost its documents
in many removals, it would be rebuilt by each of them. Therefore, the first of these removals is preceded by changes
that detach all documents of the cluster that any removal of the command will delete: their edges are deleted, and the
other documents are joined again. A detached document is a cluster of its own, so the state stays consistent. Only the
last step, which joins the other documents, changes the whole cluster at once. Memory grows neither with the number of
edges nor with the number of documents that will be deleted.

Only a command that is the only writer may do this. Otherwise, a page that arrives before a detached document is
deleted could keep the document, without its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import ID_BYTES, Capture
from state.rows import RowReader
from state.view import View
from streams.operators import forest

_EDGES_PER_COMMIT = 20_000
_MEMBERS_PER_COMMIT = 10_000
_DOCUMENTS_PER_READ, _EDGES_PER_READ = 256, 64  # edges per document
_HISTORIES_CACHED = 256


class DoomedDocuments:
    """The documents of which no capture will remain after all removals of one command."""

    def __init__(self, reader: RowReader, is_remaining: Callable[[Capture], bool]) -> None:
        """`is_remaining` returns whether a capture will still be stored after all removals."""
        self._reader = reader
        self._is_remaining = is_remaining
        self._remaining_documents_at = lru_cache(maxsize=_HISTORIES_CACHED)(self._read_remaining)

    def among(self, documents: Iterable[bytes]) -> set[bytes]:
        """Return the doomed documents among these."""
        return {document for document in documents if not self._remains(document)}

    def _remains(self, document: bytes) -> bool:
        locations = self._reader.scan(Family.LOCATIONS, document)
        return any(document in self._remaining_documents_at(location[ID_BYTES:]) for location, _ in locations)

    def _read_remaining(self, key: bytes) -> frozenset[bytes | None]:
        """Return the documents with remaining captures at a URL."""
        rows = self._reader.scan(Family.CAPTURES, capture_row.history_prefix(key))
        captures = (capture_row.decode(*row) for row in rows)
        return frozenset(capture.document for capture in captures if self._is_remaining(capture))


def detach(reader: RowReader, documents: Collection[bytes], doomed: DoomedDocuments) -> Iterator[tuple[Changes, int]]:
    """Yield changes that detach doomed documents from the clusters of `documents`.

    Changes are yielded with the number of documents that they join again. A cluster stays unchanged if all its doomed
    documents are in `documents`. The caller must commit the changes before it requests the next ones.

    `documents` are detached last. If a crash interrupts the command, the cluster therefore still contains some of
    these documents, and the next run finds the cluster again.
    """
    view = View(reader)
    for root in sorted(set(view.roots(sorted(documents)))):
        members = view.members(root)
        if len(members) == 1:
            continue
        doomed_members = doomed.among(members)
        if doomed_members.issubset(documents):
            continue  # the next removal deletes them all
        for changes in delete_edges(reader, members, doomed_members):
            yield changes, 0
        detached = doomed_members.difference(documents, (root,))
        for changes in _detach_from(root, members, detached, reader):
            yield changes, 0
        attached = [member for member in members if member not in detached]
        changes = Changes()
        forest.rejoin(
            reader,
            changes,
            nodes=attached,
            memberships=((root, member) for member in attached if member != root),
            edges=stored_edges(reader, (member for member in attached if member not in doomed_members)),
            deleted=(),
        )
        yield changes, len(members) - len(doomed_members)


def _detach_from(
    root: bytes, members: Sequence[bytes], detached: Collection[bytes], reader: RowReader
) -> Iterator[Changes]:
    """Yield changes that detach members without edges from their cluster, some members at a time.

    A parent is smaller than its child. Members are processed in descending order, so the children of a detached
    document get a different parent, or are detached, no later than the document itself.
    """
    for end in range(len(members), 0, -_MEMBERS_PER_COMMIT):
        chunk = members[max(0, end - _MEMBERS_PER_COMMIT) : end]
        changes = Changes()
        for member, parent in zip(chunk, reader.get_many(Family.PARENTS, chunk), strict=True):
            if member in detached:
                changes.delete(Family.PARENTS, member)
                changes.delete(Family.MEMBERS, root + member)
            elif parent in detached:
                changes.put(Family.PARENTS, member, root)
        if changes:
            yield changes


def delete_edges(reader: RowReader, members: Iterable[bytes], deleted: Collection[bytes]) -> Iterator[Changes]:
    """Yield changes that delete the edges between members of a cluster and deleted documents, some at a time."""
    changes, count = Changes(), 0
    for a, b in stored_edges(reader, members):
        if a in deleted or b in deleted:
            changes.delete(Family.EDGES, a + b)
            count += 1
        if count == _EDGES_PER_COMMIT:
            yield changes
            changes, count = Changes(), 0
    if changes:
        yield changes


def stored_edges(reader: RowReader, documents: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the edges that are stored under documents: those to documents with larger ids.

    Edges are read for many documents at a time. Only the edges of the few documents with many edges are scanned.
    """
    iterator = iter(documents)
    while chunk := list(islice(iterator, _DOCUMENTS_PER_READ)):
        for document, keys in zip(chunk, reader.keys_under(Family.EDGES, chunk, _EDGES_PER_READ), strict=True):
            yield from ((key[:ID_BYTES], key[ID_BYTES:]) for key in keys)
            if len(keys) == _EDGES_PER_READ:
                # The scan works even if the caller has deleted the last of these edges in the meantime.
                others = reader.scan(Family.EDGES, document, keys[-1] + b"\0")
                yield from ((key[:ID_BYTES], key[ID_BYTES:]) for key, _ in others)

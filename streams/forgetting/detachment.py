"""Detach documents from their clusters before they are deleted in many removals.

A removal dissolves and rebuilds the clusters of the documents that it deletes. If a large cluster lost its documents
in many removals, it would be rebuilt by each of them. Therefore, the first of these removals is preceded by changes
that detach all documents of the cluster that any removal of the command will delete: their edges are deleted, and the
other documents are joined again. A detached document is a cluster of its own, so the state stays consistent.

Only a command that is the only writer may do this. Otherwise, a page that arrives before a detached document is
deleted could keep the document, without its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import ID_BYTES, Capture
from state.rows import RowReader
from state.view import View
from streams.operators import forest

_EDGES_PER_COMMIT = 50_000
_HISTORIES_CACHED = 256


class DoomedDocuments:
    """The documents of which no capture will remain after all removals of one command."""

    def __init__(self, reader: RowReader, is_remaining: Callable[[Capture], bool]) -> None:
        """`is_remaining` returns whether a capture will still be stored after all removals."""
        self._reader = reader
        self._is_remaining = is_remaining
        self._remaining_documents_at = lru_cache(maxsize=_HISTORIES_CACHED)(self._read_remaining)

    def among(self, documents: Iterable[bytes]) -> set[bytes]:
        """Return the doomed ones of these documents."""
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

    Each value contains the number of documents that are joined again. A cluster stays unchanged if all its doomed
    documents are in `documents`. The caller must commit the changes before it requests the next ones.
    """
    view = View(reader)
    for root in sorted(set(view.roots(sorted(documents)))):
        members = view.members(root)
        if len(members) == 1:
            continue
        doomed_members = doomed.among(members)
        if doomed_members <= set(documents):
            continue  # the next removal deletes them all
        yield from ((changes, 0) for changes in _delete_edges(reader, members, doomed_members))
        changes = Changes()
        forest.rejoin(
            reader,
            changes,
            nodes=members,
            memberships=[(root, member) for member in members[1:]],
            edges=_edges(reader, [member for member in members if member not in doomed_members]),
            deleted=(),
        )
        yield changes, len(members) - len(doomed_members)


def _delete_edges(
    reader: RowReader, members: Sequence[bytes], doomed_members: Collection[bytes]
) -> Iterator[Changes]:
    changes = Changes()
    for a, b in _edges(reader, members):
        if a in doomed_members or b in doomed_members:
            changes.delete(Family.EDGES, a + b)
        if len(changes) >= _EDGES_PER_COMMIT:
            yield changes
            changes = Changes()
    if changes:
        yield changes


def _edges(reader: RowReader, nodes: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return ((row[:ID_BYTES], row[ID_BYTES:]) for node in nodes for row, _ in reader.scan(Family.EDGES, node))

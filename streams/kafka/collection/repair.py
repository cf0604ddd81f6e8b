"""Check clusters again after deletions that raced with joins, and repair them.

Forgetting reads a cluster and computes changes, which are applied later. Joins continue in between. Three rules keep
the clusters consistent with the edges:

    new pointers stay            the owner keeps pointers set by these joins, and the next check follows them
    new postings stay            the owner removes only the postings of deleted documents
    clusters are checked again   once no message is in flight, until pointers and member lists match the edges

The check starts at the changed documents and follows parent pointers, member lists and edges. A union that was in
flight is either complete or has left a trace in one of the three.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
import structlog

from state.changes import Changes
from state.codecs import changelog_record
from state.errors import StateError
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES
from state.rows import RowReader
from state.view import View
from streams.forgetting.deferral import missing_documents
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.operators import forest

_ROUNDS_MAX = 20
log = structlog.get_logger(__name__)


def build_retractions(
    store: RowReader, changes_by_partition: Mapping[int, Changes]
) -> dict[tuple[Topic, int], list[Retraction]]:
    """Return the retraction messages for each partition, with the pointers and postings that the owner may remove.

    A pointer may be removed if it links two documents whose pointers change; a posting, if its document is deleted.
    If the changes delete no documents, they belong to a retraction that was too large for one request. The deleted
    documents are then unknown, and all postings may be removed.
    """
    documents = set().union(*(_repointed_documents(changes) for changes in changes_by_partition.values()))
    sorted_documents = sorted(documents)
    pointers = zip(sorted_documents, store.get_many(Family.PARENTS, sorted_documents), strict=True)
    parents = {document: parent for document, parent in pointers if parent in documents}
    deleted_prefixes = sorted({document[:PREFIX_BYTES] for document in _deleted_documents(changes_by_partition)})
    return {
        (Topic.RETRACTIONS, number): [
            _build_retraction(record, parents, deleted_prefixes)
            for record in changelog_record.encode(changes, kind=changelog_record.RETRACTION)
        ]
        for number, changes in changes_by_partition.items()
    }


def _build_retraction(record: bytes, parents: Mapping[bytes, bytes], deleted_prefixes: list[bytes]) -> Retraction:
    _, changes = changelog_record.decode(record)
    posting_changes = changes.deletes.get(Family.BANDS) or changes.puts.get(Family.BANDS)
    removable_pointers = {
        document: parents[document] for document in _repointed_documents(changes) if document in parents
    }
    return Retraction(record, removable_pointers, (deleted_prefixes or None) if posting_changes else None)


def _deleted_documents(changes_by_partition: Mapping[int, Changes]) -> set[bytes]:
    return set().union(*(changes.deletes.get(Family.DOCUMENTS, set()) for changes in changes_by_partition.values()))


def _repointed_documents(changes: Changes) -> set[bytes]:
    """Return the documents whose parent pointers change."""
    return changes.deletes.get(Family.PARENTS, set()) | changes.puts.get(Family.PARENTS, {}).keys()


def repair_clusters(
    store: RowReader,
    changes_by_partition: Mapping[int, Changes],
    *,
    drain: Callable[[], None],
    commit: Callable[[Changes], None],
) -> None:
    """Rejoin the clusters that a retraction dissolved, until they match the edges.

    `drain` returns once all messages in flight are processed, and `commit` applies changes. Raise StateError if joins
    change clusters faster than this function repairs them.
    """
    start_documents = set().union(*(_repointed_documents(changes) for changes in changes_by_partition.values()))
    if not start_documents:
        return
    deleted = _deleted_documents(changes_by_partition)
    for _ in range(_ROUNDS_MAX):
        drain()
        component = _read_component(store, start_documents, deleted)
        if inconsistent := component.inconsistent_documents():
            # The joins may still be in flight. Only documents that remain inconsistent need a repair.
            drain()
            component = _read_component(store, start_documents, deleted)
            inconsistent &= component.inconsistent_documents()
        if not inconsistent:
            return
        log.info("rejoining clusters that changed during a retraction", documents=len(component.roots))
        changes = Changes()
        forest.rejoin(
            store,
            changes,
            nodes=component.roots,
            memberships=component.members,
            edges=sorted(component.edges),
            deleted=component.deleted,
        )
        commit(changes)
        start_documents |= component.roots.keys()
    raise StateError(
        f"clusters are still inconsistent after {_ROUNDS_MAX} repair rounds",
        "the data is deleted; run the command again when fewer pages arrive",
    )


class _Component(msgspec.Struct, frozen=True):
    """The documents connected to the documents of a retraction, with the links between them."""

    deleted: set[bytes]  # deleted documents that have not been readmitted
    roots: dict[bytes, bytes]  # by document
    members: set[tuple[bytes, bytes]]  # pairs of a document and a member listed under it
    edges: set[tuple[bytes, bytes]]

    def inconsistent_documents(self) -> set[bytes]:
        """Return the documents whose pointers or member lists contradict the edges."""
        links = self.members | self.edges
        documents = {node for link in links if not self.deleted.isdisjoint(link) for node in link}
        documents |= {node for node in self.deleted if self.roots[node] != node}
        documents |= {node for edge in self.edges if self.roots[edge[0]] != self.roots[edge[1]] for node in edge}
        documents |= {member for node, member in self.members if self.roots[member] != node}
        documents |= {node for node, root in self.roots.items() if root != node and (root, node) not in self.members}
        return documents


def _read_component(store: RowReader, start_documents: Collection[bytes], deleted: Collection[bytes]) -> _Component:
    view = View(store)
    roots: dict[bytes, bytes] = {}
    members: set[tuple[bytes, bytes]] = set()
    edges: set[tuple[bytes, bytes]] = set()
    frontier = sorted(start_documents)
    while frontier:
        roots.update(zip(frontier, view.roots(frontier), strict=True))
        for links, family in ((members, Family.MEMBERS), (edges, Family.EDGES)):
            for rows in store.rows_under(family, frontier):
                links |= {(key[:ID_BYTES], key[ID_BYTES:]) for key, _ in rows}
        neighbours = {node for link in members | edges for node in link}
        frontier = sorted((neighbours | set(roots.values())) - roots.keys())
    sorted_documents = sorted(deleted)
    document_rows = store.get_many(Family.DOCUMENTS, sorted_documents)
    still_deleted = {document for document, row in zip(sorted_documents, document_rows, strict=True) if row is None}
    # Earlier removals of the same command may have deleted documents without changing the cluster.
    still_deleted |= missing_documents(store, sorted(roots.keys() - deleted))
    return _Component(still_deleted, roots, members, edges)

"""Mending: what was taken out of clusters beside running joins, made whole.

Forgetting reads a cluster, and what it makes of it is taken later; joins go on in between. Two things make it sound:

    a pointer that was set in between stays     its owner compares: whoever looks then sees where it leads
    a posting that came in between stays        its owner takes out those of documents that go, and no others
    it is looked at again, and repeated         after everything under way has come, until all is as the edges say

What is looked at grows from what was touched along pointers, lists of members and edges. A union that was under way
has left one of these there, or is done.
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
from state.store import Store
from state.view import View
from streams.engine.embedded import join_all
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.operators.join import union

ROUNDS_MAX = 20
log = structlog.get_logger(__name__)


def build_retractions(store: Store, parts: Mapping[int, Changes]) -> dict[tuple[Topic, int], list[Retraction]]:
    """Changes by partition as messages, with what they may take away.

    These are pointers among what they dissolve and postings of documents that they remove. Where they remove none
    they are a part of changes too large for one question, and it is not known whose postings go.
    """
    nodes = set().union(*(_pointing(changes) for changes in parts.values()))
    ids = sorted(nodes)
    held = zip(ids, store.get_many(Family.PARENTS, ids), strict=True)
    parents = {node: parent for node, parent in held if parent in nodes}
    postings = sorted({key[:PREFIX_BYTES] for key in _deleted(parts, Family.DOCUMENTS)})
    return {
        (Topic.RETRACTIONS, number): [
            _amendment(record, parents, postings)
            for record in changelog_record.encode(changes, kind=changelog_record.AMENDMENT)
        ]
        for number, changes in parts.items()
    }


def _amendment(record: bytes, parents: Mapping[bytes, bytes], postings: list[bytes]) -> Retraction:
    _, changes = changelog_record.decode(record)
    posted = changes.deletes.get(Family.BANDS) or changes.puts.get(Family.BANDS)
    may_go = {node: parents[node] for node in _pointing(changes) if node in parents}
    return Retraction(record, may_go, postings if posted and postings else None)


def _deleted(parts: Mapping[int, Changes], family: Family) -> set[bytes]:
    return set().union(*(changes.deletes.get(family, set()) for changes in parts.values()))


def _pointing(changes: Changes) -> set[bytes]:
    """Nodes whose pointers are changed."""
    return changes.deletes.get(Family.PARENTS, set()) | changes.puts.get(Family.PARENTS, {}).keys()


def repair_clusters(store: Store, parts: Mapping[int, Changes], drain: Callable[[], None]) -> None:
    """See that what `parts` dissolved is as the edges say; `drain` returns when all that is under way has come.

    Raises StateError where joins are faster.
    """
    touched = set().union(*(_pointing(changes) for changes in parts.values()))
    if not touched:
        return
    left = _deleted(parts, Family.DOCUMENTS)
    for _ in range(ROUNDS_MAX):
        drain()
        found = _look(store, touched, left)
        if torn := found.torn():
            # What is new may be on its way: only what stays so is torn.
            drain()
            found = _look(store, touched, left)
            torn &= found.torn()
        if not torn:
            return
        log.info("clusters are joined again: others came in between", documents=len(found.roots))
        changes = Changes()
        found.dissolve(store, changes)
        store.write(changes)
        touched |= found.roots.keys()
    raise StateError(
        "clusters change faster than they are mended", "what was asked for is gone; ask again when fewer pages come"
    )


class _Looked(msgspec.Struct, frozen=True):
    """Everything that hangs together with some documents."""

    gone: set[bytes]
    roots: dict[bytes, bytes]
    listed: set[tuple[bytes, bytes]]  # a node, and one listed as its member
    edges: set[tuple[bytes, bytes]]

    def torn(self) -> set[bytes]:
        """Documents whose pointers or lists are not as the edges say."""
        found = {node for pair in self.listed | self.edges if not self.gone.isdisjoint(pair) for node in pair}
        found |= {node for node in self.gone if self.roots[node] != node}
        found |= {node for pair in self.edges if self.roots[pair[0]] != self.roots[pair[1]] for node in pair}
        found |= {member for node, member in self.listed if self.roots[member] != node}
        pointing = ((root, node) for node, root in self.roots.items() if root != node)
        return found | {pair[1] for pair in pointing if pair not in self.listed}

    def dissolve(self, store: Store, changes: Changes) -> None:
        """Take all apart, and join it by the edges between what is left."""
        for node in self.roots:
            changes.delete(Family.PARENTS, node)
        for node, member in self.listed:
            changes.delete(Family.MEMBERS, node + member)
        for pair in self.edges:
            if not self.gone.isdisjoint(pair):
                changes.delete(Family.EDGES, b"".join(pair))
        left = [union(*pair) for pair in sorted(self.edges) if self.gone.isdisjoint(pair)]
        join_all(store, left, changes)


def _look(store: Store, touched: Collection[bytes], left: Collection[bytes]) -> _Looked:
    view = View(store)
    roots: dict[bytes, bytes] = {}
    listed: set[tuple[bytes, bytes]] = set()
    edges: set[tuple[bytes, bytes]] = set()
    new = sorted(touched)
    while new:
        roots.update(zip(new, view.roots(new), strict=True))
        for rows, family in ((listed, Family.MEMBERS), (edges, Family.EDGES)):
            for each in store.scan_prefixes(family, new):
                rows |= {(key[:ID_BYTES], key[ID_BYTES:]) for key, _ in each}
        met = {node for pair in listed | edges for node in pair}
        new = sorted((met | set(roots.values())) - roots.keys())
    ids = sorted(left)
    there = store.get_many(Family.DOCUMENTS, ids)  # a page may have brought it again
    gone = {document for document, row in zip(ids, there, strict=True) if row is None}
    return _Looked(gone, roots, listed, edges)

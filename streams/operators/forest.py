"""forest: runs the steps of `join` over stored rows, and rebuilds clusters after deletions.

`join` defines the individual steps. This module decides, for both engines, which step runs next. The order of the
steps changes only their cost. `join_all` runs all unions of a batch before the first transfer. A member then moves
once, from its stored list to the list of the final root, instead of once per root on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, TypeVar

from state.changes import Changes
from state.families import Family
from state.model import ID_BYTES
from state.rows import RowReader
from streams.operators.join import MemberTransfer, Message, Union, transfer_step, union, union_step

Node = TypeVar("Node", bytes, int)


class Forest:
    """Parents and members of documents: the stored rows, overlaid with the changes of this batch."""

    def __init__(self, reader: RowReader, changes: Changes, new_documents: Collection[bytes] = ()) -> None:
        """Collect the changes of all steps in `changes`. No rows are read for `new_documents`."""
        self.reader, self.changes, self.new_documents = reader, changes, new_documents
        self.transfers: list[MemberTransfer] = []  # one per former root, with the members it had
        self._parents: dict[bytes, bytes | None] = dict.fromkeys(changes.deletes.get(Family.PARENTS, ()))
        self._parents.update(changes.puts_of(Family.PARENTS))
        self._added: dict[bytes, set[bytes]] = {}  # members added by this batch, by root
        assert not changes.puts.get(Family.MEMBERS), "only steps add members"

    def run(self, message: Message, is_local: Callable[[Message], bool]) -> Message | None:
        """Process a message and the local messages that follow from it. Return the first remote message, if any."""
        next_message: Message | None = message
        while next_message is not None and is_local(next_message):
            next_message = self.step(next_message)
        return next_message

    def step(self, message: Message) -> Message | None:
        """Process one message. Return the message that follows from it, if any."""
        if isinstance(message, Union):
            parent = self._parent(message.larger)
            members = self._members(message.larger) if parent is None else ()
            changes, next_message = union_step(message, parent, members)
            if isinstance(next_message, MemberTransfer):
                self.transfers.append(next_message)
                self._parents[message.larger] = message.smaller
                self._added.pop(message.larger, None)
        else:
            parent = self._parent(message.root)
            changes, next_message = transfer_step(message, parent)
            if parent is None:
                self._added.setdefault(message.root, set()).update(message.members)
        self.changes.update(changes)
        return next_message

    def read_parents(self, nodes: Iterable[bytes]) -> None:
        """Read the parents of these nodes in one look-up."""
        unknown = sorted(node for node in set(nodes) - self._parents.keys() if node not in self.new_documents)
        self._parents.update(zip(unknown, self.reader.get_many(Family.PARENTS, unknown), strict=True))

    def find_root(self, node: bytes) -> bytes:
        """Return the root of a node; `reader` must contain the parents of all nodes on the way."""
        path: list[bytes] = []
        while (parent := self._parent(node)) is not None:
            path.append(node)
            node = parent
        self._parents.update(dict.fromkeys(path, node))
        return node

    def _parent(self, node: bytes) -> bytes | None:
        if node not in self._parents:
            self._parents[node] = None if node in self.new_documents else self.reader.get(Family.PARENTS, node)
        return self._parents[node]

    def _members(self, root: bytes) -> list[bytes]:
        """Return the documents listed under a root, in ascending order."""
        added = self._added.get(root, set())
        if root in self.new_documents:
            return sorted(added)
        deleted = self.changes.deletes.get(Family.MEMBERS, ())
        stored = {key[ID_BYTES:] for key, _ in self.reader.scan(Family.MEMBERS, root) if key not in deleted}
        return sorted(stored | added)


def join_all(
    reader: RowReader, unions: Sequence[Union], changes: Changes, new_documents: Collection[bytes] = ()
) -> None:
    """Run the unions of a batch. Add their changes to `changes`, which already has the earlier changes of the batch.

    `reader` must contain all nodes that the unions reach. No rows are read for `new_documents`: they have none yet.
    """
    forest = Forest(reader, changes, new_documents)
    forest.read_parents(node for message in unions for node in (message.larger, message.smaller))
    for message in unions:
        a, b = forest.find_root(message.larger), forest.find_root(message.smaller)
        if a != b:  # join the roots directly, which takes one step
            forest.step(union(a, b))
    members: dict[bytes, list[bytes]] = {}
    for transfer in forest.transfers:
        root = forest.find_root(transfer.root)
        if root != transfer.root:  # shorten the path of the former root
            former_root = transfer.members[0]
            changes.put(Family.PARENTS, former_root, root)
        members.setdefault(root, []).extend(transfer.members)
    for root, documents in members.items():
        forest.step(MemberTransfer(root, tuple(documents)))


def rejoin(
    reader: RowReader,
    changes: Changes,
    *,
    nodes: Iterable[bytes],
    memberships: Iterable[tuple[bytes, bytes]],
    edges: Iterable[tuple[bytes, bytes]],
    deleted: Collection[bytes],
) -> None:
    """Dissolve components, and join the remaining documents by the edges between them.

    A union-find cannot undo a union, so whole components are rebuilt. Pass all their nodes, (root, member) pairs and
    edges. `edges` may be a stream: only edges that join two sets are kept in memory.
    """
    for node in nodes:
        changes.delete(Family.PARENTS, node)
    for root, member in memberships:
        changes.delete(Family.MEMBERS, root + member)
    unions, sets = [], DisjointSets[bytes]()
    for a, b in edges:
        if a in deleted or b in deleted:
            changes.delete(Family.EDGES, a + b)
        elif sets.union(a, b):
            unions.append(union(a, b))
    join_all(reader, unions, changes)


class DisjointSets(Generic[Node]):
    """A union-find in memory; the root of each set is its smallest node."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node] = {}

    def root(self, node: Node) -> Node:
        """Return the smallest node of a node's set. Make a set for a new node."""
        parents = self.parents
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = node = parents[parent]
        return node

    def union(self, a: Node, b: Node) -> bool:
        """Merge the sets of two nodes. Return whether the sets were separate."""
        root_a, root_b = self.root(a), self.root(b)
        self.parents[max(root_a, root_b)] = min(root_a, root_b)
        return root_a != root_b

    def groups(self) -> dict[Node, list[Node]]:
        """Return the nodes of each set by root. Roots and nodes are in ascending order."""
        groups: dict[Node, list[Node]] = {}
        for node in sorted(self.parents):
            groups.setdefault(self.root(node), []).append(node)
        return groups

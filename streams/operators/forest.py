"""forest: runs the steps of `join` over stored rows, and joins what remains of clusters after deletions.

`join` defines single steps; this module decides which step comes next, for both engines. A `Forest` reads parents and
members through a `RowReader`, with the changes of the batch laid over them, and every change that it makes is the
change of a step.

The order of the steps is free, and matters only for the cost. `join_all` takes all unions of a batch before the first
transfer: a member then moves once, from the list where it was stored to the final root, however many roots it would
have passed on the way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from state.changes import Changes
from state.families import Family
from state.model import ID_BYTES
from state.rows import RowReader
from streams.operators import join

Message = join.Union | join.MemberTransfer
Node = TypeVar("Node", bound=Hashable)


class Forest:
    """Parents and members of documents: the stored rows, with the changes of this batch laid over them."""

    def __init__(self, rows: RowReader, changes: Changes, fresh: Collection[bytes] = ()) -> None:
        """Steps add to `changes`; `fresh` are documents without rows, so that none are read for them."""
        self.rows, self.changes, self.fresh = rows, changes, fresh
        self.links: list[join.MemberTransfer] = []  # one per root that got a parent, with its members
        self._parents: dict[bytes, bytes | None] = dict.fromkeys(changes.deletes.get(Family.PARENTS, ()))
        self._parents.update(changes.family(Family.PARENTS))
        self._added: dict[bytes, set[bytes]] = {}  # members by root
        assert not changes.puts.get(Family.MEMBERS), "members are added by steps only"

    def run(self, messages: Iterable[Message], is_local: Callable[[Message], bool] | None = None) -> list[Message]:
        """Take messages, and the messages that follow from them, in order; return those that are not local."""
        outgoing: list[Message] = []
        queue = deque(messages)
        while queue:
            message = queue.popleft()
            if is_local is not None and not is_local(message):
                outgoing.append(message)
                continue
            step = self.take(message)
            queue.extend(step.unions)
            queue.extend(step.transfers)
        return outgoing

    def read_parents(self, nodes: Iterable[bytes]) -> None:
        """Read the parents of these nodes at once."""
        unknown = sorted(node for node in set(nodes) - self._parents.keys() if node not in self.fresh)
        self._parents.update(zip(unknown, self.rows.get_many(Family.PARENTS, unknown), strict=True))

    def find_root(self, node: bytes) -> bytes:
        """Return the root of a node; needs the rows of all nodes on the way."""
        path: list[bytes] = []
        while (parent := self._parent(node)) is not None:
            path.append(node)
            node = parent
        self._parents.update(dict.fromkeys(path, node))
        return node

    def take(self, message: Message) -> join.Step:
        """Take one step, and lay its changes over those before it."""
        if isinstance(message, join.Union):
            node = message.larger
            parent = self._parent(node)
            if parent is not None:
                return join.union_step(message, parent, ())
            step = join.union_step(message, None, self._members(node))
            self._parents[node] = message.smaller
            self._added.pop(node, None)
            self.links += step.transfers
        else:
            parent = self._parent(message.root)
            step = join.transfer_step(message, parent)
            if parent is None:
                self._added.setdefault(message.root, set()).update(message.members)
        self.changes.update(step.changes)
        return step

    def _parent(self, node: bytes) -> bytes | None:
        """Return the parent of a node, or None for a root."""
        if node not in self._parents:
            self._parents[node] = None if node in self.fresh else self.rows.get(Family.PARENTS, node)
        return self._parents[node]

    def _members(self, root: bytes) -> list[bytes]:
        """Return the documents listed under a root, ascending."""
        added = self._added.get(root, set())
        if root in self.fresh:
            return sorted(added)
        deleted = self.changes.deletes.get(Family.MEMBERS, ())
        stored = {key[ID_BYTES:] for key, _ in self.rows.scan(Family.MEMBERS, root) if key not in deleted}
        return sorted(stored | added)


def join_all(rows: RowReader, unions: Sequence[join.Union], changes: Changes, fresh: Collection[bytes] = ()) -> None:
    """Join documents whose rows can all be read here; `changes` holds earlier changes of the batch and gets these.

    `fresh` are documents that the state did not hold before the batch: nothing is read for them.
    """
    forest = Forest(rows, changes, fresh)
    forest.read_parents(node for union in unions for node in (union.larger, union.smaller))
    for message in unions:
        a, b = forest.find_root(message.larger), forest.find_root(message.smaller)
        if a != b:  # to join two documents is to join their roots, which takes one step
            forest.take(join.union(a, b))
    members: dict[bytes, list[bytes]] = {}
    for transfer in forest.links:
        root = forest.find_root(transfer.root)
        if root != transfer.root:  # a shorter path, to a parent that is smaller still
            changes.put(Family.PARENTS, transfer.members[0], root)
        members.setdefault(root, []).extend(transfer.members)
    forest.run(join.MemberTransfer(root, tuple(documents)) for root, documents in members.items())


def rejoin(
    rows: RowReader,
    changes: Changes,
    *,
    nodes: Iterable[bytes],
    listed: Iterable[tuple[bytes, bytes]],
    edges: Iterable[tuple[bytes, bytes]],
    deleted: Collection[bytes],
) -> None:
    """Dissolve components, and join the documents that remain by the edges between them.

    A union-find cannot take a union back, so whole components are rebuilt: all their `nodes`, all pairs `listed` as
    root and member, and all their `edges`.
    """
    for node in nodes:
        changes.delete(Family.PARENTS, node)
    for root, member in listed:
        changes.delete(Family.MEMBERS, root + member)
    unions = []
    for a, b in edges:
        if a in deleted or b in deleted:
            changes.delete(Family.EDGES, a + b)
        else:
            unions.append(join.union(a, b))
    join_all(rows, unions, changes)


class DisjointSets(Generic[Node]):
    """A union-find in memory; the root of each set is its smallest node."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node] = {}

    def root(self, node: Node) -> Node:
        """Return the smallest node of a node's set; a new node is a set of its own."""
        parents = self.parents
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = node = parents[parent]
        return node

    def union(self, a: Node, b: Node) -> bool:
        """Merge the sets of two nodes; return whether they were two."""
        x, y = self.root(a), self.root(b)
        if x == y:
            return False
        larger, smaller = (x, y) if x > y else (y, x)  # type: ignore[operator]  # nodes are ids or numbers
        self.parents[larger] = smaller
        return True

    def groups(self) -> dict[Node, list[Node]]:
        """Return the nodes of each set by root, both ascending."""
        groups: dict[Node, list[Node]] = {}
        for node in sorted(self.parents):  # type: ignore[type-var]  # nodes are ids or numbers
            groups.setdefault(self.root(node), []).append(node)
        return groups

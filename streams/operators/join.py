"""join: the union-find, one message at a time.

This is Rem's algorithm (Dijkstra 1976; Patwary, Blair, Manne 2010), divided into steps. Each step concerns one node,
so the owner of the node can run it alone. `union(x, y)` is sent to the larger node. If this node is a root, the
smaller node becomes its parent, and the union is done. Otherwise the step repeats with its parent and the smaller
node. A parent is always smaller than its child, so the ids decrease and the steps end. Repeating steps, or running
them in a different order, gives the same components. The root of a component is its smallest id.

A root that gets a parent transfers its members to the parent. A node that is not a root forwards the transfers that
it receives.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from state.changes import Changes
from state.families import Family
from state.model import ID_BYTES


class Union(msgspec.Struct, frozen=True):
    """Two documents to join; a message to the owner of the larger document."""

    larger: bytes
    smaller: bytes


class MemberTransfer(msgspec.Struct, frozen=True):
    """Documents that become members of `root`; a message to the owner of `root`."""

    root: bytes
    members: tuple[bytes, ...]


Message = Union | MemberTransfer
Step = tuple[Changes, Message | None]
"""The changes of one step, and the message that follows from it."""


def union(x: bytes, y: bytes) -> Union:
    """Return the message that joins two different documents."""
    assert len(x) == len(y) == ID_BYTES
    assert x != y
    return Union(max(x, y), min(x, y))


def union_step(message: Union, parent: bytes | None, members: Sequence[bytes]) -> Step:
    """Run a union at its larger node: a root (`parent` is None) with these members, or a child of `parent`."""
    node, smaller = message.larger, message.smaller
    changes = Changes()
    if parent is not None:
        assert parent < node, "a parent is smaller than its child"
        return changes, None if parent == smaller else union(parent, smaller)
    changes.put(Family.PARENTS, node, smaller)
    for member in members:
        changes.delete(Family.MEMBERS, node + member)
    return changes, MemberTransfer(smaller, (node, *members))


def transfer_step(message: MemberTransfer, parent: bytes | None) -> Step:
    """List the members under `root`, or forward them to the parent of `root` if it has one."""
    changes = Changes()
    if parent is not None:
        return changes, MemberTransfer(parent, message.members)
    for member in message.members:
        changes.put(Family.MEMBERS, message.root + member)
    return changes, None

"""join: the union-find, one message at a time.

Rem's algorithm (Dijkstra 1976; Patwary, Blair, Manne 2010) cut into steps that need one node each, so that the node's
owner can take them alone. `union(x, y)` goes to the larger of the two. If that node is a root, it points at the
smaller: done. Otherwise the step repeats with its parent and the smaller. A parent is always smaller than its child,
so the ids only fall and the steps end. Repeating a step, or taking steps in another order, gives the same components:
the root of each is its smallest id.

A root that got a parent hands its members on; a node that is no root forwards what it is handed to its parent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from state.changes import Changes
from state.families import Family
from state.model import ID_BYTES


class Union(msgspec.Struct, frozen=True):
    """Two documents of one cluster; a message to the owner of the larger."""

    larger: bytes
    smaller: bytes


class MemberTransfer(msgspec.Struct, frozen=True):
    """Documents that change hands; a message to the owner of `root`."""

    root: bytes
    members: tuple[bytes, ...]


class Step(msgspec.Struct, frozen=True):
    """What one step changes and sends."""

    changes: Changes
    unions: list[Union]
    transfers: list[MemberTransfer]


def union(x: bytes, y: bytes) -> Union:
    """The message that joins two different documents."""
    assert len(x) == len(y) == ID_BYTES
    assert x != y
    return Union(max(x, y), min(x, y))


def union_step(message: Union, parent: bytes | None, members: Sequence[bytes]) -> Step:
    """One step at the larger node: `parent` is its pointer, `members` its list while it is a root."""
    node, smaller = message.larger, message.smaller
    changes = Changes()
    if parent is None:
        changes.put(Family.PARENTS, node, smaller)
        for member in members:
            changes.delete(Family.MEMBERS, node + member)
        return Step(changes, [], [MemberTransfer(smaller, (node, *members))])
    assert parent < node, "a parent is smaller than its child"
    onward = [] if parent == smaller else [union(parent, smaller)]
    return Step(changes, onward, [])


def transfer_step(message: MemberTransfer, parent: bytes | None) -> Step:
    """Keep what is handed over, or forward it when this node is no root any more."""
    changes = Changes()
    if parent is not None:
        return Step(changes, [], [MemberTransfer(parent, message.members)])
    for member in message.members:
        changes.put(Family.MEMBERS, message.root + member)
    return Step(changes, [], [])

"""forest: batches of unions, deletions and in-memory sets give the components of brute force."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import Changes
from state.families import Family
from streams.operators.forest import DisjointSets, Forest, join_all, rejoin
from streams.operators.join import MemberTransfer, Union, union
from tests.memory import MemoryStore
from tests.streams.operators.graphs import components, ids, listed, pairs

A, B, C, D = (letter.encode() * 16 for letter in "ABCD")


def join_pairs(store: MemoryStore, joined: list[tuple[bytes, bytes]], new_documents: Collection[bytes] = ()) -> None:
    changes = Changes()
    join_all(store, [union(a, b) for a, b in joined], changes, new_documents)
    store.write(changes)


@given(pairs, st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_batches_of_unions_give_the_components(joined: list[tuple[bytes, bytes]], sizes: list[int]) -> None:
    store, remaining = MemoryStore(), list(joined)
    known: set[bytes] = set()
    while remaining:
        size = sizes[len(remaining) % len(sizes)]
        batch, remaining = remaining[:size], remaining[size:]
        nodes = {node for pair in batch for node in pair}
        join_pairs(store, batch, nodes - known)
        known |= nodes
        done = joined[: len(joined) - len(remaining)]
        assert listed(store) == components(done)


def test_a_batch_points_every_new_member_at_the_root() -> None:
    store = MemoryStore()
    join_pairs(store, [(C, D), (B, C), (A, B)])
    assert store.rows[Family.PARENTS] == {B: A, C: A, D: A}


@given(pairs, st.sets(ids, max_size=5))
def test_components_are_rebuilt_without_deleted_documents(
    joined: list[tuple[bytes, bytes]], deleted: set[bytes]
) -> None:
    store = MemoryStore()
    join_pairs(store, joined)
    edges = {(min(pair), max(pair)) for pair in joined}
    clusters = listed(store)
    changes = Changes()
    rejoin(
        store,
        changes,
        nodes=[node for members in clusters.values() for node in members],
        memberships=[(root, member) for root, members in clusters.items() for member in members - {root}],
        edges=edges,
        deleted=deleted,
    )
    store.write(changes)
    assert listed(store) == components([edge for edge in edges if deleted.isdisjoint(edge)])
    assert changes.deletes.get(Family.EDGES, set()) == {a + b for a, b in edges if not deleted.isdisjoint((a, b))}


def test_a_message_that_is_not_local_is_returned() -> None:
    forest = Forest(MemoryStore(), Changes())
    unions = [union(A, B), union(B, C)]
    outgoing = [forest.run(message, lambda message: isinstance(message, Union)) for message in unions]
    assert outgoing == [MemberTransfer(A, (B,)), MemberTransfer(B, (C,))]
    assert forest.transfers == outgoing


def test_changes_that_list_members_already_are_refused() -> None:
    changes = Changes()
    changes.put(Family.MEMBERS, A + B)
    with pytest.raises(AssertionError):
        Forest(MemoryStore(), changes)


@given(pairs)
def test_sets_in_memory_give_the_components(joined: list[tuple[bytes, bytes]]) -> None:
    sets = DisjointSets[bytes]()
    merged = sum(sets.union(a, b) for a, b in joined)
    groups = components(joined)
    assert sets.groups() == {root: sorted(members) for root, members in groups.items()}
    assert merged == sum(len(members) - 1 for members in groups.values())

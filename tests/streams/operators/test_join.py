"""join: single steps, and any unions in any order, with repeats, equal brute force."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import merge
from state.families import Family
from streams.operators.join import MemberTransfer, Step, Union, transfer_step, union, union_step
from tests.memory import MemoryStore
from tests.streams.operators.graphs import components, listed, pairs

A, B, C, D = (letter.encode() * 16 for letter in "ABCD")


def puts(step: Step, family: Family) -> dict[bytes, bytes]:
    return step.changes.family(family)


def test_a_union_goes_to_the_larger() -> None:
    assert union(A, B) == union(B, A) == Union(B, A)
    with pytest.raises(AssertionError):
        union(A, A)


def test_a_root_points_at_the_smaller_and_hands_its_members_on() -> None:
    step = union_step(union(A, C), None, [D])
    assert puts(step, Family.PARENTS) == {C: A}
    assert step.changes.deletes[Family.MEMBERS] == {C + D}
    assert step.transfers == [MemberTransfer(A, (C, D))]
    assert step.unions == []


@pytest.mark.parametrize(
    ("parent", "smaller", "onward"),
    [(B, A, [Union(B, A)]), (A, B, [Union(B, A)]), (A, A, [])],
)
def test_a_node_that_is_no_root_goes_on_with_its_parent(parent: bytes, smaller: bytes, onward: list[Union]) -> None:
    step = union_step(union(smaller, D), parent, [])
    assert (step.unions, step.transfers, len(step.changes)) == (onward, [], 0)


def test_a_root_keeps_what_it_is_handed_and_another_node_forwards_it() -> None:
    kept = transfer_step(MemberTransfer(A, (C, D)), None)
    assert puts(kept, Family.MEMBERS) == {A + C: b"", A + D: b""}
    assert kept.transfers == []
    forwarded = transfer_step(MemberTransfer(B, (C, D)), A)
    assert (len(forwarded.changes), forwarded.transfers) == (0, [MemberTransfer(A, (C, D))])


@given(pairs, st.integers(0, 2**32))
def test_messages_in_any_order_and_with_repeats_give_the_components(
    joined: list[tuple[bytes, bytes]], seed: int
) -> None:
    rng = random.Random(seed)
    store = MemoryStore()
    queue: list[Union | MemberTransfer] = [union(a, b) for a, b in joined]
    while queue:
        message = queue.pop(rng.randrange(len(queue)))
        if rng.random() < 0.1:
            queue.append(message)
        before = dict(store.rows[Family.PARENTS])
        if isinstance(message, Union):
            members = [key[16:] for key, _ in store.scan(Family.MEMBERS, message.larger)]
            step = union_step(message, store.get(Family.PARENTS, message.larger), members)
        else:
            step = transfer_step(message, store.get(Family.PARENTS, message.root))
        store.merge(step.changes)
        queue += [*step.unions, *step.transfers]
        for node, parent in store.rows[Family.PARENTS].items():
            assert parent < node
            assert parent <= before.get(node, parent), "pointers only decrease"
            assert merge(Family.PARENTS, before.get(node), parent) == parent
    assert listed(store) == components(joined)

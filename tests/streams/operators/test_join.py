"""join: single steps; unions in any order and with repeats give the components of brute force."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import merge
from state.families import Family
from streams.operators.join import MemberTransfer, Union, transfer_step, union, union_step
from tests.memory import MemoryStore
from tests.streams.operators.graphs import components, listed, pairs

A, B, C, D = (letter.encode() * 16 for letter in "ABCD")


def test_a_union_is_sent_to_the_larger_document() -> None:
    assert union(A, B) == union(B, A) == Union(B, A)
    with pytest.raises(AssertionError):
        union(A, A)


def test_a_root_gets_a_parent_and_transfers_its_members() -> None:
    changes, following = union_step(union(A, C), None, [D])
    assert changes.puts_of(Family.PARENTS) == {C: A}
    assert changes.deletes[Family.MEMBERS] == {C + D}
    assert following == MemberTransfer(A, (C, D))


@pytest.mark.parametrize(
    ("parent", "smaller", "expected"),
    [(B, A, Union(B, A)), (A, B, Union(B, A)), (A, A, None)],
)
def test_the_union_of_another_node_continues_with_its_parent(
    parent: bytes, smaller: bytes, expected: Union | None
) -> None:
    changes, following = union_step(union(smaller, D), parent, [])
    assert following == expected
    assert len(changes) == 0


def test_a_root_lists_transferred_members_and_another_node_forwards_them() -> None:
    changes, following = transfer_step(MemberTransfer(A, (C, D)), None)
    assert changes.puts_of(Family.MEMBERS) == {A + C: b"", A + D: b""}
    assert following is None
    changes, following = transfer_step(MemberTransfer(B, (C, D)), A)
    assert following == MemberTransfer(A, (C, D))
    assert len(changes) == 0


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
            changes, following = union_step(message, store.get(Family.PARENTS, message.larger), members)
        else:
            changes, following = transfer_step(message, store.get(Family.PARENTS, message.root))
        store.merge(changes)
        queue += [following] if following is not None else []
        for node, parent in store.rows[Family.PARENTS].items():
            assert parent < node
            assert parent <= before.get(node, parent), "pointers only decrease"
            assert merge(Family.PARENTS, before.get(node), parent) == parent
    assert listed(store) == components(joined)

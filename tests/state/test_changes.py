"""Changes of a batch, and facts that merge in any order and any number of times."""

from __future__ import annotations

from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import Changes, merge
from state.codecs import posting_list
from state.families import Family
from tests.memory import MemoryStore

KEYS = [b"a", b"b", b"c"]
operations = st.lists(st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from(KEYS), st.binary(max_size=2)))


def apply(changes: Changes, todo: list[tuple[str, bytes, bytes]]) -> Changes:
    for kind, key, value in todo:
        if kind == "put":
            changes.put(Family.META, key, value)
        else:
            changes.delete(Family.META, key)
    return changes


def result(todo: list[tuple[str, bytes, bytes]]) -> dict[bytes, bytes]:
    rows_left = dict.fromkeys(KEYS, b"before")
    for kind, key, value in todo:
        if kind == "put":
            rows_left[key] = value
        else:
            rows_left.pop(key, None)
    return rows_left


def written(*changes: Changes) -> dict[bytes, bytes]:
    store = MemoryStore()
    store.write(apply(Changes(), [("put", key, b"before") for key in KEYS]))
    for change in changes:
        store.write(change)
    return dict(store.scan(Family.META))


@given(operations)
def test_the_last_change_of_a_key_applies(todo: list[tuple[str, bytes, bytes]]) -> None:
    changes = apply(Changes(), todo)
    assert written(changes) == result(todo)
    assert len(changes) == len({key for _, key, _ in todo})


@given(operations, operations)
def test_later_changes_apply(first: list[tuple[str, bytes, bytes]], later: list[tuple[str, bytes, bytes]]) -> None:
    changes = apply(Changes(), first)
    changes.update(apply(Changes(), later))
    assert written(changes) == result([*first, *later])


values = {
    Family.BANDS: st.lists(st.binary(min_size=5, max_size=5), max_size=6).map(posting_list.encode),
    Family.PARENTS: st.binary(min_size=16, max_size=16),
    Family.LOCATIONS: st.binary(min_size=8, max_size=8),
    Family.MEMBERS: st.just(b""),
}


@pytest.mark.parametrize("family", list(Family))
@given(data=st.data())
def test_merging_is_commutative_and_idempotent(family: Family, data: st.DataObject) -> None:
    facts = data.draw(st.lists(values.get(family, st.binary(max_size=8)), min_size=1, max_size=4))
    merged = {
        reduce(lambda rows_left, fact: merge(family, rows_left, fact), order, None)
        for order in permutations([*facts, facts[0]])
    }
    assert len(merged) == 1
    (rows_left,) = merged
    assert rows_left is not None
    assert merge(family, rows_left, rows_left) == rows_left
    for a, b, c in permutations([*facts, rows_left, facts[-1]][:3]) if len(facts) > 1 else ():
        assert merge(family, merge(family, a, b), c) == merge(family, a, merge(family, b, c))


def test_merging_applies_the_rule_of_the_family() -> None:
    assert merge(Family.PARENTS, b"b", b"a") == b"a"
    assert merge(Family.LOCATIONS, b"\0\2", b"\0\1") == b"\0\1"
    assert merge(Family.BANDS, b"aaaaa", b"bbbbb") == b"aaaaabbbbb"
    assert merge(Family.PARENTS, None, b"x") == b"x"

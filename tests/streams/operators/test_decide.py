"""decide: the latest decision about each URL remains, in any order and however often a decision arrives."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from state.families import Family
from state.model import Decision, DecisionKind
from streams.operators.decide import decide, row_keys
from streams.urls import url_key
from tests.memory import MemoryStore


def decision(page: str, kind: DecisionKind, time: int) -> Decision:
    old_url = f"https://a.org/{page}"
    new_url = f"https://a.org/new/{page}" if kind is DecisionKind.MOVED else None
    return Decision(key=url_key(old_url), kind=kind, time=time, old_url=old_url, new_url=new_url)


some_decisions = st.lists(
    st.builds(decision, st.sampled_from("xyz"), st.sampled_from(DecisionKind), st.integers(1, 4)), max_size=12
)


def stored_after(batches: list[list[Decision]]) -> dict[bytes, bytes]:
    """Return the rows after some batches, written as puts that overwrite."""
    store = MemoryStore()
    for batch in batches:
        keys = row_keys(batch)
        values = zip(keys, store.get_many(Family.DECISIONS, keys), strict=True)
        store.write(decide(batch, {key: value for key, value in values if value is not None}))
    return store.rows[Family.DECISIONS]


@given(some_decisions, st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(decisions: list[Decision], rng: Random) -> None:
    shuffled = [*decisions, *decisions[:3]]
    rng.shuffle(shuffled)
    one_by_one = [[decision] for decision in shuffled]
    assert stored_after([decisions]) == stored_after(one_by_one) == stored_after([shuffled])


def test_a_decision_that_changes_nothing_is_not_written() -> None:
    later, earlier = (decision("x", DecisionKind.GONE, time) for time in (2, 1))
    stored = stored_after([[later]])
    assert len(decide([later, earlier], stored)) == 0
    assert len(decide([decision("x", DecisionKind.REMOVED, 3)], stored)) == 1

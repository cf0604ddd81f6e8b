"""A decision's row decodes to the decision, and of two values the later decision is the greater one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import merge
from state.codecs import decision_row
from state.families import Family
from state.model import Decision, DecisionKind
from tests.state.codecs.strategies import assert_refuses_damage, keys, strings, times

new_urls = strings.filter(bool)
decisions = st.one_of(
    st.builds(Decision, key=keys, kind=st.just(DecisionKind.MOVED), time=times, old_url=strings, new_url=new_urls),
    st.builds(
        Decision,
        key=keys,
        kind=st.sampled_from([DecisionKind.GONE, DecisionKind.REMOVED]),
        time=times,
        old_url=strings,
        new_url=st.none(),
    ),
)


@given(decisions)
def test_a_row_decodes_to_its_decision(decision: Decision) -> None:
    row_key = decision_row.encode_key(decision.key)
    assert decision_row.decode(row_key, decision_row.encode(decision)) == decision


@given(decisions)
def test_a_damaged_row_is_refused(decision: Decision) -> None:
    row_key, value = decision_row.encode_key(decision.key), decision_row.encode(decision)
    assert_refuses_damage(lambda damaged: decision_row.decode(row_key, damaged), value)
    for damaged_key in (row_key[:-1], row_key + b"\0", b"\0", b""):
        with pytest.raises(ValueError, match="invalid row key of a decision"):
            decision_row.decode(damaged_key, value)


@pytest.mark.parametrize(("kind", "new_url"), [(9, b""), (2, b"https://a.org/"), (1, b"")])
def test_an_impossible_kind_is_refused(kind: int, new_url: bytes) -> None:
    value = bytes((1, *bytes(8), kind, 0, 0, 0, len(new_url))) + new_url
    with pytest.raises(ValueError, match="invalid decision: kind"):
        decision_row.decode(b"org,a)/\0", value)


@given(decisions, decisions)
def test_the_later_of_two_decisions_remains(one: Decision, other: Decision) -> None:
    values = [decision_row.encode(decision) for decision in (one, other)]
    merged = merge(Family.DECISIONS, *values)
    assert merged == merge(Family.DECISIONS, *reversed(values))
    assert decision_row.decode(b"org,a)/\0", merged).time == max(one.time, other.time)

"""A posting list is a sorted set of prefixes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import posting_list

prefixes = st.lists(st.binary(min_size=5, max_size=5), max_size=20)


@given(prefixes, prefixes)
def test_a_list_decodes_sorted_and_unites_with_another(one: list[bytes], other: list[bytes]) -> None:
    assert posting_list.decode(posting_list.encode(one)) == sorted(set(one))
    union = posting_list.union(posting_list.encode(one), posting_list.encode(other))
    assert posting_list.decode(union) == sorted({*one, *other})


@given(prefixes.filter(bool), st.integers(1, 4))
def test_a_cut_prefix_is_refused(postings: list[bytes], cut: int) -> None:
    with pytest.raises(ValueError, match="truncated"):
        posting_list.decode(posting_list.encode(postings)[:-cut])


def test_a_prefix_of_another_length_is_not_encoded() -> None:
    with pytest.raises(AssertionError):
        posting_list.encode([b"four"])

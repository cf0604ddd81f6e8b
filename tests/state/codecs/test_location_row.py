"""A location's value is a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import location_row
from tests.state.codecs.strategies import times


@given(times)
def test_a_value_decodes_to_its_time(time: int) -> None:
    assert location_row.decode(location_row.encode(time)) == time


@given(st.binary(max_size=20).filter(lambda value: len(value) != 8))
def test_a_value_of_another_length_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="location"):
        location_row.decode(value)

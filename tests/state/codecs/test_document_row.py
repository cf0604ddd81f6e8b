"""A document's row decodes to its sketch and first-seen time."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import document_row
from state.model import DocumentRow, Sketch
from tests.state.codecs.strategies import assert_refuses_damage, ids, times

samples = st.lists(st.integers(0, 2**32 - 1), max_size=64, unique=True).map(sorted)
sketches = st.builds(
    Sketch,
    document=ids,
    signature=st.binary(max_size=120).map(lambda bins: np.frombuffer(bins, np.uint8)),
    sample=samples.map(lambda values: np.array(values, np.uint32)),
    exponent=st.integers(0, 32),
    shingles=st.integers(0, 2**32 - 1),
    tokens=st.integers(0, 2**32 - 1),
)
rows = st.builds(DocumentRow, sketches, times)


@given(rows)
def test_a_value_decodes_to_its_row(row: DocumentRow) -> None:
    value = document_row.encode(row)
    decoded = document_row.decode(row.sketch.document, value)
    for name, field in msgspec.structs.asdict(row.sketch).items():
        assert np.array_equal(getattr(decoded.sketch, name), field), name
    assert decoded.first_seen == row.first_seen
    assert document_row.first_seen(value) == row.first_seen
    assert document_row.tokens(value) == row.sketch.tokens


@given(rows, times)
def test_the_first_seen_time_can_be_replaced_in_place(row: DocumentRow, time: int) -> None:
    replaced = document_row.with_first_seen(document_row.encode(row), time)
    assert replaced == document_row.encode(msgspec.structs.replace(row, first_seen=time))


@given(rows, times)
def test_the_earlier_of_two_rows_of_a_document_sorts_first(row: DocumentRow, time: int) -> None:
    value = document_row.encode(row)
    assert document_row.first_seen(min(value, document_row.with_first_seen(value, time))) == min(row.first_seen, time)


@given(rows)
def test_a_damaged_row_is_refused(row: DocumentRow) -> None:
    value = document_row.encode(row)
    assert_refuses_damage(lambda data: document_row.decode(row.sketch.document, data), value)
    with pytest.raises(ValueError, match="expected 16"):
        document_row.decode(b"short", value)


def test_a_sample_of_another_type_is_not_encoded() -> None:
    sketch = Sketch(
        document=bytes(16),
        signature=np.zeros(4, np.uint8),
        sample=np.zeros(4, np.int64),
        exponent=0,
        shingles=4,
        tokens=4,
    )
    with pytest.raises(AssertionError):
        document_row.encode(DocumentRow(sketch, 1))

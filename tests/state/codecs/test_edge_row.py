"""A pair is stored once, under its smaller id."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import edge_row
from state.model import Edge
from tests.state.codecs.strategies import assert_refuses_damage, ids, shares


def edge(a: bytes, b: bytes, resemblance: float, containment: float, contained: float) -> Edge:
    return Edge(a=a, b=b, resemblance=resemblance, containment=containment, contained=contained)


pairs = st.lists(ids, min_size=2, max_size=2, unique=True).map(sorted)


@given(pairs, shares, shares, shares)
def test_a_row_decodes_to_its_pair(
    pair: list[bytes], resemblance: float, containment: float, contained: float
) -> None:
    smaller, larger = pair
    decoded = edge_row.decode(*edge_row.encode(edge(smaller, larger, resemblance, containment, contained)))
    assert decoded.a == smaller
    assert decoded.b == larger
    assert decoded.resemblance == pytest.approx(resemblance, abs=1e-5)
    assert decoded.containment == pytest.approx(containment, abs=1e-5)
    assert decoded.contained == pytest.approx(contained, abs=1e-5)


@given(pairs, shares, shares, shares)
def test_both_orders_of_a_pair_encode_alike(
    pair: list[bytes], resemblance: float, containment: float, contained: float
) -> None:
    smaller, larger = pair
    ordered = edge_row.encode(edge(smaller, larger, resemblance, containment, contained))
    assert edge_row.encode(edge(larger, smaller, resemblance, contained, containment)) == ordered


@given(st.lists(ids, min_size=2, max_size=6, unique=True).map(sorted), st.data())
def test_pairs_encoded_as_columns_equal_pairs_encoded_singly(documents: list[bytes], data: st.DataObject) -> None:
    numbers = st.integers(0, len(documents) - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers).filter(lambda p: p[0] < p[1]), min_size=1, unique=True))
    figures = np.array(
        data.draw(st.lists(st.tuples(shares, shares, shares), min_size=len(pairs), max_size=len(pairs)))
    )
    smaller, larger = np.array(pairs).T
    encoded = edge_row.encode_many(documents, smaller, larger, *figures.T)
    singly = [
        edge_row.encode(edge(documents[a], documents[b], *map(float, figure)))
        for (a, b), figure in zip(pairs, figures, strict=True)
    ]
    assert encoded == dict(singly)


@given(pairs, shares)
def test_a_damaged_row_is_refused(pair: list[bytes], share: float) -> None:
    key, value = edge_row.encode(edge(pair[0], pair[1], share, share, share))
    assert_refuses_damage(lambda data: edge_row.decode(key, data), value)
    with pytest.raises(ValueError, match="expected 32"):
        edge_row.decode(key[:-1], value)


def test_a_share_above_one_is_not_encoded() -> None:
    with pytest.raises(AssertionError):
        edge_row.encode(edge(bytes(16), b"1" * 16, 1.1, 1.0, 1.0))

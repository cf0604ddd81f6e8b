"""A list of links decodes to the ids of its chunks, and damaged lists are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import link_list
from state.errors import StateCorrupt
from tests.state.codecs.strategies import keys

chunk_ids = st.binary(min_size=8, max_size=8)
chunk_id_lists = st.lists(chunk_ids, max_size=6)


@given(keys, chunk_id_lists)
def test_a_row_decodes_to_its_chunks(key: bytes, ids: list[bytes]) -> None:
    list_id = link_list.compute_list_id(ids)
    row_key = link_list.encode_key(key, list_id)
    assert row_key.startswith(link_list.encode_prefix(key))
    assert link_list.decode_key(row_key) == (key, list_id)
    assert link_list.decode(link_list.encode(ids)) == ids


@given(chunk_id_lists, chunk_id_lists)
def test_the_id_depends_on_the_chunks_and_their_order(one: list[bytes], other: list[bytes]) -> None:
    assert (link_list.compute_list_id(one) == link_list.compute_list_id(other)) == (one == other)


@given(keys, chunk_id_lists)
def test_a_damaged_row_is_refused(key: bytes, ids: list[bytes]) -> None:
    value, row_key = link_list.encode(ids), link_list.encode_key(key, link_list.compute_list_id(ids))
    for damaged in (b"", value + b"x", value[:-1], bytes((value[0] + 1,)) + value[1:]):
        with pytest.raises(StateCorrupt, match=r"invalid link list \(expected version 1\)"):
            link_list.decode(damaged)
    for damaged_key in (b"", b"\0", row_key[: len(key)], b"\0" + bytes(8)):
        with pytest.raises(StateCorrupt, match="invalid row key"):
            link_list.decode_key(damaged_key)

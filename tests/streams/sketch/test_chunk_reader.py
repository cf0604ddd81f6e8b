"""The compiled reader finds the same targets in chunks as the codec, and refuses the same chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import link_chunk
from state.errors import StateCorrupt
from state.model import Link
from streams.sketch.chunk_reader import target_keys

links = st.builds(
    Link,
    target=st.builds(lambda letter, count: b"org,a)/" + letter * count, st.sampled_from([b"x", b"y"]), st.integers(0, 700)),
    anchor=st.text(max_size=200),
)  # fmt: skip
chunks = st.lists(st.lists(links, min_size=1, max_size=5).map(link_chunk.encode), max_size=5)


@given(chunks)
def test_the_targets_are_those_of_the_codec(values: list[bytes]) -> None:
    by_id = {link_chunk.compute_chunk_id(value): value for value in values}
    expected = [link_chunk.target_keys(value, chunk_id) for chunk_id, value in by_id.items()]
    assert set(target_keys(by_id)) == set().union(*expected)


@pytest.mark.parametrize(
    "damaged", [b"", b"\x07", b"\x01\x00", b"\x01\x00\x01\x01x", b"\x01\x80\x00\x01x", b"\x01\x40\x00\x01x\x05"]
)
def test_damaged_chunks_are_refused(damaged: bytes) -> None:
    sound = link_chunk.encode([Link(target=b"org,a)/x")])
    with pytest.raises(StateCorrupt, match="invalid link chunk"):
        target_keys({b"a" * 8: sound, b"b" * 8: damaged})

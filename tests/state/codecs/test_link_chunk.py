"""A chunk of links decodes to its links, and its keys lead from pages and targets to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import link_chunk
from state.errors import StateCorrupt
from state.model import Link, LinkKind
from tests.state.codecs.strategies import keys, strings

link_strategy = st.builds(
    Link,
    target=keys | st.binary(min_size=120, max_size=300),
    https=st.booleans(),
    kind=st.sampled_from(LinkKind),
    anchor=strings.map(lambda text: text.encode("utf-8", "replace").decode())
    | st.text("ab", min_size=120, max_size=300),
    nofollow=st.booleans(),
    navigation=st.booleans(),
)
link_lists = st.lists(link_strategy, max_size=8)


@given(link_lists)
def test_a_chunk_decodes_to_its_links(links: list[Link]) -> None:
    assert link_chunk.decode(link_chunk.encode(links)) == links


@given(link_lists)
def test_a_damaged_chunk_is_refused_or_has_fewer_links(links: list[Link]) -> None:
    value = link_chunk.encode(links)
    for end in range(1, len(value)):
        try:
            rest = link_chunk.decode(value[:end])
        except StateCorrupt:
            continue
        assert rest == links[: len(rest)]  # cut between two links, which the chunk's id shows
    for damaged in (b"", bytes((value[0] + 1,)) + value[1:]):
        with pytest.raises(StateCorrupt, match="version 1"):
            link_chunk.decode(damaged)


@pytest.mark.parametrize(
    "value",
    [
        b"\1\0",  # no lengths
        b"\1\0\1\0",  # shares a byte with no previous target
        b"\1\0\0\2a",  # the target is cut
        b"\1\x40\0\1a\2b",  # the anchor is cut
        b"\1\x40\0\1a\1\xff",  # the anchor is not UTF-8
        b"\1\7\0\1a",  # no such kind
        b"\1\x80\0\1a",  # no such flag
        b"\1\0\xff\xff\xff\xff\xff\1",  # a number without an end
        b"\1\0\0\xff\xff\xff\x7f",  # a length beyond the value
    ],
)
def test_impossible_values_are_refused(value: bytes) -> None:
    with pytest.raises(StateCorrupt, match="invalid link chunk"):
        link_chunk.decode(value)


@given(link_lists)
def test_every_target_has_an_entry(links: list[Link]) -> None:
    value = link_chunk.encode(links)
    id_ = link_chunk.compute_chunk_id(value)
    assert link_chunk.target_keys(value, id_) == {link_chunk.target_key(link.target, id_) for link in links}
    assert all(key.endswith(id_[: link_chunk.CHUNK_PREFIX_BYTES]) for key in link_chunk.target_keys(value, id_))


def test_neighbouring_targets_share_their_beginning() -> None:
    one = [Link(target=b"org,a)/a/long/folder/a")]
    two = [*one, Link(target=b"org,a)/a/long/folder/b")]
    assert len(link_chunk.encode(two)) - len(link_chunk.encode(one)) == 4  # flags, two lengths, and `b`

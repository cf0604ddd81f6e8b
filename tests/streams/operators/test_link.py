"""link: the rows of links are the same for any batches, order and repetition, and unchanged links are not written."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import link_chunk, link_list
from state.families import Family
from state.model import Capture, Link
from streams.operators.link import LinkResult, link, must_write_links
from streams.operators.lookups import read_stored_chunks
from streams.operators.messages import SketchedPage
from streams.sketch.links import LinkPayload
from tests.memory import MemoryStore

FAMILIES = (Family.LINK_LISTS, Family.LINK_CHUNKS, Family.LINK_TARGETS)
CHUNKS = [link_chunk.encode([Link(target=b"org,a)/%d" % i), Link(target=b"org,b)/%d" % i)]) for i in range(4)]


def page(name: str, *chunks: bytes, dropped: int = 0) -> SketchedPage:
    list_id = link_list.compute_list_id([link_chunk.compute_chunk_id(chunk) for chunk in chunks])
    capture = Capture(
        key=b"org,a)/" + name.encode(), url=f"https://a.org/{name}", sweep=1, time=1, status=200, document=None,
        raw_fingerprint=b"", links=list_id,
    )  # fmt: skip
    return SketchedPage(capture=capture, links=LinkPayload(list(chunks), dropped))


def write(store: MemoryStore, pages: list[SketchedPage]) -> LinkResult:
    result = link(pages, {}, read_stored_chunks(store, pages, {}))
    store.write(result.changes)
    return result


some_pages = st.lists(
    st.builds(lambda name, chunks: page(name, *chunks), st.sampled_from("xyz"), st.lists(st.sampled_from(CHUNKS), max_size=3)),
    max_size=10,
)  # fmt: skip


@given(some_pages, st.randoms(use_true_random=False))
def test_batches_order_and_repetition_do_not_matter(pages: list[SketchedPage], rng: Random) -> None:
    together, apart = MemoryStore(), MemoryStore()
    write(together, pages)
    shuffled = [*pages, *pages[:3]]
    rng.shuffle(shuffled)
    for one in shuffled:
        write(apart, [one])
    assert all(together.rows[family] == apart.rows[family] for family in FAMILIES)


def test_a_chunk_is_stored_once_and_names_all_its_pages() -> None:
    store = MemoryStore()
    write(store, [page("x", CHUNKS[0], CHUNKS[1])])
    before = dict(store.rows[Family.LINK_TARGETS])
    write(store, [page("y", CHUNKS[0])])
    id_ = link_chunk.compute_chunk_id(CHUNKS[0])
    assert store.rows[Family.LINK_TARGETS] == before
    assert len(before) == 4
    assert store.keys(Family.LINK_CHUNKS, id_, 9) == [id_, id_ + b"org,a)/x", id_ + b"org,a)/y"]
    assert store.rows[Family.LINK_CHUNKS][id_] == CHUNKS[0]


@pytest.mark.parametrize(("last_chunks", "is_written"), [((CHUNKS[0],), False), ((CHUNKS[1],), True), ((), True)])
def test_links_are_written_only_if_they_changed(last_chunks: tuple[bytes, ...], *, is_written: bool) -> None:
    current = page("x", CHUNKS[0], dropped=2)
    last = {current.capture.key: page("x", *last_chunks).capture}
    assert must_write_links(current, last) is is_written
    result = link([current], last, set())
    assert (len(result.changes) > 0) is is_written
    assert result.links_dropped == (2 if is_written else 0)


def test_a_page_without_links_is_not_written() -> None:
    bare = msgspec.structs.replace(page("x"), links=None)
    assert not must_write_links(bare, {})
    assert len(link([bare], {}, set()).changes) == 0

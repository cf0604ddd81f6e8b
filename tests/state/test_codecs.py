"""Each codec gives back what it was given, and refuses what it did not write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import capture_row, document_row, edge_row, location_row, posting_list, text_row
from state.model import Capture, DocumentRow, Edge, Sketch
from streams.urls import url_key

ids = st.binary(min_size=16, max_size=16)
times = st.integers(0, 253_402_300_799_999)
shares = st.floats(0, 1)
# Whatever a crawler may write, lone surrogates included.
strings = st.text(st.characters(exclude_categories=()), max_size=60)
keys = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40).map(str.encode)

captures = st.builds(
    Capture,
    key=keys,
    url=st.one_of(strings, keys.map(lambda key: f"https://a.org/{key.decode()}")),
    sweep=st.integers(0, 2**32 - 1),
    time=times,
    status=st.integers(0, 999),
    document=st.none() | ids,
    raw=st.just(b"") | st.binary(min_size=8, max_size=8),
    redirect=st.none() | strings,
    extractor=st.integers(0, 255),
    tie=st.integers(0, capture_row.TIE_MAX),
)


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    sample = draw(st.lists(st.integers(0, 2**32 - 1), max_size=64, unique=True).map(sorted))
    return Sketch(
        draw(ids),
        np.frombuffer(draw(st.binary(max_size=120)), np.uint8),
        np.array(sample, np.uint32),
        draw(st.integers(0, 32)),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(0, 2**32 - 1)),
    )


rows = st.builds(DocumentRow, sketches(), times)


@given(captures)
def test_capture(held: Capture) -> None:
    assert capture_row.decode(capture_row.row_key(held), capture_row.encode(held)) == held


@given(captures)
def test_capture_refuses_what_is_cut_or_newer(held: Capture) -> None:
    row, value = capture_row.row_key(held), capture_row.encode(held)
    refuses_damage(lambda data: capture_row.decode(row, data), value)
    for cut in range(1, len(row)):
        with pytest.raises(ValueError, match="not a capture key"):
            capture_row.decode_key(row[:-cut])
    with pytest.raises(ValueError, match="not a capture key"):
        capture_row.decode_key(row + b"\0")


@given(captures, captures)
def test_captures_of_a_url_are_in_order_of_sweep_and_time(one: Capture, other: Capture) -> None:
    other = msgspec.structs.replace(other, key=one.key)
    by_row = capture_row.row_key(one) < capture_row.row_key(other)
    assert by_row == ((one.sweep, one.time, one.tie) < (other.sweep, other.time, other.tie))


@given(captures)
def test_ties_are_from_what_the_crawler_said(held: Capture) -> None:
    tie = capture_row.tie(held)
    assert 0 < tie <= capture_row.TIE_MAX
    assert (tie >= 0x8000) == (200 <= held.status < 300)
    assert tie == capture_row.tie(msgspec.structs.replace(held, document=b"d" * 16, extractor=1, sweep=9, time=1))


@pytest.mark.parametrize(
    "url",
    [
        "https://flink.apache.org/2019/05/x.html?q=1",
        "http://flink.apache.org:8080/",
        "https://192.0.2.7/a",
        "http://[2001:db8::1]:81/a?b#c",
        "https://xn--bcher-kva.example/%C3%A9",
    ],
)
def test_a_url_that_its_key_gives_back_is_not_kept_twice(url: str) -> None:
    held = Capture(url_key(url), url, 1, 2, 200, None, b"")
    value = capture_row.encode(held)
    assert (len(value) == 5) == ("#" not in url)
    assert capture_row.decode(capture_row.row_key(held), value).url == url


@given(rows)
def test_document(row: DocumentRow) -> None:
    value = document_row.encode(row)
    back = document_row.decode(row.sketch.document, value)
    assert msgspec.structs.asdict(back.sketch).keys() == msgspec.structs.asdict(row.sketch).keys()
    for name, given_value in msgspec.structs.asdict(row.sketch).items():
        assert np.array_equal(getattr(back.sketch, name), given_value), name
    assert back.first_seen == document_row.first_seen(value) == row.first_seen


@given(rows, times)
def test_document_seen_at_another_time(row: DocumentRow, time: int) -> None:
    moved = document_row.seen_at(document_row.encode(row), time)
    assert moved == document_row.encode(msgspec.structs.replace(row, first_seen=time))


@given(rows, times)
def test_the_earlier_of_two_rows_of_a_document_sorts_first(row: DocumentRow, time: int) -> None:
    value = document_row.encode(row)
    assert document_row.first_seen(min(value, document_row.seen_at(value, time))) == min(row.first_seen, time)


@given(rows)
def test_document_refuses_what_is_cut_or_newer(row: DocumentRow) -> None:
    refuses_damage(lambda data: document_row.decode(row.sketch.document, data), document_row.encode(row))
    with pytest.raises(ValueError, match="16 bytes"):
        document_row.decode(b"short", document_row.encode(row))


@given(ids, ids, shares, shares, shares)
def test_edge(a: bytes, b: bytes, resemblance: float, containment: float, contained: float) -> None:
    pair = Edge(a, b, resemblance, containment, contained)
    key, value = edge_row.encode(pair)
    back = edge_row.decode(key, value)
    assert (back.a, back.b) == (min(a, b), max(a, b))
    if b < a:
        back = Edge(back.b, back.a, back.resemblance, back.contained, back.containment)
    assert msgspec.structs.astuple(back)[2:] == pytest.approx((resemblance, containment, contained), abs=1e-5)
    if a != b:
        assert edge_row.encode(Edge(b, a, resemblance, contained, containment)) == (key, value)


@given(st.lists(ids, min_size=2, max_size=6, unique=True).map(sorted), st.data())
def test_edges_packed_as_columns_are_edges(known: list[bytes], data: st.DataObject) -> None:
    places = st.integers(0, len(known) - 1)
    pairs = data.draw(st.lists(st.tuples(places, places).filter(lambda p: p[0] < p[1]), min_size=1, unique=True))
    figures = np.array(
        data.draw(st.lists(st.tuples(shares, shares, shares), min_size=len(pairs), max_size=len(pairs)))
    )
    smaller, larger = np.array(pairs).T
    packed = edge_row.encode_many(known, smaller, larger, *figures.T)
    single = [
        edge_row.encode(Edge(known[a], known[b], *map(float, f))) for (a, b), f in zip(pairs, figures, strict=True)
    ]
    assert packed == dict(single)


@given(ids, ids, shares)
def test_edge_refuses_what_is_cut_or_newer(a: bytes, b: bytes, share: float) -> None:
    key, value = edge_row.encode(Edge(a, b, share, share, share))
    refuses_damage(lambda data: edge_row.decode(key, data), value)
    with pytest.raises(ValueError, match="32 bytes"):
        edge_row.decode(key[:-1], value)


prefixes = st.lists(st.binary(min_size=5, max_size=5), max_size=20)


@given(prefixes, prefixes)
def test_postings(held: list[bytes], more: list[bytes]) -> None:
    assert posting_list.decode(posting_list.encode(held)) == sorted(set(held))
    union = posting_list.union(posting_list.encode(held), posting_list.encode(more))
    assert posting_list.decode(union) == sorted({*held, *more})


@given(prefixes.filter(bool), st.integers(1, 4))
def test_postings_refuse_a_cut_prefix(held: list[bytes], cut: int) -> None:
    with pytest.raises(ValueError, match="cut short"):
        posting_list.decode(posting_list.encode(held)[:-cut])


@given(strings, strings)
def test_text(title: str, body: str) -> None:
    codec = text_row.TextCodec({})
    row = codec.encode(title, body)
    kept = [part.encode("utf-8", "replace").decode() for part in (title.replace("\n", " "), body)]
    assert list(codec.decode(row)) == kept
    assert codec.title(row) == kept[0]


@given(strings.filter(bool))
def test_text_refuses_what_is_cut_or_newer(body: str) -> None:
    codec = text_row.TextCodec({})
    refuses_damage(codec.decode, codec.encode("title", body))


def test_texts_are_read_with_the_dictionary_they_were_written_with() -> None:
    pages = [f"page {n} of a manual that says the same of each thing {n * 7919 % 1000} " * 60 for n in range(400)]
    first = text_row.train(pages)
    assert first
    before, after = text_row.TextCodec({}), text_row.TextCodec({1: first})
    plain, packed = before.encode("t", pages[0]), after.encode("t", pages[0])
    assert after.decode(plain) == after.decode(packed) == ("t", pages[0])
    frame = zstandard.ZstdCompressor(dict_data=zstandard.ZstdCompressionDict(first)).compress(
        b"t\n" + pages[0].encode()
    )
    for head in (b"\1\1", b"\2\0\0\0\0\1"):  # as versions 1 and 2 had it
        assert after.decode(head + frame) == ("t", pages[0])
        assert after.title(head + frame) == "t"
    with pytest.raises(ValueError, match="dictionary 1, which this state does not hold"):
        before.decode(packed)


def test_which_of_two_texts_sorts_first_does_not_hang_on_the_dictionary() -> None:
    trained = text_row.train([f"page {n} of a manual that says {n * 7919 % 1000} " * 90 for n in range(400)])
    assert trained
    plain, packing = text_row.TextCodec({}), text_row.TextCodec({1: trained})
    orders = {
        one.encode("t", "A text.") < other.encode("t", "a text")
        for one in (plain, packing)
        for other in (plain, packing)
    }
    assert len(orders) == 1


def test_a_dictionary_is_not_learned_from_too_little() -> None:
    assert text_row.train([]) is None
    assert text_row.train(["short"] * 1_000) is None


def refuses_damage(decode: Callable[[bytes], object], value: bytes) -> None:
    """Cut anywhere, longer, or of another version: a ValueError, not another value."""
    for end in range(len(value)):
        with pytest.raises(ValueError, match=r"cut short|version|unfold|codec can't|has"):
            decode(value[:end])
    with pytest.raises(ValueError, match=r"version [1-4]"):
        decode(bytes((value[0] + 1,)) + value[1:])


@given(times)
def test_a_location_comes_back(seen: int) -> None:
    assert location_row.decode(location_row.encode(seen)) == seen


@given(st.binary(max_size=20).filter(lambda value: len(value) != 8))
def test_a_location_of_another_length_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="location"):
        location_row.decode(value)

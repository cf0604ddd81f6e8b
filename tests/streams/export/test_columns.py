"""The compiled decoders agree with the codecs of the state, and refuse what the codecs refuse."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import capture_row, document_row, link_chunk, link_list
from state.errors import StateCorrupt
from state.model import Capture, DocumentRow, Link
from state.row_blocks import RowBlock, read_blocks
from state.rows import Row
from streams.export import capture_columns, document_columns, hashes, link_columns
from tests.state.codecs.strategies import ids, keys
from tests.state.codecs.test_capture_row import captures
from tests.state.codecs.test_document_row import rows as document_rows
from tests.state.codecs.test_link_chunk import link_lists
from tests.streams.export import expected_rows

list_ids = st.just(b"") | st.binary(min_size=8, max_size=8)
exported_captures = st.builds(
    lambda capture, links, sweep: msgspec.structs.replace(capture, links=links, sweep=sweep),
    captures, list_ids, st.integers(0, 2**31 - 1),
)  # fmt: skip


def block_of(rows: list[Row]) -> RowBlock:
    (block,) = read_blocks(rows)
    return block


def values(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    batch.validate(full=True)
    return [tuple(row.values()) for row in batch.to_pylist()]


@given(st.lists(exported_captures, min_size=1, max_size=5))
def test_captures(decoded: list[Capture]) -> None:
    block = block_of([(capture_row.key_of(capture), capture_row.encode(capture)) for capture in decoded])
    heads = capture_columns.read_checksums(block)
    assert heads.sweeps.tolist() == [capture.sweep for capture in decoded]
    wanted = np.arange(len(decoded))[::-2]
    expected = [expected_rows.capture_row(decoded[row]) for row in wanted]
    assert values(capture_columns.decode(block, wanted)) == expected


@given(exported_captures)
def test_only_a_changed_capture_has_another_checksum(capture: Capture) -> None:
    changed = msgspec.structs.replace(capture, status=(capture.status + 1) % 1000)
    rows = [(capture_row.key_of(c), capture_row.encode(c)) for c in (capture, changed, capture)]
    checksums = capture_columns.read_checksums(block_of(rows)).checksums
    assert checksums[0] == checksums[2] != checksums[1]


@given(st.lists(document_rows, min_size=1, max_size=5))
def test_documents(decoded: list[DocumentRow]) -> None:
    decoded = [
        msgspec.structs.replace(
            row,
            sketch=msgspec.structs.replace(
                row.sketch, tokens=row.sketch.tokens >> 1, shingles=row.sketch.shingles >> 1
            ),
        )
        for row in decoded
    ]
    block = block_of([(row.sketch.document, document_row.encode(row)) for row in decoded])
    assert len(document_columns.checksums(block)) == len(decoded)
    wanted = np.arange(len(decoded))[::-2]
    expected = [expected_rows.document_row(decoded[row]) for row in wanted]
    assert values(document_columns.decode(block, wanted)) == expected


@given(st.lists(st.tuples(link_lists, st.lists(keys, max_size=2)), min_size=1, max_size=4), st.data())
def test_links(chunks: list[tuple[list[Link], list[bytes]]], data: st.DataObject) -> None:
    rows = []
    for number, (links, pages) in enumerate(chunks):
        chunk_id = bytes((number,)) * 8
        rows.append((chunk_id, link_chunk.encode(links)))
        rows += [(link_chunk.page_key(chunk_id, key), b"") for key in sorted(set(pages))]
    block = block_of(rows)
    chunk_rows = link_columns.chunk_rows(block)
    assert [block.row(row) for row in chunk_rows] == [row for row in rows if len(row[0]) == 8]
    decoded = link_columns.decode(block, chunk_rows)
    chunk_numbers = st.integers(0, len(chunks) - 1)
    linking = data.draw(st.lists(st.tuples(chunk_numbers, keys, ids), max_size=5))
    batch = link_columns.expand(
        decoded,
        np.array([chunk for chunk, _, _ in linking], np.int64),
        np.array([hashes.page_hash(key) for _, key, _ in linking], np.int64),
        np.array([hashes.id_hash(id_) for _, _, id_ in linking], np.int64),
    )
    expected = [expected_rows.link_row(key, id_, link) for chunk, key, id_ in linking for link in chunks[chunk][0]]
    assert values(batch) == expected


@given(keys, st.lists(st.binary(min_size=8, max_size=8), max_size=4))
def test_lists_of_links(key: bytes, chunk_ids: list[bytes]) -> None:
    id_ = link_list.compute_list_id(chunk_ids)
    block = block_of([(link_list.encode_key(key, id_), link_list.encode(chunk_ids))])
    pairs = np.zeros((3, 8), np.int64)
    assert link_columns.explode_lists(*block, pairs) == (-1, len(chunk_ids))
    page, list_hash = hashes.page_hash(key), hashes.id_hash(id_)
    assert pairs.T[: len(chunk_ids)].tolist() == [[page, list_hash, hashes.id_hash(chunk)] for chunk in chunk_ids]


def decode_chunks(block: RowBlock) -> object:
    return link_columns.decode(block, np.arange(len(block)))


@pytest.mark.parametrize(
    ("key", "value", "decode"),
    [
        (b"org,a)/\0" + bytes(14), b"\x02\x00\x00\x00\x00", capture_columns.read_checksums),
        (b"org,a)/\0" + bytes(14), b"\x01\x02\x00\x00\x00", capture_columns.read_checksums),
        (b"org,a)/\0" + bytes(14), b"\x01\x08\x00\x00\x00\xff\xff", capture_columns.read_checksums),
        (b"org,a)/" + bytes(13), b"\x01\x00\x00\x00\x00", capture_columns.read_checksums),
        (bytes(16), b"\x01" + bytes(18), document_columns.checksums),
        (bytes(16), b"\x01" + bytes(18) + b"\x01", document_columns.checksums),
        (bytes(15), b"\x01" + bytes(19), document_columns.checksums),
        (bytes(8), b"", decode_chunks),
        (bytes(8), b"\x02", decode_chunks),
        (bytes(8), b"\x01\x00\x01\x01a", decode_chunks),
        (bytes(8), b"\x01\x00\x00\x05a", decode_chunks),
        (bytes(8), b"\x01\x07\x00\x01a", decode_chunks),
        (bytes(8), b"\x01\x40\x00\x01a", decode_chunks),
        (bytes(8), b"\x01\x00\xff\xff\xff\xff\x01", decode_chunks),
    ],
)
def test_damaged_rows_are_refused_like_the_codecs_refuse_them(
    key: bytes, value: bytes, decode: Callable[[RowBlock], object]
) -> None:
    with pytest.raises(StateCorrupt):
        decode(block_of([(key, value)]))


def test_blocks_are_limited_in_rows_and_bytes() -> None:
    rows = [(b"%05d" % number, b"x" * (number % 7)) for number in range(5000)]
    blocks = list(read_blocks(rows, rows_max=300))
    assert [block.row(row) for block in blocks for row in range(len(block))] == rows
    assert max(map(len, blocks)) <= 300
    large = [(b"%05d" % number, bytes(1000)) for number in range(5000)]
    assert max(len(block.values) for block in read_blocks(large, bytes_max=1 << 20)) < 3 << 20

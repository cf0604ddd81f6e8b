"""A chunk of results decodes to its lines, and damaged chunks are refused."""

from __future__ import annotations

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import analysis_row
from state.codecs.analysis_row import CHUNK_BYTES, AnalysisKey
from state.errors import StateCorrupt
from tests.state.codecs.strategies import assert_refuses_damage

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
numbers = st.integers(0, (1 << 32) - 1)
results_keys = st.builds(AnalysisKey, numbers, names, names)
chunks = st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), min_size=1, max_size=6)


@given(results_keys, numbers, chunks)
def test_a_row_decodes_to_its_lines(key: AnalysisKey, chunk: int, lines: list[bytes]) -> None:
    row_key = analysis_row.encode_key(key, chunk)
    assert row_key.startswith(analysis_row.encode_prefix(key))
    assert row_key.startswith(analysis_row.encode_sweep(key.sweep))
    assert analysis_row.decode_key(row_key) == (key, chunk)
    assert analysis_row.decode(analysis_row.encode(lines)) == lines


@given(results_keys, results_keys)
def test_no_prefix_covers_other_results(one: AnalysisKey, other: AnalysisKey) -> None:
    covers = analysis_row.encode_key(other, 0).startswith(analysis_row.encode_prefix(one))
    assert covers == (one == other)


@given(chunks)
def test_a_damaged_row_is_refused(lines: list[bytes]) -> None:
    value = analysis_row.encode(lines)
    assert_refuses_damage(analysis_row.decode, value)
    with pytest.raises(StateCorrupt, match="decompressed"):
        analysis_row.decode(value[:-1] + bytes((value[-1] ^ 1,)))
    row_key = analysis_row.encode_key(AnalysisKey(1, "mirrors", "paths"), 1)
    for damaged_key in (b"", row_key[:9], row_key[:-1], row_key.replace(b"mirrors", b""), row_key + b"\0"):
        with pytest.raises(StateCorrupt, match="invalid row key of an analysis"):
            analysis_row.decode_key(damaged_key)
    with pytest.raises(StateCorrupt, match="not UTF-8"):
        analysis_row.decode_key(row_key.replace(b"mirrors", b"\xff"))


def test_a_chunk_that_ends_inside_a_line_is_refused() -> None:
    value = bytes((analysis_row.VERSION,)) + zstandard.ZstdCompressor().compress(b"{}\n{}")
    with pytest.raises(StateCorrupt, match="last line"):
        analysis_row.decode(value)


def test_a_chunk_too_large_to_be_genuine_is_not_decompressed() -> None:
    value = bytes((analysis_row.VERSION,)) + zstandard.ZstdCompressor().compress(bytes(1 << 27))
    with pytest.raises(StateCorrupt, match="would decompress to more than"):
        analysis_row.decode(value)


def test_lines_are_divided_into_chunks_of_limited_size() -> None:
    lines = [b"x" * size for size in (CHUNK_BYTES + 1, 10, 20, CHUNK_BYTES - 32, 1)]
    assert [len(chunk) for chunk in analysis_row.cut_into_chunks(lines)] == [1, 3, 1]
    assert list(analysis_row.cut_into_chunks([])) == []

"""A byte stream reads, skips and searches decompressed bytes, and resumes from any of its positions."""

from __future__ import annotations

import gzip
import io
import re

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.readers.byte_stream import ByteStream
from streams.readers.compression import CHUNK_BYTES
from streams.readers.read_limits import ReadLimits

PARTS = [b"first line\nsecond line\n", b"", b"a header\r\nof two lines\r\n\r\n", b" \n\0the last"]
PLAIN = b"".join(PARTS)
FILES = {
    "plain": PLAIN,
    "gzip": b"".join(map(gzip.compress, PARTS)),
    "zstd": b"".join(map(zstandard.compress, PARTS)),
}


def open_stream(compression: str, data: bytes | None = None, limits: ReadLimits | None = None, offset=0, inner=0):
    file = io.BytesIO(FILES[compression] if data is None else data)
    return ByteStream(file, compression, limits or ReadLimits(), (offset, inner))


@pytest.mark.parametrize("compression", FILES)
def test_reading_resumes_at_every_position(compression):
    stream = open_stream(compression)
    for index in range(len(PLAIN) + 1):
        offset, inner = stream.position()
        rest = open_stream(compression, offset=offset, inner=inner)
        assert rest.read(len(PLAIN)) == PLAIN[index:], index
        assert stream.read(1) == PLAIN[index : index + 1]


@settings(deadline=None)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.sampled_from(["read", "skip", "line", "blank"]), st.integers(1, 30)), max_size=10),
)
def test_each_operation_consumes_what_it_returns(compression, operations):
    stream, index = open_stream(compression), 0
    for name, count in operations:
        if name == "read":
            data = stream.read(count)
            assert data == PLAIN[index : index + count]
            index += len(data)
        elif name == "skip":
            index += stream.skip(count)
        elif name == "line":
            line = stream.read_line(count)
            assert line == PLAIN[index : index + count].partition(b"\n")[0] + (b"\n" if b"\n" in line else b"")
            index += len(line)
        else:
            index += stream.skip_whitespace()
    assert stream.read(len(PLAIN)) == PLAIN[index:]


@pytest.mark.parametrize("compression", FILES)
def test_peek_does_not_consume(compression):
    stream = open_stream(compression)
    assert stream.peek() == stream.peek() == PLAIN[0]
    stream.skip(len(PLAIN))
    assert stream.peek() == -1
    assert stream.fault.reason == ""


@pytest.mark.parametrize("compression", FILES)
def test_a_header_ends_with_its_blank_line(compression):
    stream = open_stream(compression)
    stream.skip(len(PARTS[0]))
    assert stream.read_header(1000) == PARTS[2]
    assert stream.read_header(1000) == b" \n\0the last"


def test_a_header_longer_than_the_limit_has_no_blank_line():
    stream = open_stream("plain", b"x: y\r\n" * 100 + b"\r\nbody")
    header = stream.read_header(50)
    assert len(header) == 50
    assert not header.endswith(b"\n\r\n")


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_reading_and_skipping_stop_before_a_frame_that_starts_a_record(compression):
    def is_record_start(head: bytes) -> bool:
        return head.startswith(b"a header")

    for method in ("read", "skip"):
        stream = open_stream(compression)
        stream.read(1)
        getattr(stream, method)(1000, is_record_start)
        assert stream.at_frame_start(), method
        assert stream.read(8) == b"a header", method


def test_a_match_across_chunks_is_found():
    for shift in range(1, 6):
        data = b"x" * (CHUNK_BYTES - shift) + b"needle" + b"y" * 10
        stream = open_stream("plain", data)
        assert stream.skip_to(re.compile(b"needle"), 10)
        assert stream.position() == (CHUNK_BYTES - shift, 0)
        assert stream.read(6) == b"needle"
    assert not open_stream("plain", b"x" * 10).skip_to(re.compile(b"needle"), 10)


def test_a_line_that_is_too_long_can_be_skipped():
    stream = open_stream("plain", b"x" * (2 * CHUNK_BYTES) + b"\nnext\n")
    assert stream.read_line(100) == b"x" * 100
    stream.skip_line()
    assert stream.read_line(100) == b"next\n"


@pytest.mark.parametrize("compression", FILES)
def test_skipping_compressed_data_is_limited(compression):
    zeros = bytes(3 << 20)
    data = {"plain": zeros, "gzip": gzip.compress(zeros), "zstd": zstandard.compress(zeros)}[compression]
    stream = open_stream(compression, data, ReadLimits(skip_bytes_max=1 << 20))
    skipped = stream.skip(3 << 20)
    if compression == "plain":
        assert skipped == 3 << 20
    else:
        assert skipped < 2 << 20
        assert stream.fault.reason == "too_big"
        assert stream.peek() == -1


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_resync_continues_at_the_next_record_and_plain_files_have_none(compression):
    frame = FILES[compression]
    stream = open_stream(compression, frame + b"rubbish of some length" + frame)
    assert stream.read(10_000) == PLAIN
    assert stream.fault.reason == "garbage"
    assert stream.resync(lambda head: head.startswith(b"first"))
    assert stream.position() == (len(frame) + len(b"rubbish of some length"), 0)
    assert stream.read(10_000) == PLAIN
    assert not open_stream("plain").resync(lambda _: True)

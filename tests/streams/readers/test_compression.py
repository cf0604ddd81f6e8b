"""Compression is detected; files are read in pieces, and gzip and zstd decompressed in bounded chunks."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable

import pytest
import zstandard

from streams.errors import ReadError
from streams.readers.compression import (
    CHUNK_BYTES,
    Fault,
    GzipDecoder,
    RawBuffer,
    ZstdDecoder,
    decompress_head,
    detect_compression,
)
from streams.readers.read_limits import ReadLimits

LIMITS = ReadLimits()
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress}


def open_decoder(
    data: bytes, limits: ReadLimits = LIMITS, offset: int = 0
) -> tuple[GzipDecoder | ZstdDecoder, Fault]:
    raw = RawBuffer(io.BytesIO(data), limits, 1000, in_deflated_member=False)
    decoder = GzipDecoder if detect_compression(data) == "gzip" else ZstdDecoder
    return decoder(raw, offset), raw.fault


def read_all(decoder: GzipDecoder | ZstdDecoder) -> list[bytes]:
    return list(iter(decoder.next_chunk, b""))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (gzip.compress(b"x"), "gzip"),
        (zstandard.compress(b"x"), "zstd"),
        (b"\x5d\x2a\x4d\x18\0\0\0\0", "zstd"),
        (b"PK\x03\x04", "zip"),
        (b"PK\x05\x06", "zip"),
        (b"WARC/1.0", "plain"),
        (b"", "plain"),
    ],
)
def test_compression_is_detected_by_the_first_bytes(head, expected):
    assert detect_compression(head) == expected


def test_a_head_is_decompressed_as_far_as_possible():
    data = bytes(range(256)) * 100
    for name, compress in COMPRESS.items():
        assert decompress_head(compress(data)[:200], name, 10) in {data[:10], b""}, name
        assert decompress_head(compress(data), name, 1000) == data[:1000], name
    assert decompress_head(b"\x1f\x8b damaged", "gzip", 1000) == b""
    assert decompress_head(data, "plain", 1000) == data


@pytest.mark.parametrize("name", COMPRESS)
def test_frames_are_decoded_one_after_another(name):
    frames = [COMPRESS[name](part) for part in (b"one", b"", b"two")]
    decoder, fault = open_decoder(b"".join(frames))
    assert decoder.next_chunk() == b"one"
    assert decoder.frame_start == 0
    assert decoder.decoded_bytes == 3
    assert not decoder.in_frame
    assert decoder.next_chunk() == b"two"
    assert decoder.frame_start == len(frames[0] + frames[1])
    assert decoder.next_chunk() == b""
    assert fault.reason == ""


@pytest.mark.parametrize("name", COMPRESS)
def test_chunks_are_bounded(name):
    chunks = read_all(open_decoder(COMPRESS[name](bytes(10 << 20)))[0])
    assert sum(map(len, chunks)) == 10 << 20
    assert max(map(len, chunks)) <= 2 * CHUNK_BYTES


@pytest.mark.parametrize("name", COMPRESS)
def test_a_decoder_starts_at_the_offset_of_a_frame(name):
    first = COMPRESS[name](b"one")
    decoder, _ = open_decoder(first + COMPRESS[name](b"two"), offset=len(first))
    assert read_all(decoder) == [b"two"]


@pytest.mark.parametrize("name", COMPRESS)
def test_damage_is_reported_and_resync_finds_the_next_record(name):
    frames = [COMPRESS[name](part) for part in (b"WARC one", b"WARC" + bytes(range(256)) * 9, b"two", b"WARC three")]
    damaged = bytearray(frames[1])
    damaged[-3] ^= 0xFF  # the checksum of gzip; the last block of zstd
    data = frames[0] + (bytes(damaged) if name == "gzip" else b"rubbish!") + frames[2] + frames[3]
    decoder, fault = open_decoder(data)
    read_all(decoder)
    assert fault.reason == ("corrupt" if name == "gzip" else "garbage")
    fault.reason = ""
    assert decoder.resync(lambda head: head.startswith(b"WARC t"))
    assert read_all(decoder) == [b"WARC three"]
    assert not decoder.resync(lambda head: head.startswith(b"WARC t"))


@pytest.mark.parametrize("name", COMPRESS)
def test_a_cut_at_any_byte_is_reported_as_truncated(name):
    data = COMPRESS[name](b"some words " * 20)
    for end in range(4, len(data)):
        decoder, fault = open_decoder(data[:end])
        read_all(decoder)
        assert fault.reason == "truncated", end


def test_zeros_between_gzip_members_are_skipped():
    decoder, fault = open_decoder(gzip.compress(b"one") + bytes(5000) + gzip.compress(b"two") + bytes(5000))
    assert read_all(decoder) == [b"one", b"two"]
    assert fault.reason == ""


def test_skippable_zstd_frames_are_skipped():
    skippable = b"\x50\x2a\x4d\x18" + (5000).to_bytes(4, "little") + bytes(5000)
    decoder, fault = open_decoder(skippable + zstandard.compress(b"one") + skippable)
    assert read_all(decoder) == [b"one"]
    assert fault.reason == ""


def test_a_reserved_zstd_block_is_corrupt():
    header = b"\x28\xb5\x2f\xfd\x00\x58"  # a window, neither a size nor a checksum
    decoder, fault = open_decoder(header + (1 | 3 << 1).to_bytes(3, "little") + bytes(9))
    assert read_all(decoder) == []
    assert fault.detail == "zstd: invalid block header"


@pytest.mark.parametrize("compressed", [False, True])
def test_a_zstd_dictionary_at_the_start_is_used(compressed):
    parts: list[bytes | bytearray | memoryview] = [
        b"http://a.org/%d some words of a page %d" % (i, i * i) for i in range(200)
    ]
    dictionary = zstandard.train_dictionary(2000, parts)
    codec = zstandard.ZstdCompressor(dict_data=dictionary)
    stored = zstandard.compress(dictionary.as_bytes()) if compressed else dictionary.as_bytes()
    start = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored
    frames = [codec.compress(part) for part in parts]
    assert read_all(open_decoder(start + b"".join(frames))[0]) == parts
    later = len(start) + len(frames[0])
    assert read_all(open_decoder(start + b"".join(frames), offset=later)[0]) == parts[1:]


def test_a_zstd_window_above_the_limit_is_corrupt():
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    codec = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # size unknown: a window is stored
    data = codec.compress(b"some words") + codec.flush()
    assert read_all(open_decoder(data)[0]) == [b"some words"]
    decoder, fault = open_decoder(data, ReadLimits(window_bytes_max=1 << 20))
    assert read_all(decoder) == []
    assert fault.reason == "corrupt"


DATA = bytes(range(256)) * 4


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


class Broken(io.BytesIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def read(self, size: int | None = -1, /) -> bytes:
        raise self.error


def open_buffer(file: io.BytesIO, *, in_deflated_member: bool = False, skip_bytes_max: int = 1 << 20) -> RawBuffer:
    return RawBuffer(file, ReadLimits(skip_bytes_max=skip_bytes_max), 100, in_deflated_member=in_deflated_member)


def test_ensure_reads_as_much_as_is_requested():
    raw = open_buffer(io.BytesIO(DATA))
    assert raw.ensure(250)
    assert raw.data == DATA[:300]
    assert not raw.ensure(len(DATA) + 1)
    assert raw.data == DATA
    assert raw.fault.reason == ""


@pytest.mark.parametrize("file", [io.BytesIO, Pipe])
def test_seek_and_skip_move_the_offset(file):
    raw = open_buffer(file(DATA))
    raw.ensure(100)
    for offset in (30, 90, 400):
        raw.seek(offset)
        assert raw.offset == offset
        assert raw.ensure(1)
        assert raw.data[0] == DATA[offset]
    raw.skip(50)
    assert raw.offset == 450


def test_damage_in_a_zip_is_a_fault_and_a_failing_disk_raises():
    raw = open_buffer(Broken(zlib.error("bad block")))
    assert not raw.ensure(1)
    assert raw.unreadable
    assert raw.fault.reason == "corrupt"
    raw = open_buffer(Broken(OSError("disk")))
    with pytest.raises(ReadError, match="disk"):
        raw.ensure(1)


def test_an_inflated_file_without_output_ends_at_the_limit():
    raw = open_buffer(io.BytesIO(bytes(10_000)), in_deflated_member=True, skip_bytes_max=500)
    raw.skip(10_000)
    assert raw.fault.reason == "too_big"
    assert raw.offset <= 700
    raw = open_buffer(io.BytesIO(bytes(10_000)), skip_bytes_max=500)
    raw.skip(10_000)
    assert raw.offset == 10_000


def test_the_first_fault_wins():
    fault = Fault()
    fault.report("corrupt", "first")
    fault.report("truncated", "second")
    assert fault.reason == "corrupt"
    assert fault.detail == "first"

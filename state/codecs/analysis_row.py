"""The results of an analysis in `analyses`, cut into chunks of lines.

    key    sweep 4 B │ analysis │ 00 │ method │ 00 │ chunk 4 B
    value  version 1 B │ zstd frame of lines, each of which ends with 0A

Chunk 0 has a single line, the header; the results begin with chunk 1. `state.analyses` defines the header. The key
begins with the sweep to which the results belong, so that the results of a cancelled sweep are one range of keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec
import zstandard

from state.errors import StateCorrupt

VERSION = 1
CHUNK_BYTES = 1 << 18  # of lines before compression; a longer line has a chunk of its own
LINE_BYTES_MAX = 64 << 20
_NUMBER = struct.Struct(">I")
_NAME_END = b"\0"
_ZSTD_LEVEL = 3


class AnalysisKey(msgspec.Struct, frozen=True, order=True):
    """The sweep to which results belong, their analysis, and the method by which they were computed."""

    sweep: int
    analysis: str
    method: str


def encode_sweep(sweep: int) -> bytes:
    """Return the key prefix of all results that belong to a sweep."""
    return _NUMBER.pack(sweep)


def encode_prefix(key: AnalysisKey) -> bytes:
    """Return the key prefix of all chunks of results."""
    names = [name.encode() for name in (key.analysis, key.method)]
    assert all(name and _NAME_END not in name for name in names), "a NUL terminates each name"
    return encode_sweep(key.sweep) + b"".join(name + _NAME_END for name in names)


def encode_key(key: AnalysisKey, chunk: int) -> bytes:
    return encode_prefix(key) + _NUMBER.pack(chunk)


def decode_key(row_key: bytes) -> tuple[AnalysisKey, int]:
    """Split a row key into the key of the results and the chunk number. Raise StateCorrupt if it is invalid."""
    start, end = _NUMBER.size, len(row_key) - _NUMBER.size
    names = row_key[start:end].split(_NAME_END)
    if len(names) != 3 or not names[0] or not names[1] or names[2]:
        raise StateCorrupt(f"invalid row key of an analysis: {row_key[:80]!r}")
    try:
        analysis, method = (name.decode() for name in names[:2])
    except UnicodeDecodeError as error:
        raise StateCorrupt(f"the name of an analysis is not UTF-8: {error}") from error
    (sweep,), (chunk,) = _NUMBER.unpack_from(row_key), _NUMBER.unpack_from(row_key, end)
    return AnalysisKey(sweep, analysis, method), chunk


def encode(lines: Iterable[bytes]) -> bytes:
    data = b"".join(line + b"\n" for line in lines)
    return bytes((VERSION,)) + zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(data)


def decode(value: bytes) -> list[bytes]:
    """Decode the lines of a chunk. Raise StateCorrupt if the value is invalid."""
    if not value or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid chunk of results (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    bytes_max = CHUNK_BYTES + LINE_BYTES_MAX
    try:
        if zstandard.frame_content_size(value[1:]) > bytes_max:  # zstd allocates this size up front
            raise StateCorrupt(f"a chunk of results would decompress to more than {bytes_max} bytes")
        data = zstandard.ZstdDecompressor().decompress(value[1:], max_output_size=bytes_max)
    except zstandard.ZstdError as error:
        raise StateCorrupt(f"a chunk of results cannot be decompressed: {error}") from error
    if not data.endswith(b"\n"):
        raise StateCorrupt("corrupt chunk of results: its last line is incomplete")
    return data[:-1].split(b"\n")


def cut_into_chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divide lines into chunks of about `CHUNK_BYTES`, each of which has at least one line."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        assert len(line) < LINE_BYTES_MAX, "a longer line could not be decoded"
        if chunk and size + len(line) > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line) + 1
    if chunk:
        yield chunk

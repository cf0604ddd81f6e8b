"""Decompress gzip and zstd files frame by frame, within bounded memory.

A compressed crawl file is a sequence of gzip members or zstd frames, usually one per record. Both are called frames
here. A decoder returns the decompressed bytes in chunks of bounded size, and keeps track of the offset of the current
frame, from which reading can resume.

A decoder does not raise for bad data: it returns an empty chunk, as at the end of the file, and reports a fault.
`resync` then moves to the next frame that starts with a record.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

from streams.readers.raw_buffer import Fault, RawBuffer
from streams.readers.read_limits import ReadLimits

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
CHUNK_BYTES = 256 << 10
RAW_BYTES = 64 << 10
GZIP_WBITS = 31  # zlib: expect a gzip header
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_DICTIONARY = b"\x5d\x2a\x4d\x18"  # a first frame with the dictionary of all others (IIPC, "WARC zstd")
_BLOCKS_PER_CHUNK = 4  # a zstd block decompresses to at most 128 KiB
_BLOCK_BYTES_MAX = 128 << 10
_RLE, _RESERVED = 1, 3  # types of a zstd block
_PROBE_BYTES = 4096  # decompressed, enough for the first words of a record
_GZIP_PROBE_RAW_BYTES = 4096

IsRecordStart = Callable[[bytes], bool]
"""Whether a record begins with these bytes."""


def detect_compression(head: bytes) -> str:
    """Return `gzip`, `zstd`, `zip` or `plain`, judging by the first bytes of a file."""
    if head.startswith(GZIP):
        return "gzip"
    if head.startswith(ZSTD) or _SKIPPABLE.match(head):
        return "zstd"
    return "zip" if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else "plain"


def decompress_head(head: bytes, compression: str, bytes_max: int) -> bytes:
    """Decompress as much as possible of the first bytes of a file; empty if they are damaged."""
    try:
        if compression == "gzip":
            return zlib.decompressobj(GZIP_WBITS).decompress(head, bytes_max)
        if compression == "zstd":
            codec = zstandard.ZstdDecompressor(max_window_size=ReadLimits().window_bytes_max)
            return bytes(codec.stream_reader(head, read_across_frames=True).read(bytes_max))
    except (zlib.error, zstandard.ZstdError):
        return b""
    return head


class Decoder(Protocol):
    """The decompressed bytes of a file, chunk by chunk."""

    frame: int  # offset of the current frame in the file; a plain file is one frame
    decoded: int  # decompressed bytes returned since the start of the frame

    @property
    def in_frame(self) -> bool:
        """Whether the current frame has not ended yet."""

    def next_chunk(self) -> bytes:
        """Return the next bytes, all of one frame; empty at the end and after a fault."""

    def resync(self, is_record_start: IsRecordStart) -> bool:
        """Move to the next frame that starts with a record, after a fault; return False if no other frame does."""


class PlainDecoder:
    """A file that is not compressed."""

    frame = 0
    in_frame = True

    def __init__(self, raw: RawBuffer, offset: int) -> None:
        self.decoded = offset
        self._raw = raw
        raw.seek(offset)

    def next_chunk(self) -> bytes:
        if not self._raw.ensure(1):
            return b""
        chunk = self._raw.data
        self._raw.consume(len(chunk))
        self.decoded += len(chunk)
        return chunk

    def resync(self, is_record_start: IsRecordStart) -> bool:  # noqa: ARG002 - without frames there is nowhere to go
        return False


class GzipDecoder:
    """A sequence of gzip members."""

    def __init__(self, raw: RawBuffer, fault: Fault, offset: int) -> None:
        self.frame = offset
        self.decoded = 0
        self._raw = raw
        self._fault = fault
        self._codec: zlib._Decompress | None = None  # None between members
        raw.seek(offset)

    @property
    def in_frame(self) -> bool:
        return self._codec is not None

    def next_chunk(self) -> bytes:
        raw = self._raw
        while True:
            if self._codec is None and not self._start_member():
                return b""
            codec = self._codec
            assert codec is not None
            at_end = not raw.ensure(1)
            try:
                chunk = codec.decompress(raw.data, CHUNK_BYTES)
            except zlib.error as error:
                self._fault.report("corrupt", f"gzip: {error}")
                return b""
            raw.consume(len(raw.data) - len(codec.unused_data if codec.eof else codec.unconsumed_tail))
            if codec.eof:
                self._codec = None
            if chunk:
                self.decoded += len(chunk)
                return chunk
            if at_end and not codec.eof:
                self._fault.report("truncated", "the file ends within a gzip member")
                return b""

    def _start_member(self) -> bool:
        self._skip_zeros()
        if not self._raw.ensure(2) and not self._raw.data:
            return False
        if not GZIP.startswith(self._raw.data[:2]):
            self._fault.report("garbage", "the bytes after a gzip member are not another gzip member")
            return False
        self.frame, self.decoded, self._codec = self._raw.offset, 0, zlib.decompressobj(GZIP_WBITS)
        return True

    def _skip_zeros(self) -> None:
        """Skip the zeros that tape blocks and pre-allocated files leave after a member, as gzip(1) does."""
        raw = self._raw
        while raw.ensure(1) and not raw.data[0]:
            raw.consume(len(raw.data) - len(raw.data.lstrip(b"\0")))

    def resync(self, is_record_start: IsRecordStart) -> bool:
        start = self._raw.offset if self._codec is None else self.frame + 1
        self._codec = None
        return _seek_frame(self._raw, start, GZIP + b"\x08", lambda at: is_record_start(self._probe(at)))

    def _probe(self, at: int) -> bytes:
        """Return the first decompressed bytes of what may be a member, `at` bytes into the buffer."""
        self._raw.ensure(at + _GZIP_PROBE_RAW_BYTES)
        try:
            codec = zlib.decompressobj(GZIP_WBITS)
            return codec.decompress(self._raw.data[at : at + _GZIP_PROBE_RAW_BYTES], _PROBE_BYTES)
        except zlib.error:
            return b""


class ZstdDecoder:
    """A sequence of zstd frames (RFC 8878).

    The headers of a frame's blocks are parsed here, because one call of the library could decompress to gigabytes:
    only a few whole blocks are passed to it at a time.
    """

    def __init__(self, raw: RawBuffer, fault: Fault, offset: int, limits: ReadLimits) -> None:
        self.frame = offset
        self.decoded = 0
        self._raw = raw
        self._fault = fault
        self._limits = limits
        self._codec: zstandard.ZstdDecompressionObj | None = None  # None between frames
        self._has_checksum = False  # the frame ends with 4 bytes of checksum
        self._header_bytes = 0  # size of the frame's header, as long as it was not passed to the codec
        self._library = self._decompressor(None)
        self._load_dictionary()
        raw.seek(offset)

    @property
    def in_frame(self) -> bool:
        return self._codec is not None

    def next_chunk(self) -> bytes:
        raw = self._raw
        while True:
            if self._codec is None and not self._start_frame():
                return b""
            assert self._codec is not None
            end, is_last = self._header_bytes, False
            for _ in range(_BLOCKS_PER_CHUNK):
                block = self._find_block(end)
                if block is None:
                    return b""
                end, is_last = block
                if is_last:
                    break
            if not raw.ensure(end):
                self._fault.report("truncated", "the file ends within a zstd frame")
                return b""
            self._header_bytes = 0
            try:
                chunk = self._codec.decompress(raw.data[:end])
            except zstandard.ZstdError as error:
                self._fault.report("corrupt", f"zstd: {error}")
                return b""
            raw.consume(end)
            if is_last:
                self._codec = None
            if chunk:
                self.decoded += len(chunk)
                return chunk

    def _find_block(self, at: int) -> tuple[int, bool] | None:
        """Parse the 3-byte header of the block `at` bytes into the buffer.

        Return where the next block starts, and whether this is the frame's last one; None after a fault.
        """
        if not self._raw.ensure(at + 3):
            self._fault.report("truncated", "the file ends within a zstd frame")
            return None
        header = int.from_bytes(self._raw.data[at : at + 3], "little")
        is_last, block_type, size = bool(header & 1), header >> 1 & 3, header >> 3
        if size > _BLOCK_BYTES_MAX or block_type == _RESERVED:
            self._fault.report("corrupt", "zstd: impossible block")
            return None
        stored_bytes = 1 if block_type == _RLE else size
        return at + 3 + stored_bytes + (4 if is_last and self._has_checksum else 0), is_last

    def _start_frame(self) -> bool:
        """Move to the start of the next frame, past skippable ones, and parse its header."""
        raw = self._raw
        while raw.ensure(1):
            if not raw.ensure(8):
                is_frame = ZSTD.startswith(raw.data[:4]) or _SKIPPABLE.match(raw.data)
                self._fault.report(
                    "truncated" if is_frame else "garbage", "the file ends within a zstd frame's header"
                )
                return False
            if not _SKIPPABLE.match(raw.data):
                break
            raw.skip(8 + int.from_bytes(raw.data[4:8], "little"))
        if not raw.data:
            return False
        if not raw.data.startswith(ZSTD):
            self._fault.report("garbage", "the bytes after a zstd frame are not another zstd frame")
            return False
        descriptor = raw.data[4]
        single_segment = descriptor >> 5 & 1
        dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        self._has_checksum = bool(descriptor >> 2 & 1)
        self._header_bytes = 6 - single_segment + dictionary_id_bytes + content_size_bytes
        self.frame, self.decoded = raw.offset, 0
        self._codec = self._library.decompressobj()
        return True

    def resync(self, is_record_start: IsRecordStart) -> bool:
        start = self._raw.offset if self._codec is None else self.frame + 1
        self._codec = None
        return _seek_frame(self._raw, start, ZSTD, lambda at: is_record_start(self._probe(at)))

    def _probe(self, at: int) -> bytes:
        """Return the first decompressed bytes of what may be a frame, `at` bytes into the buffer."""
        self._raw.ensure(at + RAW_BYTES)
        try:
            return bytes(self._library.stream_reader(self._raw.data[at : at + RAW_BYTES]).read(_PROBE_BYTES))
        except zstandard.ZstdError:
            return b""

    def _decompressor(self, dictionary: zstandard.ZstdCompressionDict | None) -> zstandard.ZstdDecompressor:
        return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=self._limits.window_bytes_max)

    def _load_dictionary(self) -> None:
        """Use the dictionary at the start of the file, if there is one.

        A dictionary that is too big or damaged is ignored: then the first frame fails.
        """
        raw, bytes_max = self._raw, self._limits.page_bytes_max
        if not raw.ensure(8) or not raw.data.startswith(_DICTIONARY):
            return
        size = int.from_bytes(raw.data[4:8], "little")
        if size > bytes_max or not raw.ensure(8 + size):
            return
        data = raw.data[8 : 8 + size]
        if data.startswith(ZSTD):
            try:
                data = bytes(self._library.stream_reader(data).read(bytes_max))
            except zstandard.ZstdError:
                return
        self._library = self._decompressor(zstandard.ZstdCompressionDict(data))


def _seek_frame(raw: RawBuffer, start: int, magic: bytes, is_match: Callable[[int], bool]) -> bool:
    """Move to the first frame from offset `start` on for which `is_match(index in the buffer)` is true."""
    if raw.dead or not raw.seekable():
        return False
    raw.seek(start)
    searched = 0  # bytes at the front of the buffer where no such frame begins
    while raw.ensure(searched + len(magic)):
        at = raw.data.find(magic, searched)
        if at < 0 or at > RAW_BYTES:  # drop what was searched
            raw.consume(at if at > 0 else len(raw.data) - len(magic) + 1)
            searched = 0
        elif is_match(at):
            raw.consume(at)
            return True
        else:
            searched = at + 1
    return False

"""Decompress gzip and zstd files frame by frame, within bounded memory.

A compressed crawl file is a sequence of gzip members or zstd frames, usually one per record. Below, "frame" means
either. A decoder returns the decompressed bytes in chunks of bounded size. It stores the offset of the current frame,
from which reading can resume.

Bad data raises no exception: the decoder returns an empty chunk, as at the end of the file, and reports a fault.
After a fault, `resync` moves to the next frame that starts with a record.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO

import zstandard

from streams.errors import ReadError
from streams.readers.read_limits import ReadLimits

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
CHUNK_BYTES = 256 << 10  # size of the largest chunk of a gzip or plain file
READ_BYTES = 64 << 10  # compressed bytes per read
GZIP_WBITS = 31  # tells zlib to expect a gzip header
# Exceptions that are raised when a damaged member of a zip is read
ZIP_MEMBER_ERRORS = (zlib.error, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
_SKIPPABLE_MAGIC = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
# Starts a frame that contains the dictionary for all later frames (IIPC, "WARC zstd")
_DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
_BLOCKS_PER_CHUNK = 4  # zstd blocks that are decompressed in one call
_BLOCK_BYTES_MAX = 128 << 10  # size of the largest zstd block, compressed or decompressed
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3  # zstd block types
_PROBE_BYTES = 4096  # enough to recognise the start of a record

IsRecordStart = Callable[[bytes], bool]  # returns whether the bytes are the beginning of a record


def detect_compression(head: bytes) -> str:
    """Detect the compression of a file from its first bytes: `gzip`, `zstd`, `zip` or `plain`."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    if head.startswith(ZSTD_MAGIC) or _SKIPPABLE_MAGIC.match(head):
        return "zstd"
    return "zip" if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else "plain"


def decompress_head(head: bytes, compression: str, bytes_max: int) -> bytes:
    """Decompress the first bytes of a file as far as possible. Return b"" if they are damaged."""
    try:
        if compression == "gzip":
            return zlib.decompressobj(GZIP_WBITS).decompress(head, bytes_max)
        if compression == "zstd":
            codec = zstandard.ZstdDecompressor(max_window_size=ReadLimits().window_bytes_max)
            return bytes(codec.stream_reader(head, read_across_frames=True).read(bytes_max))
    except (zlib.error, zstandard.ZstdError):
        return b""
    return head


class Fault:
    """Why a file could not be read to its end: a key of `REJECTION_REASONS` and a detail, or both empty."""

    reason = detail = ""

    def report(self, reason: str, detail: str) -> None:
        """Record the first fault. Ignore later faults: they may only be consequences of the first."""
        if not self.reason:
            self.reason, self.detail = reason, detail


class RawBuffer:
    """Bytes that were read from a file but not yet decompressed. `data[0]` is the byte at `offset`.

    `in_deflated_member` is true if the file is a compressed member of a zip, where it may take up much less space.
    Damage in the zip sets `fault` and `unreadable`. An I/O error raises ReadError.
    """

    def __init__(self, file: BinaryIO, limits: ReadLimits, read_bytes: int, *, in_deflated_member: bool) -> None:
        self.data = b""
        self.offset = 0
        self.fault = Fault()
        self.limits = limits
        self.unreadable = False  # the file cannot be read any further
        self.bytes_without_output = 0  # bytes read since the last decompressed byte: padding or empty frames
        self._file = file
        self._read_bytes = read_bytes
        self._in_deflated_member = in_deflated_member

    def ensure(self, count: int) -> bool:
        """Read until at least `count` bytes are available. Return False if the file ends earlier."""
        while len(self.data) < count:
            part = self._read()
            if not part:
                return False
            self.data = self.data + part if self.data else part
        return True

    def consume(self, count: int) -> None:
        self.offset += count
        self.data = self.data[count:]

    def skip(self, count: int) -> None:
        """Consume up to `count` bytes without buffering all of them."""
        while count and self.ensure(1):
            step = min(count, len(self.data))
            self.consume(step)
            count -= step

    def seek(self, offset: int) -> None:
        """Move to an offset. In a pipe, moving backwards is not possible."""
        if self.offset <= offset <= self.offset + len(self.data):
            self.consume(offset - self.offset)
        elif self._file.seekable():
            self._file.seek(offset)
            self.data, self.offset = b"", offset
        else:
            self.skip(offset - self.offset)

    def seek_frame(self, start: int, magic: bytes, is_match: Callable[[int], bool]) -> bool:
        """Move to the first matching frame at or after the offset `start`. Return False if there is none.

        `is_match` receives an index in `data` at which `magic` occurs, and returns whether a matching frame starts
        there.
        """
        if self.unreadable or not self._file.seekable():
            return False
        self.seek(start)
        search_start = 0  # index in `data` before which no matching frame begins
        while self.ensure(search_start + len(magic)):
            index = self.data.find(magic, search_start)
            if index < 0 or index > READ_BYTES:  # drop the bytes in which no frame begins
                self.consume(index if index > 0 else len(self.data) - len(magic) + 1)
                search_start = 0
            elif is_match(index):
                self.consume(index)
                return True
            else:
                search_start = index + 1
        return False

    def report_skip_limit(self) -> None:
        limit = self.limits.skip_bytes_max
        self.fault.report("too_big", f"more than skip_bytes_max {limit} decompressed bytes without a record")

    def _read(self) -> bytes:
        if self.unreadable:
            return b""
        if self._in_deflated_member and self.bytes_without_output > self.limits.skip_bytes_max:
            self.unreadable = True
            self.report_skip_limit()
            return b""
        try:
            data = self._file.read(self._read_bytes)
        except ZIP_MEMBER_ERRORS as error:
            self.unreadable = True
            self.fault.report("corrupt", f"zip: {error}"[:500])
            return b""
        except OSError as error:
            name, hint = getattr(self._file, "name", "the input"), "check the disk, then run the same command again"
            raise ReadError(f"cannot read {name}: {error}", hint) from error
        self.bytes_without_output += len(data)
        return data


class PlainDecoder:
    """Decoder for a file that is not compressed."""

    frame_start = 0  # the whole file is one frame
    in_frame = True

    def __init__(self, raw: RawBuffer, offset: int) -> None:
        self.decoded_bytes = offset
        self._raw = raw
        raw.seek(offset)

    def next_chunk(self) -> bytes:
        if not self._raw.ensure(1):
            return b""
        chunk = self._raw.data
        self._raw.consume(len(chunk))
        self.decoded_bytes += len(chunk)
        return chunk


class FrameDecoder:
    """Base class of the gzip and zstd decoders."""

    magic: bytes

    def __init__(self, raw: RawBuffer, offset: int) -> None:
        self.frame_start = offset  # offset of the current frame in the file
        self.decoded_bytes = 0  # decompressed bytes returned since the start of the frame
        self.in_frame = False  # whether the current frame has started but not ended
        self._raw = raw
        raw.seek(offset)

    def next_chunk(self) -> bytes:
        """Return the next bytes, all from one frame. Return b"" at the end of the file and after a fault."""
        raise NotImplementedError

    def resync(self, is_record_start: IsRecordStart) -> bool:
        """After a fault, move to the next frame that starts with a record. Return False if there is none."""
        # Search after the first byte of the damaged frame, so that this frame is not found again.
        start = self.frame_start + 1 if self.in_frame else self._raw.offset
        self.in_frame = False
        return self._raw.seek_frame(start, self.magic, lambda index: is_record_start(self._probe(index)))

    def _probe(self, index: int) -> bytes:
        """Decompress the first bytes of a possible frame at this index in `data`. Return b"" if they are damaged."""
        raise NotImplementedError


class GzipDecoder(FrameDecoder):
    """Decoder for a sequence of gzip members."""

    magic = GZIP_MAGIC + b"\x08"

    def next_chunk(self) -> bytes:
        raw = self._raw
        while self.in_frame or self._start_frame():
            codec = self._codec
            file_ended = not raw.ensure(1)
            try:
                chunk = codec.decompress(raw.data, CHUNK_BYTES)
            except zlib.error as error:
                raw.fault.report("corrupt", f"gzip: {error}")
                break
            raw.consume(len(raw.data) - len(codec.unused_data if codec.eof else codec.unconsumed_tail))
            self.in_frame = not codec.eof
            if chunk:
                self.decoded_bytes += len(chunk)
                return chunk
            if file_ended and not codec.eof:
                raw.fault.report("truncated", "the file ends within a gzip member")
                break
        return b""

    def _start_frame(self) -> bool:
        """Skip to the next member. Return False if there is none, or after a fault."""
        raw = self._raw
        # Tape blocks and pre-allocated files are padded with zeros, which gzip(1) skips too.
        while raw.ensure(1) and not raw.data[0]:
            raw.consume(len(raw.data) - len(raw.data.lstrip(b"\0")))
        if not raw.ensure(2) and not raw.data:
            return False
        if not GZIP_MAGIC.startswith(raw.data[:2]):
            raw.fault.report("garbage", "a gzip member is followed by bytes that are not gzip")
            return False
        self.frame_start, self.decoded_bytes, self.in_frame = raw.offset, 0, True
        self._codec = zlib.decompressobj(GZIP_WBITS)
        return True

    def _probe(self, index: int) -> bytes:
        self._raw.ensure(index + _PROBE_BYTES)
        return decompress_head(self._raw.data[index : index + _PROBE_BYTES], "gzip", _PROBE_BYTES)


class ZstdDecoder(FrameDecoder):
    """Decoder for a sequence of zstd frames (RFC 8878).

    A single call to zstandard could return gigabytes. This class therefore parses the block headers of a frame, and
    passes only a few whole blocks to zstandard at a time.
    """

    magic = ZSTD_MAGIC

    def __init__(self, raw: RawBuffer, offset: int) -> None:
        self._has_checksum = False  # whether the frame ends with a 4-byte checksum
        self._header_bytes = 0  # size of the frame's header, or 0 once the codec has received the header
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=raw.limits.window_bytes_max)
        self._load_dictionary(raw)
        super().__init__(raw, offset)

    def next_chunk(self) -> bytes:
        raw = self._raw
        while self.in_frame or self._start_frame():
            blocks = self._buffer_blocks()
            if blocks is None:
                break
            end, is_last = blocks
            self._header_bytes = 0
            try:
                chunk = self._codec.decompress(raw.data[:end])
            except zstandard.ZstdError as error:
                raw.fault.report("corrupt", f"zstd: {error}")
                break
            raw.consume(end)
            self.in_frame = not is_last
            if chunk:
                self.decoded_bytes += len(chunk)
                return chunk
        return b""

    def _buffer_blocks(self) -> tuple[int, bool] | None:
        """Buffer a few blocks. Return their end in `data` and whether the frame ends there, or None after a fault."""
        raw, end, is_last, count = self._raw, self._header_bytes, False, 0
        while not is_last and count < _BLOCKS_PER_CHUNK and raw.ensure(end + 3):
            header = int.from_bytes(raw.data[end : end + 3], "little")
            is_last, block_type, size = bool(header & 1), header >> 1 & 3, header >> 3
            if size > _BLOCK_BYTES_MAX or block_type == _RESERVED_BLOCK:
                raw.fault.report("corrupt", "zstd: invalid block header")
                return None
            end += 3 + (1 if block_type == _RLE_BLOCK else size) + (4 if is_last and self._has_checksum else 0)
            count += 1
        if not (is_last or count == _BLOCKS_PER_CHUNK) or not raw.ensure(end):
            raw.fault.report("truncated", "the file ends within a zstd frame")
            return None
        return end, is_last

    def _start_frame(self) -> bool:
        """Skip to the next frame with data, and parse its header. Return False at the end or after a fault."""
        raw = self._raw
        while raw.ensure(8) and _SKIPPABLE_MAGIC.match(raw.data):
            raw.skip(8 + int.from_bytes(raw.data[4:8], "little"))
        if not raw.data:
            return False
        if len(raw.data) < 8 and (ZSTD_MAGIC.startswith(raw.data[:4]) or _SKIPPABLE_MAGIC.match(raw.data)):
            raw.fault.report("truncated", "the file ends within a zstd frame's header")
            return False
        if len(raw.data) < 8 or not raw.data.startswith(ZSTD_MAGIC):
            raw.fault.report("garbage", "a zstd frame is followed by bytes that are not zstd")
            return False
        descriptor = raw.data[4]  # the frame header descriptor of RFC 8878
        is_single_segment = descriptor >> 5 & 1
        dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
        content_size_bytes = (is_single_segment, 2, 4, 8)[descriptor >> 6]
        self._has_checksum = bool(descriptor >> 2 & 1)
        # The first 6 bytes are the magic, the descriptor and, except in a single segment, the window descriptor.
        self._header_bytes = 6 - is_single_segment + dictionary_id_bytes + content_size_bytes
        self.frame_start, self.decoded_bytes, self.in_frame = raw.offset, 0, True
        self._codec = self._decompressor.decompressobj()
        return True

    def _probe(self, index: int) -> bytes:
        self._raw.ensure(index + READ_BYTES)
        data = self._raw.data[index : index + READ_BYTES]
        try:
            return bytes(self._decompressor.stream_reader(data).read(_PROBE_BYTES))
        except zstandard.ZstdError:
            return b""

    def _load_dictionary(self, raw: RawBuffer) -> None:
        """Load the dictionary at the start of the file, if any. If it is invalid, decoding fails later."""
        bytes_max = raw.limits.page_bytes_max
        if not raw.ensure(8) or not raw.data.startswith(_DICTIONARY_MAGIC):
            return
        size = int.from_bytes(raw.data[4:8], "little")
        if size > bytes_max or not raw.ensure(8 + size):
            return
        data = raw.data[8 : 8 + size]
        if data.startswith(ZSTD_MAGIC):
            try:
                data = bytes(self._decompressor.stream_reader(data).read(bytes_max))
            except zstandard.ZstdError:
                return
        dictionary = zstandard.ZstdCompressionDict(data)
        self._decompressor = zstandard.ZstdDecompressor(dictionary, max_window_size=raw.limits.window_bytes_max)


Decoder = PlainDecoder | FrameDecoder
DECODERS: dict[str, type[Decoder]] = {"plain": PlainDecoder, "gzip": GzipDecoder, "zstd": ZstdDecoder}

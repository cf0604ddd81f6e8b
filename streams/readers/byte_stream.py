"""Read the decompressed bytes of a crawl file, with positions from which reading can resume.

A position is a pair (offset, inner offset). In a compressed file, the offset is that of a gzip member or zstd frame,
and the inner offset is the number of decompressed bytes since its start. In a plain file, the offset is that of the
next byte, and the inner offset is 0. At most one chunk and the requested bytes are held in memory.

Bad input raises no exception: reading stops as if the file ended there, and `fault` contains the reason. Without a
fault, `fault.reason` is empty. After a fault, `resync` moves to the next frame that starts with a record.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from streams.readers.compression import CHUNK_BYTES, DECODERS, READ_BYTES, FrameDecoder, IsRecordStart, RawBuffer
from streams.readers.read_limits import ReadLimits

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_WHITESPACE = re.compile(rb"[\r\n\t \0]*")
_NEWLINE = re.compile(rb"\n")

Offsets = tuple[int, int]  # (offset, inner offset)


def _never_record_start(_: bytes) -> bool:
    return False


class ByteStream:
    """The decompressed bytes of a plain, gzip or zstd file, from a position onwards.

    `in_deflated_member` is true if the file is a compressed member of a zip. Even a plain file may then be much
    larger than its stored size.
    """

    def __init__(
        self,
        file: BinaryIO,
        compression: str,
        limits: ReadLimits,
        start: Offsets = (0, 0),
        *,
        in_deflated_member: bool = False,
    ) -> None:
        offset, inner_offset = start
        self._is_plain = compression == "plain"
        # A plain file on disk does not expand while it is read, so any number of its bytes may be skipped.
        self._skip_bytes_max = limits.skip_bytes_max if in_deflated_member or not self._is_plain else None
        self._raw = RawBuffer(
            file, limits, CHUNK_BYTES if self._is_plain else READ_BYTES, in_deflated_member=in_deflated_member
        )
        self.fault = self._raw.fault
        self._decoder = DECODERS[compression](self._raw, offset)
        self._chunk = b""
        self._index = 0  # index of the next byte in the chunk
        self._chunk_offset = self._decoder.decoded_bytes  # offset in the decompressed frame or plain file
        if inner_offset:
            self.skip(inner_offset)

    def position(self) -> Offsets:
        """Return (offset, inner offset) of the next byte."""
        if self._is_plain:
            return self._chunk_offset + self._index, 0
        if self._index == len(self._chunk) and not self._decoder.in_frame:
            return self._raw.offset, 0
        return self._decoder.frame_start, self._chunk_offset + self._index

    def at_frame_start(self) -> bool:
        """Return whether the next byte is the first one of a frame. Call `peek` first to load this byte."""
        return not self._is_plain and self._chunk_offset + self._index == 0

    def peek(self) -> int:
        """Return the next byte without consuming it, or -1 at the end of the stream."""
        while self._index == len(self._chunk):
            if not self._load_chunk():
                return -1
        return self._chunk[self._index]

    def read(self, count: int, is_record_start: IsRecordStart = _never_record_start) -> bytes:
        """Read up to `count` bytes.

        Stop early at the end of the stream, or before a frame that `is_record_start` accepts.
        """
        end = self._index + count
        if end <= len(self._chunk):
            data = self._chunk[self._index : end]
            self._index = end
            return data
        parts = []
        while count and self.peek() >= 0 and not (self.at_frame_start() and is_record_start(self._chunk)):
            part = self._chunk[self._index : self._index + count]
            self._index += len(part)
            count -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, count: int, is_record_start: IsRecordStart = _never_record_start) -> int:
        """Skip up to `count` bytes, stopping early where `read` does. Return the number of bytes skipped.

        Except in a plain file on disk, every method that skips bytes stops with a fault after `skip_bytes_max` bytes.
        """
        skipped = 0
        while skipped < count and self.peek() >= 0 and not (self.at_frame_start() and is_record_start(self._chunk)):
            step = min(count - skipped, len(self._chunk) - self._index)
            self._index += step
            skipped += step
            if self._stop_at_skip_limit(skipped):
                break
        return skipped

    def read_line(self, line_bytes_max: int) -> bytes:
        """Read a line with its newline. The newline is missing if the stream ends or the line exceeds the limit."""
        end = self._chunk.find(b"\n", self._index) + 1
        if 0 < end <= self._index + line_bytes_max:
            line = self._chunk[self._index : end]
            self._index = end
            return line
        parts: list[bytes] = []
        remaining = line_bytes_max
        while remaining > 0 and self.peek() >= 0:
            end = self._chunk.find(b"\n", self._index) + 1 or len(self._chunk)
            part = self.read(min(end - self._index, remaining))
            remaining -= len(part)
            parts.append(part)
            if part.endswith(b"\n"):
                break
        return b"".join(parts)

    def read_match(self, pattern: re.Pattern[bytes], bytes_max: int) -> bytes:
        """Read the bytes that match here, at most to the end of the chunk. The next chunk may continue the match."""
        if self.peek() < 0:
            return b""
        match = pattern.match(self._chunk, self._index, self._index + bytes_max)
        if match is None:
            return b""
        self._index = match.end()
        return match[0]

    def read_header(self, header_bytes_max: int) -> bytes:
        """Read a header with its blank line, which is missing if the stream ends or the header exceeds the limit."""
        match = _BLANK_LINE.search(self._chunk, self._index, self._index + header_bytes_max)
        if match:
            header = self._chunk[self._index : match.end()]
            self._index = match.end()
            return header
        lines: list[bytes] = []
        remaining = header_bytes_max
        while remaining > 0 and (line := self.read_line(remaining)):
            lines.append(line)
            remaining -= len(line)
            if not line.strip(b"\r\n"):
                break
        return b"".join(lines)

    def skip_line(self) -> None:
        if self.skip_to(_NEWLINE, 0):
            self._index += 1

    def skip_whitespace(self) -> int:
        """Skip newlines, tabs, spaces and NULs, which some crawlers leave between records. Return their number."""
        skipped = 0
        while self.peek() >= 0:
            match = _WHITESPACE.match(self._chunk, self._index)
            end = match.end() if match else self._index
            skipped += end - self._index
            self._index = end
            if end < len(self._chunk) or self._stop_at_skip_limit(skipped):
                break
        return skipped

    def skip_to(self, pattern: re.Pattern[bytes], overlap_bytes: int) -> bool:
        """Move to the next match of a pattern. Return False if there is none.

        A match that spans two chunks is found if it begins in the last `overlap_bytes` of the first one.
        """
        skipped = 0
        while self.peek() >= 0:
            match = pattern.search(self._chunk, self._index)
            if match:
                self._index = match.start()
                return True
            skipped += len(self._chunk) - self._index
            tail = self._chunk[max(self._index, len(self._chunk) - overlap_bytes) :]
            self._index = len(self._chunk)
            frame_start = self._decoder.frame_start
            if self._stop_at_skip_limit(skipped) or not self._load_chunk():
                return False
            if self._decoder.frame_start == frame_start:  # a match spans chunks only within a frame
                self._chunk = tail + self._chunk
                self._chunk_offset -= len(tail)
        return False

    def resync(self, is_record_start: IsRecordStart) -> bool:
        """After a fault, move to the next frame that starts with a record. Return False if there is none."""
        self.fault.reason = self.fault.detail = ""
        self._chunk, self._index = b"", 0
        return isinstance(self._decoder, FrameDecoder) and self._decoder.resync(is_record_start)

    def _load_chunk(self) -> bool:
        """Replace the consumed chunk with the next chunk. Return False at the end of the stream."""
        self._chunk, self._index = b"", 0
        if not self.fault.reason and not self._raw.unreadable:
            self._chunk = self._decoder.next_chunk()
        self._chunk_offset = self._decoder.decoded_bytes - len(self._chunk)
        if self._chunk:
            self._raw.bytes_without_output = 0
        return bool(self._chunk)

    def _stop_at_skip_limit(self, skipped: int) -> bool:
        """Report a fault and return True if more bytes were skipped than the limit allows."""
        if self._skip_bytes_max is None or skipped <= self._skip_bytes_max:
            return False
        self._raw.report_skip_limit()
        self._chunk, self._index = b"", 0
        return True

"""Bytes of a plain, gzip or zstd file, with a place to come back to.

A compressed crawl file is many gzip members or zstd frames one after another, mostly one a record; here both are
called frames. A place is (offset, inner): the byte offset of a frame in the file, and the unpacked bytes since its
start. For a plain file `inner` is 0. Whatever the input, at most a chunk and what is asked for are held in memory.

Bad input does not raise: reading ends as at the end of the file, and `fault` says why (a word of REASONS, or empty
for a good end). `resync` then goes on at the next frame that begins with a record.
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

RAW_BYTES = 64 << 10
CHUNK_BYTES = 256 << 10
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_GZIP_PROBE_BYTES = 4096  # enough for the first words of a member
_DICTIONARY = b"\x5d\x2a\x4d\x18"  # a first frame holding the dictionary of all others (IIPC, "WARC zstd")
_BLOCKS_A_CHUNK = 4  # a zstd block unpacks to at most 128 KiB
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_BLANK = re.compile(rb"[\r\n\t \0]*")
BROKEN = (zlib.error, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError)  # of reading a file in a zip


IsRecordStart = Callable[[bytes], bool]  # whether a record begins with these bytes


def _never(_: bytes) -> bool:
    return False


def detect_compression(head: bytes) -> str:
    """`gzip`, `zstd`, `zip` or `plain`, from the first bytes of a file."""
    if head.startswith(GZIP):
        return "gzip"
    if head.startswith(ZSTD) or _SKIPPABLE.match(head):
        return "zstd"
    return "zip" if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else "plain"


class Unpacked:
    """Reads a file from a place on; see the module."""

    def __init__(
        self, raw: BinaryIO, kind: str, limits: ReadLimits, offset: int = 0, inner: int = 0, *, packed: bool = False
    ) -> None:
        """`packed`: `raw` is unpacked while it is read, so that a plain file too may be far larger than its bytes."""
        self.fault = ""
        self.fault_detail = ""
        self._raw = raw
        self._limits = limits
        self._kind = kind
        self._packed = packed
        self._barren = 0  # raw bytes since any gave a byte: padding, empty frames
        self._bounded = packed or kind != "plain"  # else passing over bytes costs no more than they take on disk
        self._fill = {"plain": self._fill_plain, "gzip": self._fill_gzip, "zstd": self._fill_zstd}[kind]
        self._rest = b""  # raw bytes read and not yet used, the first at `_rest_at`
        self._rest_at = 0
        self._dead = False  # the file below cannot be read on
        self._dictionary: zstandard.ZstdCompressionDict | None = None
        self._zstd: zstandard.ZstdDecompressor | None = None
        if kind == "zstd":
            self._load_dictionary()
        self._move(offset)
        self._frame = offset
        self._codec: object | None = None  # None between frames
        self._checksum = False  # zstd: the frame ends with one
        self._header = 0  # zstd: bytes of the frame's header, not yet given to the codec
        self._chunk = b""
        self._base = offset if kind == "plain" else 0  # of the chunk: in the file, or in its frame unpacked
        self._pos = 0
        if inner:
            self.skip(inner)

    def place(self) -> tuple[int, int]:
        """Where the next byte is: (offset, inner)."""
        if self._kind == "plain":
            return self._base + self._pos, 0
        if self._pos == len(self._chunk) and self._codec is None:
            return self._rest_at, 0
        return self._frame, self._base + self._pos

    def at_frame_start(self) -> bool:
        """Whether the chunk at hand begins a frame and nothing of it was read."""
        return self._kind != "plain" and self._base + self._pos == 0

    def first(self) -> int:
        """The next byte, left where it is; -1 at the end."""
        while self._pos == len(self._chunk):
            if not self._next():
                return -1
        return self._chunk[self._pos]

    def read(self, count: int, begins: IsRecordStart = _never) -> bytes:
        """Up to `count` bytes; fewer at the end, and before a frame that begins with a record."""
        end = self._pos + count
        if end <= len(self._chunk):
            data = self._chunk[self._pos : end]
            self._pos = end
            return data
        parts = []
        while count and self.first() >= 0 and not (self.at_frame_start() and begins(self._chunk)):
            part = self._chunk[self._pos : self._pos + count]
            self._pos += len(part)
            count -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, count: int, begins: IsRecordStart = _never) -> int:
        """Like `read`, without the bytes; returns how many. Past `skip_bytes_max` a packed file ends with a fault."""
        done = 0
        while done < count and self.first() >= 0 and not (self.at_frame_start() and begins(self._chunk)):
            step = min(count - done, len(self._chunk) - self._pos)
            self._pos += step
            done += step
            if self._gone_too_far(done):
                break
        return done

    def readline(self, line_bytes_max: int) -> bytes:
        """A line with its newline; without one at the end, or where the line is longer than the limit."""
        end = self._chunk.find(b"\n", self._pos) + 1
        if 0 < end <= self._pos + line_bytes_max:
            line = self._chunk[self._pos : end]
            self._pos = end
            return line
        parts: list[bytes] = []
        room = line_bytes_max
        while room > 0 and self.first() >= 0:
            end = self._chunk.find(b"\n", self._pos) + 1 or len(self._chunk)
            part = self._chunk[self._pos : min(end, self._pos + room)]
            self._pos += len(part)
            room -= len(part)
            parts.append(part)
            if part.endswith(b"\n"):
                break
        return b"".join(parts)

    def read_head(self, head_bytes_max: int) -> bytes:
        """Lines up to and with an empty one; without it at the end, or where they are longer than the limit."""
        found = _BLANK_LINE.search(self._chunk, self._pos, self._pos + head_bytes_max)
        if found:
            head = self._chunk[self._pos : found.end()]
            self._pos = found.end()
            return head
        lines: list[bytes] = []
        room = head_bytes_max
        while room > 0 and (line := self.readline(room)):
            lines.append(line)
            room -= len(line)
            if not line.strip(b"\r\n"):
                break
        return b"".join(lines)

    def skip_line(self) -> None:
        """Pass over the rest of a line that was too long to keep."""
        done = 0
        while self.first() >= 0:
            end = self._chunk.find(b"\n", self._pos) + 1
            done += (end or len(self._chunk)) - self._pos
            self._pos = end or len(self._chunk)
            if end or self._gone_too_far(done):
                return

    def skip_blank(self) -> int:
        """Pass over newlines, spaces and NULs, which some writers leave between records; returns how many.

        Past `skip_bytes_max` a packed file ends with a fault.
        """
        done = 0
        while self.first() >= 0:
            found = _BLANK.match(self._chunk, self._pos)
            end = found.end() if found else self._pos
            done += end - self._pos
            self._pos = end
            if end < len(self._chunk) or self._gone_too_far(done):
                break
        return done

    def find(self, pattern: re.Pattern[bytes], keep: int) -> bool:
        """Move to the next match, which is shorter than `keep` bytes; False at the end."""
        done = 0
        while self.first() >= 0:
            found = pattern.search(self._chunk, self._pos)
            if found:
                self._pos = found.start()
                return True
            done += len(self._chunk) - self._pos
            tail = self._chunk[max(self._pos, len(self._chunk) - keep) :]
            self._pos = len(self._chunk)
            frame = self._frame
            if self._gone_too_far(done) or not self._next():
                return False
            if self._frame == frame or self._kind == "plain":  # a header cut in two by a chunk's end
                self._chunk = tail + self._chunk
                self._base -= len(tail)
        return False

    def resync(self, accept: IsRecordStart) -> bool:
        """After a fault: go on at the next frame whose first bytes `accept` takes. False: there is none."""
        start = self._rest_at if self._codec is None else self._frame + 1
        self.fault = self.fault_detail = ""
        self._chunk, self._pos, self._codec = b"", 0, None
        if self._dead or self._kind == "plain" or not self._raw.seekable():
            return False
        magic = GZIP + b"\x08" if self._kind == "gzip" else ZSTD
        self._move(start)
        seen = 0  # raw bytes at hand that begin no record
        while self._have(seen + len(magic)):
            at = self._rest.find(magic, seen)
            if at < 0 or at > RAW_BYTES:  # drop what is behind us
                self._use(at if at > 0 else len(self._rest) - len(magic) + 1)
                seen = 0
                continue
            if accept(self._probe(at)):
                self._use(at)
                return True
            seen = at + 1
        return False

    def _probe(self, at: int) -> bytes:
        """The first unpacked bytes of what may be a frame, `at` bytes into the raw bytes at hand."""
        size = _GZIP_PROBE_BYTES if self._kind == "gzip" else RAW_BYTES
        self._have(at + size)
        head = self._rest[at : at + size]
        try:
            if self._kind == "gzip":
                return zlib.decompressobj(31).decompress(head, 4096)
            reader = self._decompressor().stream_reader(head)
            return bytes(reader.read(4096))
        except (zlib.error, zstandard.ZstdError):
            return b""

    def _next(self) -> bool:
        """The chunk is used up: get another."""
        self._base += len(self._chunk)
        self._chunk, self._pos = b"", 0
        if self.fault or self._dead:
            return False
        self._chunk = self._fill()
        if self._chunk:
            self._barren = 0
        return bool(self._chunk)

    def _fill_plain(self) -> bytes:
        if not self._have(1):
            return b""
        chunk = self._rest
        self._use(len(chunk))
        return chunk

    def _fill_gzip(self) -> bytes:
        while True:
            if self._codec is None:
                self._pass_zeros()
                if not self._have(2) and not self._rest:
                    return b""
                if not GZIP.startswith(self._rest[:2]):
                    return self._fail("garbage", "bytes after a gzip member that begin no other")
                self._frame, self._base, self._codec = self._rest_at, 0, zlib.decompressobj(31)
            codec = self._codec
            assert isinstance(codec, type(zlib.decompressobj()))
            ended = not self._have(1)
            try:
                out: bytes = codec.decompress(self._rest, CHUNK_BYTES)
            except zlib.error as error:
                return self._fail("corrupt", f"gzip: {error}")
            self._use(len(self._rest) - len(codec.unused_data if codec.eof else codec.unconsumed_tail))
            if codec.eof:
                self._codec = None
            if out:
                return out
            if ended and not codec.eof:
                return self._fail("truncated", "the file ends within a gzip member")

    def _pass_zeros(self) -> None:
        """Tape blocks and pre-allocated files leave zeros after a member, which gzip(1) passes over too."""
        while self._have(1) and not self._rest[0]:
            self._use(len(self._rest) - len(self._rest.lstrip(b"\0")))

    def _fill_zstd(self) -> bytes:
        """A few whole blocks at a time: their headers are walked here, since one call may unpack to gigabytes."""
        while True:
            if self._codec is None and not self._begin_zstd():
                return b""
            end, last = self._header, False
            for _ in range(_BLOCKS_A_CHUNK):
                if not self._have(end + 3):
                    return self._fail("truncated", "the file ends within a zstd frame")
                block = int.from_bytes(self._rest[end : end + 3], "little")
                last = bool(block & 1)
                end += 3 + (1 if block >> 1 & 3 == 1 else block >> 3) + (4 if last and self._checksum else 0)
                if block >> 3 > 128 << 10 or block >> 1 & 3 == 3:
                    return self._fail("corrupt", "zstd: impossible block")
                if last:
                    break
            if not self._have(end):
                return self._fail("truncated", "the file ends within a zstd frame")
            self._header = 0
            try:
                out: bytes = self._codec.decompress(self._rest[:end])  # type: ignore[union-attr]
            except zstandard.ZstdError as error:
                return self._fail("corrupt", f"zstd: {error}")
            self._use(end)
            if last:
                self._codec = None
            if out:
                return out

    def _begin_zstd(self) -> bool:
        """To the next frame's start, past frames that are to be skipped."""
        while self._have(1):
            if not self._have(8):
                begun = ZSTD.startswith(self._rest[:4]) or _SKIPPABLE.match(self._rest)
                self._fail("truncated" if begun else "garbage", "the file ends within a zstd frame's header")
                return False
            if not _SKIPPABLE.match(self._rest):
                break
            self._pass_raw(8 + int.from_bytes(self._rest[4:8], "little"))
        if not self._rest:
            return False
        if not self._rest.startswith(ZSTD):
            self._fail("garbage", "bytes after a zstd frame that begin no other")
            return False
        descriptor = self._rest[4]
        single = descriptor >> 5 & 1
        self._checksum = bool(descriptor >> 2 & 1)
        self._header = 6 - single + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
        self._frame, self._base = self._rest_at, 0
        self._codec = self._decompressor().decompressobj()
        return True

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        if self._zstd is None:
            self._zstd = zstandard.ZstdDecompressor(
                dict_data=self._dictionary, max_window_size=self._limits.window_bytes_max
            )
        return self._zstd

    def _load_dictionary(self) -> None:
        if not self._have(8) or not self._rest.startswith(_DICTIONARY):
            return
        size = int.from_bytes(self._rest[4:8], "little")
        if size > self._limits.page_bytes_max or not self._have(8 + size):
            return  # the first frame then fails, for want of it
        data = self._rest[8 : 8 + size]
        if data.startswith(ZSTD):
            try:
                data = bytes(self._decompressor().stream_reader(data).read(self._limits.page_bytes_max))
            except zstandard.ZstdError:
                return
        self._dictionary, self._zstd = zstandard.ZstdCompressionDict(data), None

    def _fail(self, reason: str, detail: str) -> bytes:
        if not self.fault:  # else what is said is its consequence: a file that breaks off seems to end
            self.fault, self.fault_detail = reason, detail
        return b""

    def _too_big(self) -> bytes:
        detail = f"more than skip_bytes_max {self._limits.skip_bytes_max} unpacked bytes without a record"
        return self._fail("too_big", detail)

    def _gone_too_far(self, count: int) -> bool:
        if count <= self._limits.skip_bytes_max or not self._bounded:
            return False
        self._too_big()
        self._chunk, self._pos = b"", 0
        return True

    def _have(self, count: int) -> bool:
        """Make at least `count` raw bytes available; False where the file has no more."""
        while len(self._rest) < count:
            data = self._read_raw()
            if not data:
                return False
            self._rest = self._rest + data if self._rest else data
        return True

    def _use(self, count: int) -> None:
        self._rest_at += count
        self._rest = self._rest[count:]

    def _pass_raw(self, count: int) -> None:
        while count and self._have(1):
            step = min(count, len(self._rest))
            self._use(step)
            count -= step

    def _read_raw(self) -> bytes:
        if self._dead:
            return b""
        if self._packed and self._barren > self._limits.skip_bytes_max:
            self._dead = True
            return self._too_big()
        try:
            data = self._raw.read(CHUNK_BYTES if self._kind == "plain" else RAW_BYTES)
        except BROKEN as error:  # a member of a broken zip
            self._dead = True
            return self._fail("corrupt", f"zip: {error}"[:500])
        except OSError as error:
            name = getattr(self._raw, "name", "the input")
            raise ReadError(f"Cannot read {name}: {error}", "Check the disk, then run the same again.") from error
        self._barren += len(data)
        return data

    def _move(self, offset: int) -> None:
        if self._rest_at <= offset <= self._rest_at + len(self._rest):
            self._use(offset - self._rest_at)
        elif self._raw.seekable():
            self._raw.seek(offset)
            self._rest, self._rest_at = b"", offset
        else:
            self._pass_raw(offset - self._rest_at)

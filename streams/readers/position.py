"""Positions from which reading can resume, and marks that show whether the input has changed since.

    before │ head │ ...   │ tail │ position   bytes added later

A mark is stored with a position. It contains three digests: of the first bytes of the file (`head`), of the last
bytes before the position (`tail`), and of all files read earlier (`before`). A file that has grown still matches its
mark. A rewritten file does not match, and is read from its beginning. Bytes after the position are not digested, so
bad records there can be repaired. The mark of a pipe covers only its first bytes.
"""

from __future__ import annotations

from typing import BinaryIO

import mmh3
import msgspec

from streams.page import Page, Rejected

TAIL_BYTES = 4 << 10  # at most this many bytes before a position are digested


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The position right after an item: reading from this position returns exactly the items that follow.

    `offset` is a byte offset in the file, or in `member`, a file inside a WACZ. In a compressed file it is the offset
    of a gzip member or zstd frame, and `inner_offset` is the number of decompressed bytes since its start.
    `next_line` is the number of the next line, row or element, counted from 0. An HTML file is one element. In WARC
    and ARC files, `next_line` is always 0.

    `cut_off` is set if the input ended within the item or could not be read any further. The position is then the
    start of the item. Reading from there skips the item as long as the input still ends within it.
    """

    source: str
    member: str = ""
    offset: int = 0
    inner_offset: int = msgspec.field(default=0, name="inner")
    next_line: int = msgspec.field(default=0, name="line")
    cut_off: bool = msgspec.field(default=False, name="cut")

    def moved_to(self, offsets: tuple[int, int], next_line: int = 0, *, cut_off: bool) -> Position:
        """Return the position in the same file at these offsets, as `ByteStream.position` returns them."""
        offset, inner_offset = offsets
        return msgspec.structs.replace(
            self, offset=offset, inner_offset=inner_offset, next_line=next_line, cut_off=cut_off
        )


PositionedItem = tuple[Position, Page | Rejected]


class InputMark(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of an input up to a position. A digest is in hex, and empty if there was nothing to digest."""

    before_digest: str = msgspec.field(name="before")
    head_bytes: int
    head_digest: str = msgspec.field(name="head")
    tail_end: int = msgspec.field(name="until")  # offset in the file at which the digested tail ends
    tail_digest: str = msgspec.field(name="tail")


class FileDigester:
    """Computes the marks and digests of an open file, without moving the file's read position."""

    def __init__(self, name: str, head: bytes, file: BinaryIO) -> None:
        self.name = name
        self._head = head
        self._file = file
        self._size = 0
        if file.seekable():
            offset = file.tell()
            self._size = file.seek(0, 2)
            file.seek(offset)

    def mark(self, position: Position, before_digest: str) -> InputMark:
        """Return the mark of a position in this file. `before_digest` is the digest of all earlier files."""
        # The directory at the end of a WACZ was read too, so the mark covers the whole file.
        tail_end = self._size if position.member else position.offset
        # If `inner_offset` is set, bytes after `offset` were read too.
        head = self._head if position.member or position.inner_offset else self._head[:tail_end]
        return InputMark(
            before_digest=before_digest,
            head_bytes=len(head),
            head_digest=_digest(head),
            tail_end=tail_end,
            tail_digest=self._digest_tail(tail_end),
        )

    def matches(self, mark: InputMark) -> bool:
        """Return whether the mark was made from this file. The file may have grown since."""
        if _digest(self._head[: mark.head_bytes]) != mark.head_digest:
            return False
        if not mark.tail_digest or not self._file.seekable():
            return True  # only the first bytes of a pipe can be compared
        return self._digest_tail(mark.tail_end) == mark.tail_digest

    def digest(self) -> str:
        """Return a digest that changes if the file is replaced or grows. For a pipe, digest only its first bytes."""
        return _digest(b"%d " % self._size + self._head + self._digest_tail(self._size).encode())

    def _digest_tail(self, end: int) -> str:
        if not self._file.seekable():
            return ""
        offset = self._file.tell()
        start = self._file.seek(max(0, end - TAIL_BYTES))
        tail = self._file.read(end - start)
        self._file.seek(offset)
        return _digest(tail)


def combine_digests(before_digest: str, file_digest: str) -> str:
    """Combine the digest of all earlier files with the digest of the next file."""
    return _digest((before_digest + file_digest).encode())


def _digest(data: bytes) -> str:
    return mmh3.mmh3_x64_128_digest(data).hex()

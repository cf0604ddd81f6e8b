"""Positions from which reading can resume, and marks that show whether the input has changed since.

    before │ head │ ...   │ tail │ position   bytes added later

A mark is stored with a position. It contains a digest of the first bytes of the file (`head`), one of the last bytes
before the position (`tail`), and one of all files read earlier (`before`). A file that has grown still matches its
mark. A rewritten file does not, and is read from its start. A mark does not cover the bytes after the position, so
bad records there can be repaired. The mark of a pipe covers only its first bytes.
"""

from __future__ import annotations

from typing import BinaryIO

import mmh3
import msgspec

from streams.page import Page, Rejected

TAIL_BYTES = 4 << 10


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The position right after an item: reading from it returns exactly the items that follow.

    `offset` is a byte offset in the file, or in `member`, a file inside a WACZ. In a compressed file it is the offset
    of a gzip member or zstd frame, and `inner` is the number of decompressed bytes since its start. `line` is the
    number of the next line, counted from 0, and used only for JSONL.

    `cut` is set if the input ended within the item or could not be read any further. Then the position is that of the
    item's start. Reading from it returns the item again only if it is no longer cut off.
    """

    source: str
    member: str = ""
    offset: int = 0
    inner: int = 0
    line: int = 0
    cut: bool = False


PositionedItem = tuple[Position, Page | Rejected]


class InputMark(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of an input up to a position. A digest is in hex, and empty if there was nothing to digest."""

    before: str
    head_bytes: int
    head: str
    until: int  # offset at which the bytes digested in `tail` end
    tail: str


class InputFile:
    """An open file and its first bytes. No method changes where the file is read next."""

    def __init__(self, name: str, head: bytes, file: BinaryIO) -> None:
        self.name = name
        self._head = head
        self._file = file
        self._size = 0
        if file.seekable():
            offset = file.tell()
            self._size = file.seek(0, 2)
            file.seek(offset)

    def mark(self, position: Position, before: str) -> InputMark:
        """Return the mark of a position in this file. `before` is the digest of all earlier files."""
        # A WACZ has its directory at the end, so all of it was used. With `inner`, bytes after `offset` were used.
        until = self._size if position.member else position.offset
        head = self._head if position.member or position.inner else self._head[:until]
        tail = self._tail_digest(until)
        return InputMark(before=before, head_bytes=len(head), head=_digest(head), until=until, tail=tail)

    def matches(self, mark: InputMark) -> bool:
        """Return whether this is the file of the mark. The file may have grown since."""
        if _digest(self._head[: mark.head_bytes]) != mark.head:
            return False
        return not mark.tail or not self._file.seekable() or self._tail_digest(mark.until) == mark.tail

    def digest(self) -> str:
        """Return a digest that changes if the file is replaced or grows. For a pipe, digest only its first bytes."""
        return _digest(b"%d " % self._size + self._head + self._tail_digest(self._size).encode())

    def _tail_digest(self, until: int) -> str:
        if not self._file.seekable():
            return ""
        offset = self._file.tell()
        start = self._file.seek(max(0, until - TAIL_BYTES))
        tail = self._file.read(until - start)
        self._file.seek(offset)
        return _digest(tail)


def combine_digests(before: str, digest: str) -> str:
    """Combine the digest of all earlier files with that of the next file."""
    return _digest((before + digest).encode())


def _digest(data: bytes) -> str:
    return mmh3.mmh3_x64_128_digest(data).hex()

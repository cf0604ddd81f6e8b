"""Recognise an input that has changed since it was read, so that replaced files are read from their start.

    before │ head │ ...   │ tail │ position   bytes added later

A mark is stored with a position. It has digests of the first bytes of the file and of the last bytes before the
position, and one digest of all files that were read before it. A file that has grown still matches its mark. A file
that was rewritten does not, and is read from its start. Bytes after the position are not part of a mark, so that bad
records there may be repaired. For a pipe, only the first bytes count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import mmh3
import msgspec

from streams.readers import sources
from streams.readers.position import Position
from streams.readers.sources import Source

TAIL_BYTES = 4 << 10


class InputMark(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of an input up to a position; digests are hex, and empty if there was nothing to digest."""

    before: str
    head_bytes: int
    head: str
    until: int  # where the bytes of `tail` end
    tail: str


class InputFile:
    """An open file with its first bytes. Its methods leave the file's own position unchanged."""

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
        """Return the mark of a position in this file; `before` is the digest of the files read before it."""
        # In a WACZ, whose directory is at its end, and in a gzip member the offset does not show how much was read.
        until = self._size if position.member else position.offset
        head = self._head if position.member or position.inner else self._head[:until]
        return InputMark(
            before=before, head_bytes=len(head), head=_digest(head), until=until, tail=self._tail_digest(until)
        )

    def matches(self, mark: InputMark) -> bool:
        """Whether this is the file of the mark, which may have grown since."""
        if _digest(self._head[: mark.head_bytes]) != mark.head:
            return False
        return not mark.tail or not self._file.seekable() or self._tail_digest(mark.until) == mark.tail

    def digest(self) -> str:
        """Return a digest that changes if the file is replaced or grows; for a pipe, of its first bytes only."""
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
    """Combine the digest of the files before with that of the next file."""
    return _digest((before + digest).encode())


def digest_files(files: Iterable[Source]) -> str | None:
    """Return the digest of files as they are now; None if one is a pipe, which cannot be read again."""
    before = ""
    for source in files:
        if not source.regular:
            return None
        with sources.open_source(source.name) as file:
            before = combine_digests(before, InputFile(source.name, *sources.read_head(file)).digest())
    return before


def _digest(data: bytes) -> str:
    return mmh3.mmh3_x64_128_digest(data).hex()

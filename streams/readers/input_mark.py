"""Telling an input from another one of the same name, so that nothing is passed over which was never read.

    before │ head │ ...   │ tail │ position   what came behind

A mark is kept with a position: digests of the first bytes of the file and of the last ones before the position, and
one over the files that were read before it. A file that has grown fits its mark; one that was written anew does not,
and is read from its start. Bytes behind the position are in no mark, so that bad records there may be mended. A pipe
is told by its first bytes alone.
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


class InputMark(msgspec.Struct, frozen=True):
    """What an input was when it was read up to a position; digests are hex, empty where there was nothing to see."""

    before: str
    head_bytes: int
    head: str
    until: int  # where the bytes of `tail` end
    tail: str


class InputFile:
    """An open file with its first bytes; what is read of it here moves nothing."""

    def __init__(self, name: str, head: bytes, file: BinaryIO) -> None:
        self.name = name
        self._head = head
        self._file = file
        self._size = 0
        if file.seekable():
            at = file.tell()
            self._size = file.seek(0, 2)
            file.seek(at)

    def mark(self, position: Position, before: str) -> InputMark:
        """The mark of a position in this file."""
        # In a WACZ, whose directory is at its end, and in a gzip member a position says little of what was read.
        until = self._size if position.member else position.offset
        head = self._head if position.member or position.inner else self._head[:until]
        return InputMark(before, len(head), _digest(head), until, self._tail(until))

    def matches(self, mark: InputMark) -> bool:
        """Whether this file is the one of the mark, which may have grown."""
        if _digest(self._head[: mark.head_bytes]) != mark.head:
            return False
        return not mark.tail or not self._file.seekable() or self._tail(mark.until) == mark.tail

    def digest(self) -> str:
        """A digest that changes with the file, and when it grows; of a pipe it says nothing."""
        return _digest(b"%d " % self._size + self._head + self._tail(self._size).encode())

    def _tail(self, until: int) -> str:
        if not self._file.seekable():
            return ""
        at = self._file.tell()
        start = self._file.seek(max(0, until - TAIL_BYTES))
        tail = self._file.read(until - start)
        self._file.seek(at)
        return _digest(tail)


def combine_digests(before: str, whole: str) -> str:
    """The digest over some files and the next one."""
    return _digest((before + whole).encode())


def digest_files(files: Iterable[Source]) -> str | None:
    """The digest over files as they are now; None where one is a pipe, of which that cannot be told."""
    before = ""
    for source in files:
        if not source.regular:
            return None
        with sources.open_source(source.name) as file:
            before = combine_digests(before, InputFile(source.name, *sources.read_head(file)).digest())
    return before


def _digest(data: bytes) -> str:
    return mmh3.mmh3_x64_128_digest(data).hex()

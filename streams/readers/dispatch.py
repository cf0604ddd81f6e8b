"""InputReader crawl files: paths in, pages out, one after another.

    reading = read(paths, ReadLimits())
    for position, item in reading:
        ...                                          # item: Page or Rejected
    read(paths, limits, position, reading.mark())    # the items after that one, exactly

Formats (WARC, ARC, WET, WACZ, JSONL; plain, gzip or zstd) are told by first bytes, and by the name where those say
nothing.
Bad content never raises: it comes as a Rejected whose reason is a word of `REASONS`. Paths that are missing or cannot
be read raise ReadError. Memory is bounded by the limits, whatever the input. See docs/formats-input.md.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from streams.errors import ReadError
from streams.page import REASONS, Origin, Rejected
from streams.readers import arc, input_mark, jsonl, records, sources, wacz, warc
from streams.readers.input_mark import InputMark
from streams.readers.position import Item, Position
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused
from streams.readers.unpack import Unpacked, detect_compression

__all__ = ["REASONS", "InputMark", "InputReader", "Item", "Position", "ReadLimits", "read", "total_bytes"]

Paths = Iterable[str | os.PathLike[str]]
_END = 2**63 - 1  # in old states, the offset of a position after which nothing is to be read


def read(
    paths: Paths, limits: ReadLimits | None = None, start: Position | None = None, mark: InputMark | None = None
) -> InputReader:
    """All pages and refusals of files, folders and `-`, in order; with `start`, those after that position.

    `mark` is that of `start`. Files that do not fit it are others than were read, and are read from their start.
    Raises ReadError when a path is missing or cannot be read, or `start` is in none of them.
    """
    files = sources.list_sources(paths)
    if start is not None and start.source not in {source.name for source in files}:
        raise ReadError(
            f"Cannot go on after {start.source}: it is not among the {len(files)} files to read",
            "Name the same paths as the first time, or begin another sweep.",
        )
    return InputReader(files, limits or ReadLimits(), start, mark)


def total_bytes(paths: Paths) -> int:
    """Bytes that there are to read, as they lie on disk, for progress; standard input counts 0."""
    return sum(source.size for source in sources.list_sources(paths))


class InputReader(Iterator[Item]):
    """An iterator over items that knows how far it is.

    `input_unchanged`: the input still fits the mark that was passed in; valid after the first item, or at the end.
    """

    def __init__(
        self, files: list[sources.Source], limits: ReadLimits, start: Position | None, mark: InputMark | None
    ) -> None:
        self.input_unchanged = True
        self._limits = limits
        self._bytes_before = 0
        self._file: BinaryIO | None = None
        self._before = ""  # digest over the files read to their end
        self._last: Position | None = None
        self._input: input_mark.InputFile | None = None  # of the file at hand
        self._mark: InputMark | None = None  # of the last position, where that was in a file read to its end
        self._items = self._all(files, start, mark)

    def __next__(self) -> Item:
        item = next(self._items)
        self._last = item[0]
        return item

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as they lie on disk; of `total_bytes`. A pipe has none."""
        if self._file is None or self._file.closed or not self._file.seekable():
            return self._bytes_before
        return self._bytes_before + self._file.tell()

    def mark(self) -> InputMark | None:
        """What the input is up to the last item, for going on behind it; None before the first."""
        self._take_mark()
        return self._mark

    def _take_mark(self) -> None:
        if self._input is not None and self._last is not None and self._last.source == self._input.name:
            self._mark = self._input.mark(self._last, self._before)

    def _all(self, files: list[sources.Source], start: Position | None, mark: InputMark | None) -> Iterator[Item]:
        if start is not None:
            names = [source.name for source in files]
            before = input_mark.digest_files(files[: names.index(start.source)])
            if mark is None or before == mark.before:
                self._before = before or ""
            else:
                start, mark, self.input_unchanged = None, None, False
        for source in files:
            if start is None or start.source == source.name:
                after, start = start or Position(source.name), None
                with sources.open_source(source.name) as self._file:
                    yield from self._of_file(self._file, after, mark)
                mark = None
            self._bytes_before += source.size

    def _of_file(self, file: BinaryIO, after: Position, mark: InputMark | None) -> Iterator[Item]:
        head, file = sources.read_head(file)
        self._input = input_mark.InputFile(after.source, head, file)
        whole = self._input.digest()  # as it is now: what it grows by while it is read may not be read
        if mark is not None and not self._input.matches(mark):
            after, self.input_unchanged = Position(after.source), False
        yield from _unless_given(_items(head, file, after, self._limits), after)
        self._take_mark()
        self._input, self._before = None, input_mark.combine_digests(self._before, whole)


def _unless_given(items: Iterator[Item], after: Position) -> Iterator[Item]:
    """Without the first, where it is the one that was cut off at this position, and still is."""
    if after.cut:
        for position, item in items:
            if not (position.cut and (position.member, position.offset) == (after.member, after.offset)):
                yield position, item
            break
    yield from items


def _items(head: bytes, file: BinaryIO, after: Position, limits: ReadLimits) -> Iterator[Item]:
    """The items of one file, which begins with `head`, after a position in it."""
    source = after.source
    if after.offset == _END and not after.member:
        return
    form = sources.detect_format(head, source)
    if form == "wacz" and detect_compression(head) == "zip":
        yield from _wacz_items(file, after, limits)
    elif form in {"", "wacz"}:
        if head:
            detail = f"{source} begins with {head[:16]!r}, which is no WARC, ARC, WET, WACZ or JSONL"
            yield Position(source, cut=True), Rejected("unknown_format", detail, Origin(source, 0))
    else:
        stream = Unpacked(file, detect_compression(head), limits, after.offset, after.inner)
        yield from _walk(stream, form, after, limits)


def _walk(stream: Unpacked, form: str, after: Position, limits: ReadLimits) -> Iterator[Item]:
    if form == "jsonl":
        return jsonl.read_items(stream, limits, after.source, after.member, after.line)
    framing = warc.FRAMING if form == "warc" else arc.FRAMING
    return records.read_items(stream, framing, limits, after.source, after.member)


def _wacz_items(file: BinaryIO, after: Position, limits: ReadLimits) -> Iterator[Item]:
    source = after.source
    if not file.seekable():
        raise ReadError("A WACZ cannot be read from standard input", "Save it to a file and name that.")
    try:
        archive = wacz.open_archive(file, limits)
    except Refused as error:
        yield Position(source, cut=True), Rejected(error.reason, error.detail, Origin(source, 0))
        return
    with archive:
        for name in wacz.list_warcs(archive):
            if name >= after.member:
                here = after if name == after.member else Position(source, name)
                yield from _member_items(archive, here, limits)


def _member_items(archive: zipfile.ZipFile, after: Position, limits: ReadLimits) -> Iterator[Item]:
    source, name = after.source, after.member
    if after.offset == _END:
        return
    try:
        head = wacz.read_member_head(archive, name)
        with wacz.open_member(archive, name) as raw:
            packed = wacz.is_compressed(archive, name)
            stream = Unpacked(raw, detect_compression(head), limits, after.offset, after.inner, packed=packed)
            yield from _walk(stream, sources.detect_format(head, name), after, limits)
    except Refused as error:
        yield Position(source, name, cut=True), Rejected(error.reason, error.detail, Origin(source, 0, name))

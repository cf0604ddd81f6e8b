"""Read pages from files, folders or standard input, with the reader for the format of each file.

The format of a file (WARC, ARC, WET, WACZ or JSONL; plain, gzip or zstd) is detected from its first bytes, or from
its name if they show no format.

Bad content raises no exception: it becomes a Rejected, whose reason is a key of `REJECTION_REASONS`. A path that is
missing or cannot be read raises ReadError. ReadLimits bounds memory use for any input. See docs/formats-input.md.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from streams.errors import ReadError
from streams.page import Origin, Rejected
from streams.readers import arc, jsonl, records, sources, wacz, warc
from streams.readers.byte_stream import ByteStream
from streams.readers.compression import detect_compression
from streams.readers.position import InputFile, InputMark, Position, PositionedItem, combine_digests
from streams.readers.read_limits import ContentError, ReadLimits

Paths = Iterable[str | os.PathLike[str]]


def read(
    paths: Paths, limits: ReadLimits | None = None, after: Position | None = None, mark: InputMark | None = None
) -> InputReader:
    """Return a reader of all pages and rejections in files, folders and `-`, in order.

    If `after` is given, start after that position. `mark` is its mark: files that do not match the mark have been
    replaced, and are read from their start. Raise ReadError if a path or the file of `after` is missing.
    """
    files = sources.list_sources(paths)
    if after is not None and after.source not in {source.name for source in files}:
        problem = f"cannot resume after {after.source}: it is not among the {len(files)} files to read"
        raise ReadError(problem, "name the same paths as the first time, or start a new sweep")
    return InputReader(files, limits or ReadLimits(), after, mark)


def total_bytes(paths: Paths) -> int:
    """Return the size of the input on disk, for progress bars. Pipes have size 0."""
    return sum(source.size for source in sources.list_sources(paths))


class InputReader(Iterator[PositionedItem]):
    """An iterator over items that tracks how far it has read.

    `input_unchanged` says whether the input matches `mark`. It is valid after the first item, or at the end.
    """

    def __init__(
        self, files: list[sources.Source], limits: ReadLimits, after: Position | None, mark: InputMark | None
    ) -> None:
        self.input_unchanged = True
        self._limits = limits
        self._finished_bytes = 0  # total size of the files that were read to their end
        self._finished_digest = ""  # digest of the same files
        self._file: BinaryIO | None = None  # the current file
        self._input_file: InputFile | None = None  # wraps the current file to compute marks
        self._last_position: Position | None = None
        self._mark: InputMark | None = None  # mark of the last item, if the file of that item has ended
        self._items = self._read_files(files, after, mark)

    def __next__(self) -> PositionedItem:
        item = next(self._items)
        self._last_position = item[0]
        return item

    @property
    def bytes_read(self) -> int:
        """Number of bytes read so far, out of `total_bytes`. Bytes from pipes are not counted."""
        if self._file is None or self._file.closed or not self._file.seekable():
            return self._finished_bytes
        return self._finished_bytes + self._file.tell()

    def mark(self) -> InputMark | None:
        """Return the mark of the last item's position, or None before the first item."""
        file, position = self._input_file, self._last_position
        if file is not None and position is not None and position.source == file.name:
            self._mark = file.mark(position, self._finished_digest)
        return self._mark

    def _read_files(
        self, files: list[sources.Source], after: Position | None, mark: InputMark | None
    ) -> Iterator[PositionedItem]:
        if after is not None:
            names = [source.name for source in files]
            digest = sources.digest_files(files[: names.index(after.source)])
            if mark is None or digest == mark.before:
                self._finished_digest = digest or ""
            else:
                after, mark, self.input_unchanged = None, None, False
        for source in files:
            if after is None or after.source == source.name:
                with sources.open_source(source.name) as self._file:
                    yield from self._read_file(self._file, after or Position(source=source.name), mark)
                after, mark = None, None
            self._finished_bytes += source.size

    def _read_file(self, file: BinaryIO, after: Position, mark: InputMark | None) -> Iterator[PositionedItem]:
        head, file = sources.read_head(file)
        self._input_file = InputFile(after.source, head, file)
        digest = self._input_file.digest()  # before reading: bytes that are appended from now on may remain unread
        if mark is not None and not self._input_file.matches(mark):
            after, self.input_unchanged = Position(source=after.source), False
        yield from _skip_repeated(_read_items(head, file, after, self._limits), after)
        self.mark()
        self._input_file, self._finished_digest = None, combine_digests(self._finished_digest, digest)


def _skip_repeated(items: Iterator[PositionedItem], after: Position) -> Iterator[PositionedItem]:
    """Skip the first item if an earlier run returned it as cut off (`after.cut`) and it is still cut off."""
    first = next(items, None) if after.cut else None
    if first and not (first[0].cut and (first[0].member, first[0].offset) == (after.member, after.offset)):
        yield first
    yield from items


def _read_items(head: bytes, file: BinaryIO, after: Position, limits: ReadLimits) -> Iterator[PositionedItem]:
    source, compression = after.source, detect_compression(head)
    file_format = sources.detect_format(head, source)
    if file_format == "wacz" and compression == "zip":
        yield from _read_wacz(file, after, limits)
    elif file_format in {"", "wacz"}:
        if head:
            detail = f"{source} starts with {head[:16]!r}, which is not WARC, ARC, WET, WACZ or JSONL"
            yield _reject("unknown_format", detail, source)
    else:
        stream = ByteStream(file, compression, limits, (after.offset, after.inner))
        yield from _read_stream(stream, file_format, after, limits)


def _reject(reason: str, detail: str, source: str, member: str = "") -> PositionedItem:
    """Return the rejection of a whole file or WACZ member."""
    return Position(source=source, member=member, cut=True), Rejected(reason, detail, Origin(source, 0, member))


def _read_stream(
    stream: ByteStream, file_format: str, after: Position, limits: ReadLimits
) -> Iterator[PositionedItem]:
    if file_format == "jsonl":
        return jsonl.read_items(stream, limits, after)
    return records.read_items(stream, warc.FRAMING if file_format == "warc" else arc.FRAMING, limits, after)


def _read_wacz(file: BinaryIO, after: Position, limits: ReadLimits) -> Iterator[PositionedItem]:
    if not file.seekable():
        raise ReadError("cannot read a WACZ from a pipe", "save it to a file and name that file")
    source = after.source
    try:
        archive = wacz.open_archive(file, limits)
    except ContentError as error:
        yield _reject(error.reason, error.detail, source)
        return
    with archive:
        for name in wacz.list_warcs(archive):
            if name < after.member:
                continue
            position = after if name == after.member else Position(source=source, member=name)
            inflated = archive.getinfo(name).compress_type != zipfile.ZIP_STORED
            try:
                head = wacz.read_member_head(archive, name)
                with wacz.open_member(archive, name) as member:
                    start, compression = (position.offset, position.inner), detect_compression(head)
                    stream = ByteStream(member, compression, limits, start, inflated=inflated)
                    yield from _read_stream(stream, sources.detect_format(head, name), position, limits)
            except ContentError as error:
                yield _reject(error.reason, error.detail, source, name)

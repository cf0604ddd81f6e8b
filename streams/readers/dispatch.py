"""Read pages from files, folders or standard input, with the reader for the format of each file.

The format of a file (WARC, ARC, WET, WACZ, JSONL, JSON array or CSV; plain, gzip or zstd) is detected from its first
bytes or, if these are inconclusive, from its name.

Bad content raises no exception: it becomes a Rejected, whose reason is a key of `REJECTION_REASONS`. A path that is
missing or cannot be read raises ReadError. ReadLimits bounds memory use for any input. See docs/formats-input.md.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from streams.errors import ReadError
from streams.page import Origin, Rejected
from streams.readers import arc, csv_table, html_folder, json_array, jsonl, records, sources, wacz, warc
from streams.readers.byte_stream import ByteStream
from streams.readers.compression import decompress_head, detect_compression
from streams.readers.position import FileDigester, InputMark, Position, PositionedItem, combine_digests
from streams.readers.read_limits import ContentError, ReadLimits
from streams.readers.read_options import ReadOptions

Paths = Iterable[str | os.PathLike[str]]
_DEFAULTS = ReadOptions()


def read(
    paths: Paths,
    limits: ReadLimits | None = None,
    start: Position | None = None,
    mark: InputMark | None = None,
    options: ReadOptions = _DEFAULTS,
) -> InputReader:
    """Return a reader of all pages and rejections in files, folders and `-` (standard input), in order.

    Reading begins at `start`, by default with the first file. `mark` is the mark of `start`. Input that does not
    match the mark is read from its beginning. Raise ReadError if a path or the file of `start` is missing.
    """
    files = list_files(paths, options)
    if start is not None and start.source not in {source.name for source in files}:
        problem = f"cannot resume in {start.source}: it is not among the {len(files)} files to read"
        raise ReadError(problem, "give the same paths as the first time, or start a new sweep")
    return InputReader(files, limits or ReadLimits(), start, mark, options)


def list_files(
    paths: Paths, options: ReadOptions = _DEFAULTS, exclude: Collection[Path] = ()
) -> list[sources.Source]:
    """Return the files to read, as `list_sources` does, or the pages of a folder of HTML."""
    return sources.list_sources(paths, exclude, options.html_folder.is_page if options.html_folder else None)


def total_bytes(paths: Paths, options: ReadOptions = _DEFAULTS) -> int:
    """Return the size of the input on disk, for progress bars. Pipes have size 0."""
    return sum(source.size for source in list_files(paths, options))


class InputReader(Iterator[PositionedItem]):
    """Iterate over pages and rejections, and track how far the input has been read.

    `input_unchanged` says whether the input matches `mark`. It is valid after the first item, or at the end.
    """

    def __init__(
        self,
        files: list[sources.Source],
        limits: ReadLimits,
        start: Position | None,
        mark: InputMark | None,
        options: ReadOptions,
    ) -> None:
        self.input_unchanged = True
        self._limits = limits
        self._options = options
        self._finished_bytes = 0  # total size of the files that were read to their end
        self._finished_digest = ""  # combined digest of these files
        self._file: BinaryIO | None = None  # the current file
        self._digester: FileDigester | None = None  # computes the marks of the current file
        self._last_position: Position | None = None
        self._mark: InputMark | None = None  # mark of the last item, if its file was read to the end
        self._items = self._read_files(files, start, mark)

    def __next__(self) -> PositionedItem:
        positioned_item = self._options.with_time(next(self._items))
        self._last_position, _ = positioned_item
        return positioned_item

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes read so far, of `total_bytes`. Bytes from pipes are not counted."""
        if self._file is None or self._file.closed or not self._file.seekable():
            return self._finished_bytes
        return self._finished_bytes + self._file.tell()

    def mark(self) -> InputMark | None:
        """Return the mark of the last item's position, or None before the first item."""
        digester, position = self._digester, self._last_position
        if digester is not None and position is not None and position.source == digester.name:
            self._mark = digester.mark(position, self._finished_digest)
        return self._mark

    def _read_files(
        self, files: list[sources.Source], start: Position | None, mark: InputMark | None
    ) -> Iterator[PositionedItem]:
        if start is not None:
            names = [source.name for source in files]
            digest = sources.digest_files(files[: names.index(start.source)])
            if mark is None or digest == mark.before_digest:
                self._finished_digest = digest or ""
            else:  # an earlier file has changed: read all files again
                start, mark, self.input_unchanged = None, None, False
        for source in files:
            if start is None or start.source == source.name:
                with sources.open_source(source.name) as self._file:
                    yield from self._read_file(self._file, start or Position(source=source.name), mark)
                start, mark = None, None
            self._finished_bytes += source.size

    def _read_file(self, file: BinaryIO, start: Position, mark: InputMark | None) -> Iterator[PositionedItem]:
        head, file = sources.read_head(file)
        self._digester = FileDigester(start.source, head, file)
        digest = self._digester.digest()  # computed before reading, because bytes appended later may remain unread
        if mark is not None and not self._digester.matches(mark):
            start, self.input_unchanged = Position(source=start.source), False
        yield from _skip_repeated(_read_items(head, file, start, self._limits, self._options), start)
        self.mark()
        self._digester, self._finished_digest = None, combine_digests(self._finished_digest, digest)


def _skip_repeated(items: Iterator[PositionedItem], start: Position) -> Iterator[PositionedItem]:
    """Skip the first item if it is still cut off, because an earlier run has already returned it as cut off."""
    first = next(items, None) if start.cut_off else None
    if first and not (first[0].cut_off and (first[0].member, first[0].offset) == (start.member, start.offset)):
        yield first
    yield from items


def _read_items(
    head: bytes, file: BinaryIO, start: Position, limits: ReadLimits, options: ReadOptions
) -> Iterator[PositionedItem]:
    if options.html_folder:
        yield from html_folder.read_items(file, options.html_folder, start, limits)
        return
    source, compression = start.source, detect_compression(head)
    file_format = sources.detect_format(head, source, options.url_column)
    first_bytes = decompress_head(head, compression, sources.HEAD_BYTES)
    names = csv_table.read_names(first_bytes) if file_format == "csv" else []
    if file_format == "wacz" and compression == "zip":
        yield from _read_wacz(file, start, limits, options)
    elif file_format in {"", "wacz"}:  # unknown, or named .wacz without being a zip
        if head:
            yield _reject_file("unknown_format", _describe_unknown(source, head, first_bytes), source)
    elif file_format == "csv" and options.url_column not in names:
        if head:
            detail = csv_table.describe_missing_url(source, names, options.url_column)
            yield _reject_file("unknown_format", detail, source)
    else:
        stream = ByteStream(file, compression, limits, (start.offset, start.inner_offset))
        if file_format == "csv":
            yield from csv_table.read_items(stream, limits, start, names, options.line_type())
        else:
            yield from _read_stream(stream, file_format, start, limits, options)


def _describe_unknown(source: str, head: bytes, first_bytes: bytes) -> str:
    """Return the detail for a file of an unknown format."""
    start = first_bytes.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return f"{source} is an HTML page, not a crawl; to read a folder of HTML, give --base-url"
    if start.startswith(b"<?xml"):
        return f"{source} is XML, which is not supported; have Scrapy write JSONL with `-o pages.jl`"
    return f"{source} starts with {head[:16]!r}, which is not WARC, ARC, WET, WACZ, JSON or CSV"


def _reject_file(reason: str, detail: str, source: str, member: str = "") -> PositionedItem:
    """Return the rejection of a whole file or WACZ member."""
    return Position(source=source, member=member, cut_off=True), Rejected(reason, detail, Origin(source, 0, member))


def _read_stream(
    stream: ByteStream, file_format: str, start: Position, limits: ReadLimits, options: ReadOptions
) -> Iterator[PositionedItem]:
    if file_format == "jsonl":
        return jsonl.read_items(stream, limits, start, options.line_type())
    if file_format == "json":
        return json_array.read_items(stream, limits, start, options.line_type())
    record_format = warc.RECORD_FORMAT if file_format == "warc" else arc.RECORD_FORMAT
    return records.read_items(stream, record_format, limits, start)


def _read_wacz(file: BinaryIO, start: Position, limits: ReadLimits, options: ReadOptions) -> Iterator[PositionedItem]:
    if not file.seekable():
        raise ReadError("cannot read a WACZ from a pipe", "save it to a file and read that file")
    source = start.source
    try:
        archive = wacz.open_archive(file, limits)
    except ContentError as error:
        yield _reject_file(error.reason, error.detail, source)
        return
    with archive:
        for name in wacz.list_warcs(archive):
            if name < start.member:
                continue
            member_start = start if name == start.member else Position(source=source, member=name)
            in_deflated_member = archive.getinfo(name).compress_type != zipfile.ZIP_STORED
            try:
                head = wacz.read_member_head(archive, name)
                with wacz.open_member(archive, name) as member:
                    offsets, compression = (member_start.offset, member_start.inner_offset), detect_compression(head)
                    stream = ByteStream(member, compression, limits, offsets, in_deflated_member=in_deflated_member)
                    yield from _read_stream(stream, sources.detect_format(head, name), member_start, limits, options)
            except ContentError as error:
                yield _reject_file(error.reason, error.detail, source, name)

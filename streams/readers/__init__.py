"""Reading crawl files: paths in, pages out, one after another.

    for position, item in read(paths, ReadLimits()):
        ...                                    # item: Page or Rejected
    read(paths, limits, start=position)        # the items after that one, exactly

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
from streams.readers import arc, jsonl, records, sources, wacz, warc
from streams.readers.payload import Refused
from streams.readers.unpack import END, Unpacked, kind_of
from streams.readers.values import REASONS, Item, Position, ReadLimits
from streams.values import Origin, Rejected

__all__ = ["REASONS", "Item", "Position", "ReadLimits", "Reading", "read", "size"]

Paths = Iterable[str | os.PathLike[str]]


def read(paths: Paths, limits: ReadLimits | None = None, start: Position | None = None) -> Reading:
    """All pages and refusals of files, folders and `-`, in order; with `start`, those after that position.

    Raises ReadError when a path is missing or cannot be read, or `start` is in none of them.
    """
    listed = sources.listed(paths)
    if start is not None and start.source not in {source.name for source in listed}:
        raise ReadError(
            f"Cannot go on after {start.source}: it is not among the {len(listed)} files to read",
            "Name the same paths as the first time, or begin another sweep.",
        )
    return Reading(listed, limits or ReadLimits(), start)


def size(paths: Paths) -> int:
    """Bytes that there are to read, as they lie on disk, for progress; standard input counts 0."""
    return sum(source.size for source in sources.listed(paths))


class Reading(Iterator[Item]):
    """An iterator over items that knows how far it is."""

    def __init__(self, listed: list[sources.Source], limits: ReadLimits, start: Position | None) -> None:
        self._bytes_before = 0
        self._file: BinaryIO | None = None
        self._items = self._all(listed, limits, start)

    def __next__(self) -> Item:
        return next(self._items)

    @property
    def bytes_done(self) -> int:
        """Bytes read so far, as they lie on disk; of `size`. A pipe has none."""
        if self._file is None or self._file.closed or not self._file.seekable():
            return self._bytes_before
        return self._bytes_before + self._file.tell()

    def _all(self, listed: list[sources.Source], limits: ReadLimits, start: Position | None) -> Iterator[Item]:
        for source in listed:
            if start is None or start.source == source.name:
                after, start = start or Position(source.name), None
                with sources.opened(source.name) as self._file:
                    yield from _items(self._file, after, limits)
            self._bytes_before += source.size


def _items(file: BinaryIO, after: Position, limits: ReadLimits) -> Iterator[Item]:
    """The items of one file after a position in it."""
    source = after.source
    if after.offset == END and not after.member:
        return
    try:
        head, file = sources.ahead(file)
    except OSError as error:
        raise ReadError(f"Cannot read {source}: {error.strerror}", "Check that it is a file you may read.") from error
    form = sources.format_of(head, source)
    if form == "wacz" and kind_of(head) == "zip":
        yield from _wacz_items(file, after, limits)
    elif form in {"", "wacz"}:
        if head:
            detail = f"{source} begins with {head[:16]!r}, which is no WARC, ARC, WET, WACZ or JSONL"
            yield Position(source, offset=END), Rejected("unknown_format", detail, Origin(source, 0))
    else:
        stream = Unpacked(file, kind_of(head), limits, after.offset, after.inner)
        yield from _walk(stream, form, after, limits)


def _walk(stream: Unpacked, form: str, after: Position, limits: ReadLimits) -> Iterator[Item]:
    if form == "jsonl":
        return jsonl.walk(stream, limits, after.source, after.member, after.line)
    framing = warc.FRAMING if form == "warc" else arc.FRAMING
    return records.walk(stream, framing, limits, after.source, after.member)


def _wacz_items(file: BinaryIO, after: Position, limits: ReadLimits) -> Iterator[Item]:
    source = after.source
    if not file.seekable():
        raise ReadError("A WACZ cannot be read from standard input", "Save it to a file and name that.")
    try:
        archive = wacz.opened(file, limits)
    except Refused as error:
        yield Position(source, offset=END), Rejected(error.reason, error.detail, Origin(source, 0))
        return
    with archive:
        for name in wacz.members(archive):
            if name >= after.member:
                here = after if name == after.member else Position(source, name)
                yield from _member_items(archive, here, limits)


def _member_items(archive: zipfile.ZipFile, after: Position, limits: ReadLimits) -> Iterator[Item]:
    source, name = after.source, after.member
    if after.offset == END:
        return
    try:
        head = wacz.head(archive, name)
        with wacz.member(archive, name) as raw:
            stream = Unpacked(raw, kind_of(head), limits, after.offset, after.inner)
            yield from _walk(stream, sources.format_of(head, name), after, limits)
    except Refused as error:
        yield Position(source, name, END), Rejected(error.reason, error.detail, Origin(source, 0, name))

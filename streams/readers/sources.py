"""Which files are read, and what each one is."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard

from streams.errors import ReadError
from streams.readers import arc
from streams.readers.read_limits import ReadLimits
from streams.readers.unpack import detect_compression

STDIN = "-"
HEAD_BYTES = 16 << 10
_PACKED = (".gz", ".zst")
_SUFFIXES = {".warc": "warc", ".wet": "warc", ".arc": "arc", ".jsonl": "jsonl", ".ndjson": "jsonl", ".wacz": "wacz"}


class Source(msgspec.Struct, frozen=True):
    """An input file; `name` is the path as it is shown and kept in positions."""

    name: str
    size: int  # bytes; 0 for standard input and other pipes
    regular: bool = False  # a file on disk, which can be looked at more than once


def list_sources(paths: Iterable[str | os.PathLike[str]], without: Collection[Path] = ()) -> list[Source]:
    """The files of some paths, each once, folders' in sorted order; raises ReadError for what is not there.

    `without` are files and folders that are left out where a folder holds them, by whatever name or link.
    """
    left_out = {identity for path in without if (identity := file_identity(path))}
    found: dict[str, Source] = {}
    for given in paths:
        name = os.fspath(given)
        for source in _folder(name, left_out) if name != STDIN and Path(name).is_dir() else [_file(name)]:
            found.setdefault(source.name, source)
    return list(found.values())


FileIdentity = tuple[int, int]
"""What tells a file or folder from all others, however it is spelt or linked."""


def file_identity(path: str | Path) -> FileIdentity | None:
    """Device and inode of what a path leads to, or of standard input; None where that is nothing."""
    try:
        status = os.fstat(sys.stdin.fileno()) if path == STDIN else Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _file(name: str) -> Source:
    if name == STDIN:
        return Source(name, 0)
    try:
        status = Path(name).stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ReadError(
            f"Cannot read {name!r}: {getattr(error, 'strerror', None) or error}",
            "Name files, folders, or - for standard input.",
        ) from error
    regular = stat.S_ISREG(status.st_mode)
    return Source(name, status.st_size if regular else 0, regular)


def _folder(name: str, left_out: Collection[FileIdentity]) -> list[Source]:
    """Files whose name or first bytes say a format; hidden ones are not looked at, links to folders not followed."""
    found: list[Source] = []

    def refuse(error: OSError) -> None:
        raise ReadError(f"Cannot list {error.filename}: {error.strerror}", "Check its permissions.") from error

    for folder, below, files in os.walk(name, onerror=refuse):
        below[:] = sorted(_wanted(folder, below, left_out))
        for entry in sorted(_wanted(folder, files, left_out)):
            path = Path(folder, entry)
            if path.is_file() and (format_from_name(entry) or _is_archive(path)):
                found.append(_file(str(path)))
    return sorted(found, key=lambda source: Path(source.name).parts)


def _wanted(folder: str, entries: Iterable[str], left_out: Collection[FileIdentity]) -> Iterator[str]:
    for entry in entries:
        if not entry.startswith(".") and not (left_out and file_identity(Path(folder, entry)) in left_out):
            yield entry


def _is_archive(path: Path) -> bool:
    with open_source(str(path)) as file:
        head = file.read(HEAD_BYTES)
    return detect_format(head, "") in {"warc", "arc"}


@contextmanager
def open_source(name: str) -> Iterator[BinaryIO]:
    """A file for reading, or standard input, which is left open; raises ReadError."""
    if name == STDIN:
        yield cast("BinaryIO", sys.stdin.buffer)
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - errors of opening only, not of what is done with the file
    except OSError as error:
        raise ReadError(f"Cannot open {name}: {error.strerror}", "Check that it is a file you may read.") from error
    with file:
        yield file


class _PipeWithHead:
    """A file that cannot seek, of which the first bytes have been looked at."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = head
        self._file = file
        self.name = getattr(file, "name", STDIN)

    def read(self, count: int) -> bytes:
        if not self._head:
            return self._file.read(count)
        part, self._head = self._head[:count], self._head[count:]
        return part

    def seekable(self) -> bool:
        return False


def read_head(file: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes of a file, and the file with these still to come; raises ReadError."""
    try:
        head = file.read(HEAD_BYTES)
    except OSError as error:
        name = getattr(file, "name", STDIN)
        raise ReadError(f"Cannot read {name}: {error.strerror}", "Check that it is a file you may read.") from error
    if file.seekable():
        file.seek(0)
        return head, file
    return head, cast("BinaryIO", _PipeWithHead(head, file))


def format_from_name(name: str) -> str:
    """The format that a file's name says: `warc`, `arc`, `jsonl`, `wacz`, or nothing."""
    path = Path(name.lower())
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    return _SUFFIXES.get(path.suffix, "")


def detect_format(head: bytes, name: str) -> str:
    """The format by a file's first bytes (unpacked as far as they go); where these say nothing, by its name."""
    kind = detect_compression(head)
    if kind == "zip":
        return "wacz"
    start = _unpacked_head(head, kind).lstrip(b"\xef\xbb\xbf\r\n\t \0")
    if start.startswith(b"WARC/"):
        return "warc"
    if arc.is_record_start(start):
        return "arc"
    return "jsonl" if start.startswith(b"{") and format_from_name(name) in {"", "jsonl"} else format_from_name(name)


def _unpacked_head(head: bytes, kind: str) -> bytes:
    try:
        if kind == "gzip":
            return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        if kind == "zstd":
            limit = ReadLimits().window_bytes_max
            reader = zstandard.ZstdDecompressor(max_window_size=limit).stream_reader(head, read_across_frames=True)
            return bytes(reader.read(HEAD_BYTES))
    except (zlib.error, zstandard.ZstdError):
        return b""
    return head

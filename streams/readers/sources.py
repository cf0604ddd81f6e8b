"""List the input files, and detect the format of each file."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from streams.errors import ReadError
from streams.readers import arc, csv_table
from streams.readers.compression import decompress_head, detect_compression
from streams.readers.position import FileDigester, combine_digests

STDIN = "-"
HEAD_BYTES = 16 << 10
_SUFFIXES = {
    ".warc": "warc", ".wet": "warc", ".arc": "arc", ".jsonl": "jsonl", ".ndjson": "jsonl", ".jl": "jsonl",
    ".json": "json", ".csv": "csv", ".wacz": "wacz",
}  # fmt: skip
_GENERAL_FORMATS = frozenset({"json", "csv"})  # most files in these formats are not crawls
_ARRAY_START = re.compile(rb"\[\s*(?:[{\]]|$)")


class Source(msgspec.Struct, frozen=True):
    """An input file. `name` is its path, as it is shown to users and stored in positions."""

    name: str
    size: int  # bytes; 0 for standard input and other pipes
    is_regular: bool = False  # whether this is a file on disk, which can be read more than once


FileIdentity = tuple[int, int]  # device and inode: equal for all names of a file or folder and all links to it


def list_sources(
    paths: Iterable[str | os.PathLike[str]],
    exclude: Collection[Path] = (),
    is_input: Callable[[Path], bool] | None = None,
) -> list[Source]:
    """Return the files at these paths, without duplicates. A folder is replaced by its files, in sorted order.

    `is_input` decides which files of a folder are returned; by default, only crawl files. Inside folders, the files
    and folders in `exclude` are skipped, even under a different name or through a link. Raise ReadError if a path is
    missing.
    """
    excluded = {identity for path in exclude if (identity := file_identity(path))}
    sources: dict[str, Source] = {}
    for path in paths:
        name = os.fspath(path)
        is_folder = name != STDIN and Path(name).is_dir()
        for source in _list_folder(name, excluded, is_input or _is_crawl_file) if is_folder else [_stat_source(name)]:
            sources.setdefault(source.name, source)
    return list(sources.values())


def file_identity(path: str | Path) -> FileIdentity | None:
    """Return the identity of the file at a path or of standard input, or None if there is no such file."""
    try:
        status = os.fstat(sys.stdin.fileno()) if path == STDIN else Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _stat_source(name: str) -> Source:
    if name == STDIN:
        return Source(name, 0)
    try:
        status = Path(name).stat()
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL
        reason = getattr(error, "strerror", None) or error
        raise ReadError(f"cannot read {name!r}: {reason}", "give files, folders, or - for standard input") from error
    is_regular = stat.S_ISREG(status.st_mode)
    return Source(name, status.st_size if is_regular else 0, is_regular)


def _list_folder(name: str, excluded: Collection[FileIdentity], is_input: Callable[[Path], bool]) -> list[Source]:
    """Return the files that `is_input` accepts. Skip hidden entries and links to folders."""
    sources: list[Source] = []

    def raise_read_error(error: OSError) -> None:
        raise ReadError(f"cannot list {error.filename}: {error.strerror}", "check its permissions") from error

    for folder, subfolders, files in os.walk(name, onerror=raise_read_error):
        subfolders[:] = [path.name for path in _filter_entries(folder, subfolders, excluded)]
        paths = [path for path in _filter_entries(folder, files, excluded) if path.is_file()]
        sources += [_stat_source(str(path)) for path in paths if is_input(path)]
    return sorted(sources, key=lambda source: Path(source.name).parts)


def _filter_entries(folder: str, entries: Iterable[str], excluded: Collection[FileIdentity]) -> list[Path]:
    """Return the paths of the entries that are neither hidden nor excluded."""
    paths = [Path(folder, entry) for entry in entries if not entry.startswith(".")]
    if not excluded:  # save a system call per entry
        return paths
    return [path for path in paths if file_identity(path) not in excluded]


def _is_crawl_file(path: Path) -> bool:
    """Return whether a file in a folder has the suffix or the first bytes of a crawl file."""
    if format_from_name(path.name) not in {"", *_GENERAL_FORMATS}:
        return True
    with open_source(str(path)) as file:
        head = file.read(HEAD_BYTES)
    return detect_format(head, "") in {"warc", "arc"}


@contextmanager
def open_source(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading. Standard input stays open afterwards. Raise ReadError if the file cannot be opened."""
    if name == STDIN:
        yield cast("BinaryIO", sys.stdin.buffer)
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - catches errors of opening only, not those of the caller
    except OSError as error:
        raise ReadError(f"cannot open {name}: {error.strerror}", "check that it is a readable file") from error
    with file:
        yield file


class _PipeWithHead:
    """A pipe whose first bytes (`head`) have already been read. `read` returns them first, and then the rest."""

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
    """Return the first bytes of a file, and a file that starts with these bytes again. Raise ReadError on failure."""
    try:
        head = file.read(HEAD_BYTES)
    except OSError as error:
        name = getattr(file, "name", STDIN)
        raise ReadError(f"cannot read {name}: {error.strerror}", "check that it is a readable file") from error
    if file.seekable():
        file.seek(0)
        return head, file
    return head, cast("BinaryIO", _PipeWithHead(head, file))


def digest_files(files: Iterable[Source]) -> str | None:
    """Return a digest of the files' current content, or None if one of them is a pipe, which cannot be read twice."""
    digest = ""
    for source in files:
        if not source.is_regular:
            return None
        with open_source(source.name) as file:
            digest = combine_digests(digest, FileDigester(source.name, *read_head(file)).digest())
    return digest


def format_from_name(name: str) -> str:
    """Return the format that a file's suffix indicates (`warc`, `arc`, `jsonl`, `json`, `csv` or `wacz`), or ""."""
    path = Path(name.lower())
    if path.suffix in {".gz", ".zst"}:
        path = path.with_suffix("")
    return _SUFFIXES.get(path.suffix, "")


def detect_format(head: bytes, name: str, url_column: str = "url") -> str:
    """Detect the format of a file from its first bytes or else its name. Return "" if both are inconclusive.

    A CSV without a suffix is recognised by the column `url_column` in its header.
    """
    compression = detect_compression(head)
    if compression == "zip":
        return "wacz"
    start = decompress_head(head, compression, HEAD_BYTES).lstrip(b"\xef\xbb\xbf\r\n\t \0")
    if start.startswith(b"WARC/"):
        return "warc"
    if arc.is_record_start(start):
        return "arc"
    named_format = format_from_name(name)
    if named_format in {"", "jsonl", "json"}:
        if start.startswith(b"{"):
            return "jsonl"
        if _ARRAY_START.match(start):
            return "json"
    if not named_format and url_column in csv_table.read_names(start):
        return "csv"
    return "" if named_format == "json" else named_format

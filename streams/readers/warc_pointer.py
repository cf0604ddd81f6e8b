"""Pointers: a line or message that names a WARC record, by Common Crawl's names, instead of holding a page.

    filename   or  warc_filename         a file below `warc_folder`
    offset     or  warc_record_offset    bytes to the record's first, in the file as it lies there
    length     or  warc_record_length    bytes of the record, packed as it is

A pointer comes from outside and names a file here, so that it is followed with care: below that one folder only,
wherever links lead; never to the net; never further than its length, which is bounded too.
"""

from __future__ import annotations

import io
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from streams.page import Origin, Page, Rejected
from streams.readers import warc
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused
from streams.readers.unpack import Unpacked, detect_compression

_OFFSET_MAX = 1 << 50


class Pointer(msgspec.Struct, frozen=True):
    """Where a record is said to be."""

    filename: str
    offset: int
    length: int


def parse_pointer(filename: Any, offset: Any, length: Any) -> Pointer:
    """A pointer from fields as they were given: indexes write numbers as text. Raises Refused."""
    at, size = _number(offset), _number(length)
    if not isinstance(filename, str) or at is None or not size:
        said = f"filename {filename!r}, offset {offset!r} and length {length!r}"[:300]
        raise Refused("bad_pointer", f"{said} point to no record")
    return Pointer(filename, at, size)


def _number(given: Any) -> int | None:
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= 18:
        given = int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= _OFFSET_MAX else None


def read_record(to: Pointer, key: bytes, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    """Return the page of the record that a pointer names, or its rejection.

    Raises Refused if the record is not of the URL with this key.
    """
    if not limits.warc_folder:
        raise Refused("bad_pointer", "pointers are not followed: ingest.warc_folder is not set")
    if to.length > limits.line_bytes_max:
        raise Refused("too_big", f"record of {to.length} bytes, line_bytes_max {limits.line_bytes_max}")
    data = _read(_file(limits.warc_folder, to.filename), to)
    stream = Unpacked(
        io.BytesIO(data), detect_compression(data) if detect_compression(data) != "zip" else "plain", limits
    )
    if stream.first() < 0:
        raise Refused(stream.fault or "bad_pointer", stream.fault_detail or "there is nothing")
    found = warc.read_record(stream, limits, origin)
    if found is None:
        raise Refused("bad_pointer", f"the record at {to.offset} of {to.filename[:200]!r} holds no page")
    if isinstance(found, Page) and found.key != key:
        shown = found.url[: limits.url_bytes_max]
        raise Refused("bad_pointer", f"the record at {to.offset} of {to.filename[:200]!r} is of {shown}")
    return found


def _file(folder: str, name: str) -> Path:
    """The file that a name leads to, all links followed; raises Refused for one that is not below the folder."""
    shown = f"{name[:200]!r}"
    if "://" in name:
        raise Refused("bad_pointer", f"{shown} is a URL: files are read below ingest.warc_folder only")
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise Refused("bad_pointer", f"{shown} is no path below ingest.warc_folder")
    try:
        root = Path(folder).resolve(strict=True)
        file = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # missing, a loop of links, a name that no file can have
        raise Refused("bad_pointer", f"there is no {shown} below ingest.warc_folder") from None
    if not file.is_relative_to(root):
        raise Refused("bad_pointer", f"{shown} leads out of ingest.warc_folder")
    if not file.is_file():
        raise Refused("bad_pointer", f"{shown} is no file")
    return file


def _read(file: Path, to: Pointer) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(to.offset)
            data = opened.read(to.length)
    except OSError as error:
        raise Refused("bad_pointer", f"{to.filename[:200]!r} cannot be read: {error.strerror}") from None
    if len(data) < to.length:
        raise Refused("bad_pointer", f"{to.filename[:200]!r} ends within the {to.length} bytes at {to.offset}")
    return data

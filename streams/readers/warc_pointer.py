"""Follow pointers to WARC records, as in Common Crawl's index, from lines or messages without content.

    filename   or  warc_filename         a file below `warc_folder`
    offset     or  warc_record_offset    offset of the record's first byte, in the file as it is on disk
    length     or  warc_record_length    bytes of the record, compressed as it is on disk

A pointer comes from outside and names a file on this machine. So only files in that one folder are read, after all
links are resolved; nothing is fetched from the network; and no more bytes are read than the length, which is limited.
"""

from __future__ import annotations

import io
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from streams.page import Origin, Page, Rejected
from streams.readers import warc
from streams.readers.byte_stream import ByteStream
from streams.readers.compression import detect_compression
from streams.readers.read_limits import ReadLimits, Refused

_OFFSET_MAX = 1 << 50
_NAME_CHARS_MAX = 200  # of a file name in a detail


class Pointer(msgspec.Struct, frozen=True):
    """Where a record is supposed to be."""

    filename: str
    offset: int
    length: int

    @property
    def shown_name(self) -> str:
        return repr(self.filename[:_NAME_CHARS_MAX])


def parse_pointer(filename: Any, offset: Any, length: Any) -> Pointer:
    """Return a pointer from decoded JSON values; indexes write numbers as text. Raises Refused."""
    offset_number, length_number = _number(offset), _number(length)
    if not isinstance(filename, str) or offset_number is None or not length_number:
        values = f"filename {filename!r}, offset {offset!r} and length {length!r}"[:300]
        raise _bad_pointer(f"{values} do not point to a record")
    return Pointer(filename, offset_number, length_number)


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _OFFSET_MAX else None


def read_record(pointer: Pointer, key: bytes, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    """Return the page of the record that a pointer names, or its rejection.

    Raises Refused if the record is not of the URL with this key.
    """
    if not limits.warc_folder:
        raise _bad_pointer("pointers are not followed: ingest.warc_folder is not set")
    if pointer.length > limits.line_bytes_max:
        raise Refused("too_big", f"record of {pointer.length} bytes, line_bytes_max {limits.line_bytes_max}")
    data = _read_bytes(_resolve_file(limits.warc_folder, pointer), pointer)
    compression = detect_compression(data)
    stream = ByteStream(io.BytesIO(data), "plain" if compression == "zip" else compression, limits)
    if stream.peek() < 0:
        raise Refused(stream.fault.reason or "bad_pointer", stream.fault.detail or "the record is empty")
    page = warc.read_record(stream, limits, origin)
    if page is None:
        raise _bad_pointer(f"the record at {pointer.offset} of {pointer.shown_name} has no page")
    if isinstance(page, Page) and page.key != key:
        url = page.url[: limits.url_bytes_max]
        raise _bad_pointer(f"the record at {pointer.offset} of {pointer.shown_name} is of {url}")
    return page


def _bad_pointer(detail: str) -> Refused:
    return Refused("bad_pointer", detail)


def _resolve_file(folder: str, pointer: Pointer) -> Path:
    """Return the file of a pointer, all links resolved. Raises Refused if it is not below the folder."""
    name, shown = pointer.filename, pointer.shown_name
    if "://" in name:
        raise _bad_pointer(f"{shown} is a URL: only files below ingest.warc_folder are read")
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise _bad_pointer(f"{shown} is not a path below ingest.warc_folder")
    try:
        root = Path(folder).resolve(strict=True)
        file = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # missing, a loop of links, or not a valid file name
        raise _bad_pointer(f"{shown} does not exist below ingest.warc_folder") from None
    if not file.is_relative_to(root):
        raise _bad_pointer(f"{shown} leads out of ingest.warc_folder")
    if not file.is_file():
        raise _bad_pointer(f"{shown} is not a regular file")
    return file


def _read_bytes(path: Path, pointer: Pointer) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(pointer.offset)
            data = file.read(pointer.length)
    except OSError as error:
        raise _bad_pointer(f"cannot read {pointer.shown_name}: {error.strerror}") from None
    if len(data) < pointer.length:
        raise _bad_pointer(f"{pointer.shown_name} ends within the {pointer.length} bytes at {pointer.offset}")
    return data

"""Read the WARC records that lines or messages without content point to, as in Common Crawl's index.

    filename   or  warc_filename         a file below `warc_folder`
    offset     or  warc_record_offset    offset of the record's first byte in the file, before decompression
    length     or  warc_record_length    size of the record in the file, before decompression

Pointers come from crawlers and are not trusted. A file is therefore read only if it is below `warc_folder` after all
links are resolved, and the number of bytes read is limited. Nothing is fetched from the network.
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
from streams.readers.read_limits import ContentError, ReadLimits

_NUMBER_MAX = 1 << 50  # largest offset or length


class Pointer(msgspec.Struct, frozen=True):
    """The location of a record. The record may not exist."""

    filename: str
    offset: int
    length: int


def parse_pointer(filename: Any, offset: Any, length: Any) -> Pointer:
    """Return a pointer from decoded JSON values; numbers may be strings. Raise ContentError if a value is invalid."""
    offset_number, length_number = _parse_number(offset), _parse_number(length)
    if not isinstance(filename, str) or offset_number is None or not length_number:
        values = f"filename {filename!r}, offset {offset!r} and length {length!r}"[:300]
        raise _pointer_error(f"invalid pointer to a record: {values}")
    return Pointer(filename, offset_number, length_number)


def _parse_number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _NUMBER_MAX else None


def read_record(pointer: Pointer, key: bytes, limits: ReadLimits, origin: Origin) -> Page | Rejected:
    """Return the page or rejection of a record. Raise ContentError if the record has no page with this URL key."""
    if not limits.warc_folder:
        raise _pointer_error("pointers are not followed: ingest.warc_folder is not set")
    if pointer.length > limits.line_bytes_max:
        detail = f"a record of {pointer.length} bytes exceeds line_bytes_max {limits.line_bytes_max}"
        raise ContentError("too_big", detail)
    data = _read_bytes(limits.warc_folder, pointer)
    compression = detect_compression(data)  # a zip is read as plain bytes, and rejected as garbage
    stream = ByteStream(io.BytesIO(data), "plain" if compression == "zip" else compression, limits)
    if stream.peek() < 0:
        raise ContentError(stream.fault.reason or "bad_pointer", stream.fault.detail or "the record is empty")
    page = warc.read_record(stream, limits, origin)
    record_name = f"the record at offset {pointer.offset} of {pointer.filename[:200]!r}"
    if page is None:
        raise _pointer_error(f"{record_name} has no page")
    if isinstance(page, Page) and page.key != key:
        raise _pointer_error(f"{record_name} has a different URL: {page.url[: limits.url_bytes_max]}")
    return page


def _pointer_error(detail: str) -> ContentError:
    return ContentError("bad_pointer", detail)


def _read_bytes(folder: str, pointer: Pointer) -> bytes:
    """Read a record's bytes. Raise ContentError if the file is not below the folder after all links are resolved."""
    name, quoted_name = pointer.filename, repr(pointer.filename[:200])
    if "://" in name:
        raise _pointer_error(f"{quoted_name} is a URL: only files below ingest.warc_folder are read")
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise _pointer_error(f"{quoted_name} is not a path below ingest.warc_folder")
    try:
        root = Path(folder).resolve(strict=True)
        target = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # the file is missing, its links form a loop, or its name is invalid
        raise _pointer_error(f"{quoted_name} does not exist below ingest.warc_folder") from None
    if not target.is_relative_to(root):
        raise _pointer_error(f"{quoted_name} leads out of ingest.warc_folder")
    if not target.is_file():
        raise _pointer_error(f"{quoted_name} is not a regular file")
    try:
        with target.open("rb") as file:
            file.seek(pointer.offset)
            data = file.read(pointer.length)
    except OSError as error:
        raise _pointer_error(f"cannot read {quoted_name}: {error.strerror}") from None
    if len(data) < pointer.length:
        raise _pointer_error(
            f"{quoted_name} ends before byte {pointer.offset + pointer.length}, the end of the record"
        )
    return data

"""WACZ 1.1: a zip of WARCs (in `archive/`) with indexes and page lists, of which only the WARCs are read."""

from __future__ import annotations

import struct
import zipfile
from typing import BinaryIO

from streams.readers.payload import Refused
from streams.readers.sources import HEAD_BYTES, named
from streams.readers.unpack import BROKEN
from streams.readers.values import ReadLimits

_END = b"PK\x05\x06"
_END_BYTES = 22
_COMMENT_BYTES_MAX = 65_535
_LOCATOR = b"PK\x06\x07"
_LOCATOR_BYTES = 20
_END_64_BYTES = 56
_IN_64 = 0xFFFFFFFF
_ENCRYPTED = 1
_SHOWN_CHARS = 500  # of a message that quotes names from the zip


def opened(file: BinaryIO, limits: ReadLimits) -> zipfile.ZipFile:
    """The zip; raises Refused (`bad_zip`, `no_archive`)."""
    size = _directory_bytes(file)
    if size > limits.directory_bytes_max:
        raise Refused("bad_zip", f"zip directory of {size} bytes, directory_bytes_max {limits.directory_bytes_max}")
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OSError) as error:
        raise Refused("bad_zip", str(error)[:_SHOWN_CHARS]) from None
    if not members(archive):
        names = ", ".join(archive.namelist()[:5])
        raise Refused("no_archive", f"a zip without archive/*.warc.gz; it holds {names[:200] or 'nothing'}")
    return archive


def members(archive: zipfile.ZipFile) -> list[str]:
    """The WARCs in it, sorted, those in `archive/` where there is one."""
    found = sorted({name for name in archive.namelist() if named(name) in {"warc", "arc"}})
    return [name for name in found if name.startswith("archive/")] or found


def member(archive: zipfile.ZipFile, name: str) -> BinaryIO:
    """A file inside; raises Refused (`bad_zip`)."""
    info = archive.getinfo(name)
    if info.flag_bits & _ENCRYPTED:
        raise Refused("bad_zip", f"encrypted: {name}"[:_SHOWN_CHARS])
    try:
        return archive.open(info)  # type: ignore[return-value]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, struct.error) as error:
        raise Refused("bad_zip", f"{name}: {error}"[:_SHOWN_CHARS]) from None


def head(archive: zipfile.ZipFile, name: str) -> bytes:
    """The first bytes of a file inside; none where they cannot be read, which reading it then reports."""
    with member(archive, name) as file:
        try:
            return file.read(HEAD_BYTES)
        except BROKEN:
            return b""


def _directory_bytes(file: BinaryIO) -> int:
    """The size of the directory by the zip's last record: all of it is going to be held in memory. 0: unknown."""
    end = file.seek(0, 2)
    start = max(0, end - _END_BYTES - _COMMENT_BYTES_MAX)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        return 0
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    if size == _IN_64 and tail[at - _LOCATOR_BYTES : at - _LOCATOR_BYTES + 4] == _LOCATOR:
        file.seek(min(int.from_bytes(tail[at - 12 : at - 4], "little"), end))
        size = int.from_bytes(file.read(_END_64_BYTES)[40:48], "little")
    file.seek(0)
    return size

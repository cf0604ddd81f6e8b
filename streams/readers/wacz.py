"""WACZ 1.1: a zip of WARCs (in `archive/`) with indexes and page lists, of which only the WARCs are read."""

from __future__ import annotations

import struct
import sys
import zipfile
from typing import BinaryIO, cast

from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused
from streams.readers.sources import HEAD_BYTES, format_from_name
from streams.readers.unpack import BROKEN, detect_compression

_END_BYTES_MAX = 56  # of a record that says where the directory is
_ENCRYPTED = 1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # by others a few bytes become any number at once
_SHOWN_CHARS = 500  # of a message that quotes names from the zip


def open_archive(file: BinaryIO, limits: ReadLimits) -> zipfile.ZipFile:
    """The zip; raises Refused (`bad_zip`, `no_archive`)."""
    bounded = _Bounded(file, limits.directory_bytes_max)
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", bounded))
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error, OSError) as error:
        raise Refused("bad_zip", str(error)[:_SHOWN_CHARS]) from None
    bounded.bytes_max = sys.maxsize
    if not list_warcs(archive):
        names = ", ".join(archive.namelist()[:5])
        raise Refused("no_archive", f"a zip without archive/*.warc.gz; it holds {names[:200] or 'nothing'}")
    return archive


def list_warcs(archive: zipfile.ZipFile) -> list[str]:
    """The WARCs in it, sorted, those in `archive/` where there is one."""
    found = sorted({name for name in archive.namelist() if format_from_name(name) in {"warc", "arc"}})
    return [name for name in found if name.startswith("archive/")] or found


def open_member(archive: zipfile.ZipFile, name: str) -> BinaryIO:
    """A file inside; raises Refused (`bad_zip`)."""
    info = archive.getinfo(name)
    if info.flag_bits & _ENCRYPTED:
        raise Refused("bad_zip", f"encrypted: {name}"[:_SHOWN_CHARS])
    if info.compress_type not in _METHODS:
        raise Refused(
            "bad_zip", f"packed by method {info.compress_type}, neither stored nor deflated: {name}"[:_SHOWN_CHARS]
        )
    try:
        return archive.open(info)  # type: ignore[return-value]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, struct.error) as error:
        raise Refused("bad_zip", f"{name}: {error}"[:_SHOWN_CHARS]) from None


def is_compressed(archive: zipfile.ZipFile, name: str) -> bool:
    """Whether a file inside may be far larger than what the zip holds of it."""
    return archive.getinfo(name).compress_type != zipfile.ZIP_STORED


def read_member_head(archive: zipfile.ZipFile, name: str) -> bytes:
    """The first bytes of a file inside; none where they cannot be read, which reading it then reports.

    Raises Refused (`bad_zip`; `unknown_format` for another zip: what is in that is not read).
    """
    with open_member(archive, name) as file:
        try:
            first = file.read(HEAD_BYTES)
        except BROKEN:
            return b""
    if detect_compression(first) == "zip":
        raise Refused("unknown_format", f"a zip in a zip: {name}"[:_SHOWN_CHARS])
    return first


class _Bounded:
    """A zip while its directory is sought: all of that is going to be held in memory, in one read.

    Which of several end records counts is zipfile's to say, and differs between its versions. So what it asks for is
    bounded, and not what we would find.
    """

    def __init__(self, file: BinaryIO, bytes_max: int) -> None:
        self._file = file
        self.bytes_max = bytes_max
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        """Up to `count` bytes; raises Refused. Without a count zipfile reads what a comment may be long."""
        if count > max(self.bytes_max, _END_BYTES_MAX):
            raise Refused("bad_zip", f"zip directory of {count} bytes, directory_bytes_max {self.bytes_max}")
        return self._file.read(count)

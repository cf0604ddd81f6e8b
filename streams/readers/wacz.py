"""Open a WACZ 1.1, a zip with WARCs in `archive/`, indexes and page lists; only the WARCs are read."""

from __future__ import annotations

import struct
import sys
import zipfile
from typing import BinaryIO, cast

from streams.readers.compression import detect_compression
from streams.readers.raw_buffer import ZIP_MEMBER_ERRORS
from streams.readers.read_limits import ReadLimits
from streams.readers.refused import Refused
from streams.readers.sources import HEAD_BYTES, format_from_name

_END_BYTES_MAX = 56  # of the end records, which state where the directory is
_ENCRYPTED = 1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # with others, one read of a few bytes is unbounded
_DETAIL_CHARS_MAX = 500  # of a detail that quotes names from the zip


def open_archive(file: BinaryIO, limits: ReadLimits) -> zipfile.ZipFile:
    """Open the zip. Raises Refused (`bad_zip`, `no_archive`)."""
    bounded = _BoundedReads(file, limits.directory_bytes_max)
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", bounded))
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error, OSError) as error:
        raise Refused("bad_zip", str(error)[:_DETAIL_CHARS_MAX]) from None
    bounded.bytes_max = sys.maxsize
    if not list_warcs(archive):
        names = ", ".join(archive.namelist()[:5])
        raise Refused("no_archive", f"the zip has no archive/*.warc.gz; it contains {names[:200] or 'nothing'}")
    return archive


def list_warcs(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the WARCs, sorted: those in `archive/`, or all without that folder."""
    names = sorted({name for name in archive.namelist() if format_from_name(name) in {"warc", "arc"}})
    return [name for name in names if name.startswith("archive/")] or names


def open_member(archive: zipfile.ZipFile, name: str) -> BinaryIO:
    """Open a file inside. Raises Refused (`bad_zip`)."""
    info = archive.getinfo(name)
    if info.flag_bits & _ENCRYPTED:
        raise Refused("bad_zip", f"encrypted: {name}"[:_DETAIL_CHARS_MAX])
    if info.compress_type not in _METHODS:
        detail = f"compression method {info.compress_type} is neither stored nor deflated: {name}"
        raise Refused("bad_zip", detail[:_DETAIL_CHARS_MAX])
    try:
        return archive.open(info)  # type: ignore[return-value]  # ZipExtFile has all that readers use of BinaryIO
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, struct.error) as error:
        raise Refused("bad_zip", f"{name}: {error}"[:_DETAIL_CHARS_MAX]) from None


def is_deflated(archive: zipfile.ZipFile, name: str) -> bool:
    """Whether a file inside may be far larger than its bytes in the zip."""
    return archive.getinfo(name).compress_type != zipfile.ZIP_STORED


def read_member_head(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the first bytes of a file inside; empty if they are damaged, which reading the file then reports.

    Raises Refused (`bad_zip`; `unknown_format` for a nested zip, which is not read).
    """
    with open_member(archive, name) as file:
        try:
            head = file.read(HEAD_BYTES)
        except ZIP_MEMBER_ERRORS:
            return b""
    if detect_compression(head) == "zip":
        raise Refused("unknown_format", f"a zip in a zip: {name}"[:_DETAIL_CHARS_MAX])
    return head


class _BoundedReads:
    """A zip file that limits single reads while zipfile loads the directory, all of it in one read.

    Which of several end records counts is up to zipfile, and differs between its versions. So the limit applies to
    what zipfile requests, not to a size that we would parse ourselves.
    """

    def __init__(self, file: BinaryIO, bytes_max: int) -> None:
        self._file = file
        self.bytes_max = bytes_max
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes. Raises Refused.

        Without a count zipfile reads the end of the file, at most as long as a zip's comment.
        """
        if count > max(self.bytes_max, _END_BYTES_MAX):
            raise Refused("bad_zip", f"zip directory of {count} bytes, directory_bytes_max {self.bytes_max}")
        return self._file.read(count)

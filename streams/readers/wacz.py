"""Open a WACZ 1.1, a zip with WARCs in `archive/`, indexes and page lists; only the WARCs are read."""

from __future__ import annotations

import struct
import sys
import zipfile
from typing import BinaryIO, cast

from streams.readers.compression import ZIP_MEMBER_ERRORS, detect_compression
from streams.readers.read_limits import ReadLimits, Refused
from streams.readers.sources import HEAD_BYTES, format_from_name

_END_BYTES_MAX = 56  # of the records at the end of a zip, which state where the directory is
_ENCRYPTED = 1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # with others, one read of a few bytes is unbounded
_DETAIL_CHARS_MAX = 500  # of a detail that quotes names from the zip


def open_archive(file: BinaryIO, limits: ReadLimits) -> zipfile.ZipFile:
    """Open the zip. Raises Refused (`bad_zip`, `no_archive`)."""
    bounded = _BoundedReads(file, limits.directory_bytes_max)
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", bounded))
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error, OSError) as error:
        raise _bad_zip(str(error)) from None
    bounded.bytes_max = sys.maxsize
    if not list_warcs(archive):
        names = ", ".join(archive.namelist()[:5])
        raise Refused("no_archive", f"the zip has no archive/*.warc.gz; it contains {names[:200] or 'nothing'}")
    return archive


def _bad_zip(detail: str) -> Refused:
    return Refused("bad_zip", detail[:_DETAIL_CHARS_MAX])


def list_warcs(archive: zipfile.ZipFile) -> list[str]:
    """Return the sorted names of the WARCs in `archive/`, or of all WARCs if that folder has none."""
    names = sorted({name for name in archive.namelist() if format_from_name(name) in {"warc", "arc"}})
    return [name for name in names if name.startswith("archive/")] or names


def open_member(archive: zipfile.ZipFile, name: str) -> BinaryIO:
    """Open a file in the zip. Raises Refused (`bad_zip`)."""
    info = archive.getinfo(name)
    if info.flag_bits & _ENCRYPTED:
        raise _bad_zip(f"encrypted: {name}")
    if info.compress_type not in _METHODS:
        raise _bad_zip(f"compression method {info.compress_type} is neither stored nor deflated: {name}")
    try:
        return archive.open(info)  # type: ignore[return-value]  # ZipExtFile has all that readers use of BinaryIO
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, struct.error) as error:
        raise _bad_zip(f"{name}: {error}") from None


def read_member_head(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the first bytes of a file in the zip; empty if they are damaged, which reading the file then reports.

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
    """A zip file with a limit on each read until zipfile has loaded the directory, which it does in one read.

    A zip can have several end records, and versions of zipfile differ in the one that they use. So the limit applies
    to the sizes that zipfile requests, not to a size that we would parse ourselves.
    """

    def __init__(self, file: BinaryIO, bytes_max: int) -> None:
        self._file = file
        self.bytes_max = bytes_max
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes. Raises Refused.

        zipfile reads without a count only at the end of the file, at most as much as the longest comment of a zip.
        """
        if count > max(self.bytes_max, _END_BYTES_MAX):
            raise Refused("bad_zip", f"zip directory of {count} bytes, directory_bytes_max {self.bytes_max}")
        return self._file.read(count)

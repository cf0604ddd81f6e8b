"""Open a WACZ 1.1 file: a zip that contains indexes, page lists and, in `archive/`, WARCs.

Only WARCs and ARCs are read.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from typing import BinaryIO, cast

from streams.readers.compression import ZIP_MEMBER_ERRORS, detect_compression
from streams.readers.read_limits import ContentError, ReadLimits
from streams.readers.sources import HEAD_BYTES, format_from_name

_END_RECORD_BYTES_MAX = 56  # size of the largest record that zipfile reads to locate the directory
_ENCRYPTED_FLAG = 1
# Other compression methods need unbounded memory to read a few bytes.
_COMPRESSION_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_DETAIL_CHARS_MAX = 500  # details quote names from the zip, which may be long


def open_archive(file: BinaryIO, limits: ReadLimits) -> zipfile.ZipFile:
    """Open a WACZ. Raise ContentError (`bad_zip` or `no_archive`) if this is impossible."""
    bounded = _BoundedFile(file, limits.directory_bytes_max)
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", bounded))
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error, OSError) as error:
        raise _zip_error(str(error)) from None
    bounded.read_bytes_max = sys.maxsize  # the directory has been read
    if not list_warcs(archive):
        names = ", ".join(archive.namelist()[:5])
        raise ContentError("no_archive", f"the zip has no WARC or ARC; it contains {names[:200] or 'nothing'}")
    return archive


def _zip_error(detail: str) -> ContentError:
    return ContentError("bad_zip", detail[:_DETAIL_CHARS_MAX])


def list_warcs(archive: zipfile.ZipFile) -> list[str]:
    """Return the sorted names of the WARCs and ARCs in `archive/`, or in the whole zip if that folder has none."""
    names = sorted({name for name in archive.namelist() if format_from_name(name) in {"warc", "arc"}})
    return [name for name in names if name.startswith("archive/")] or names


def open_member(archive: zipfile.ZipFile, name: str) -> BinaryIO:
    """Open a file in the zip. Raise ContentError (`bad_zip`) if this is impossible."""
    info = archive.getinfo(name)
    if info.flag_bits & _ENCRYPTED_FLAG:
        raise _zip_error(f"encrypted: {name}")
    if info.compress_type not in _COMPRESSION_METHODS:
        raise _zip_error(
            f"unsupported compression method {info.compress_type} (only stored and deflated are read): {name}"
        )
    try:
        return archive.open(info)  # type: ignore[return-value]  # ZipExtFile has all methods that readers call
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, struct.error) as error:
        raise _zip_error(f"{name}: {error}") from None


def read_member_head(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the first bytes of a file in the zip, or b"" if they are damaged.

    The damage is reported later, when the file itself is read. Raise ContentError (`bad_zip`, or `unknown_format` for
    a zip in the zip).
    """
    with open_member(archive, name) as file:
        try:
            head = file.read(HEAD_BYTES)
        except ZIP_MEMBER_ERRORS:
            return b""
    if detect_compression(head) == "zip":
        raise ContentError("unknown_format", f"nested zips are not supported: {name}"[:_DETAIL_CHARS_MAX])
    return head


class _BoundedFile:
    """A zip file that limits the size of a single read, because zipfile reads the whole directory at once.

    A zip may have several end records, and versions of zipfile differ in which one they use. So the limit applies to
    the sizes that zipfile requests instead of a size that we parse ourselves.
    """

    def __init__(self, file: BinaryIO, read_bytes_max: int) -> None:
        self._file = file
        self.read_bytes_max = read_bytes_max
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes. Raise ContentError if `count` exceeds the limit.

        zipfile omits `count` only near the end of the file, where at most one maximum-length comment remains.
        """
        if count > max(self.read_bytes_max, _END_RECORD_BYTES_MAX):
            raise ContentError(
                "bad_zip", f"zip directory of {count} bytes exceeds directory_bytes_max {self.read_bytes_max}"
            )
        return self._file.read(count)

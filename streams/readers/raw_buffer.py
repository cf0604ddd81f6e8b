"""Buffer the bytes of a file as they are on disk, before decompression."""

from __future__ import annotations

import zipfile
import zlib
from typing import BinaryIO

from streams.errors import ReadError
from streams.readers.read_limits import ReadLimits

ZIP_MEMBER_ERRORS = (zlib.error, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""What reading a file inside a damaged zip may raise."""


class Fault:
    """Why a file could not be read to its end: a key of REASONS and a detail; both are empty without a fault."""

    def __init__(self) -> None:
        self.reason = ""
        self.detail = ""

    def report(self, reason: str, detail: str) -> None:
        """Record a fault. The first one wins: a file that breaks off then also seems to end early."""
        if not self.reason:
            self.reason, self.detail = reason, detail

    def clear(self) -> None:
        self.reason = self.detail = ""


class RawBuffer:
    """Unused bytes of a file: `data[0]` is the byte at `offset`.

    `inflated` says that the file is itself decompressed while it is read (a deflated member of a zip), so that
    reading it may cost far more than its size on disk. Damage in a zip sets `fault` and `dead`; a failing disk raises
    ReadError.
    """

    def __init__(self, file: BinaryIO, limits: ReadLimits, fault: Fault, read_bytes: int, *, inflated: bool) -> None:
        self.data = b""
        self.offset = 0
        self.dead = False  # the file cannot be read any further
        self.unproductive = 0  # bytes read since any of them decompressed to something: padding, empty frames
        self._file = file
        self._limits = limits
        self._fault = fault
        self._read_bytes = read_bytes
        self._inflated = inflated

    def ensure(self, count: int) -> bool:
        """Read until at least `count` bytes are available; return False if the file ends before."""
        while len(self.data) < count:
            part = self._read()
            if not part:
                return False
            self.data = self.data + part if self.data else part
        return True

    def consume(self, count: int) -> None:
        self.offset += count
        self.data = self.data[count:]

    def skip(self, count: int) -> None:
        """Consume up to `count` bytes without buffering them all."""
        while count and self.ensure(1):
            step = min(count, len(self.data))
            self.consume(step)
            count -= step

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int) -> None:
        """Move to an offset; in a pipe only forwards."""
        if self.offset <= offset <= self.offset + len(self.data):
            self.consume(offset - self.offset)
        elif self._file.seekable():
            self._file.seek(offset)
            self.data, self.offset = b"", offset
        else:
            self.skip(offset - self.offset)

    def _read(self) -> bytes:
        if self.dead:
            return b""
        if self._inflated and self.unproductive > self._limits.skip_bytes_max:
            self.dead = True
            self._fault.report("too_big", skip_limit_detail(self._limits))
            return b""
        try:
            data = self._file.read(self._read_bytes)
        except ZIP_MEMBER_ERRORS as error:
            self.dead = True
            self._fault.report("corrupt", f"zip: {error}"[:500])
            return b""
        except OSError as error:
            name = getattr(self._file, "name", "the input")
            raise ReadError(
                f"cannot read {name}: {error}", "check the disk, then run the same command again"
            ) from error
        self.unproductive += len(data)
        return data


def skip_limit_detail(limits: ReadLimits) -> str:
    return f"more than skip_bytes_max {limits.skip_bytes_max} decompressed bytes without a record"

"""The raw buffer reads a file in pieces, and reports what ends the reading."""

from __future__ import annotations

import io
import zlib

import pytest

from streams.errors import ReadError
from streams.readers.raw_buffer import Fault, RawBuffer
from streams.readers.read_limits import ReadLimits

DATA = bytes(range(256)) * 4


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


class Broken(io.BytesIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def read(self, size: int | None = -1, /) -> bytes:
        raise self.error


def buffer(file: io.BytesIO, *, inflated: bool = False, skip_bytes_max: int = 1 << 20) -> tuple[RawBuffer, Fault]:
    fault = Fault()
    return RawBuffer(file, ReadLimits(skip_bytes_max=skip_bytes_max), fault, 100, inflated=inflated), fault


def test_ensure_reads_as_much_as_is_requested():
    raw, fault = buffer(io.BytesIO(DATA))
    assert raw.ensure(250)
    assert raw.data == DATA[:300]
    assert not raw.ensure(len(DATA) + 1)
    assert raw.data == DATA
    assert fault.reason == ""


@pytest.mark.parametrize("file", [io.BytesIO, Pipe])
def test_seek_and_skip_move_the_offset(file):
    raw, _ = buffer(file(DATA))
    raw.ensure(100)
    for offset in (30, 90, 400):
        raw.seek(offset)
        assert raw.offset == offset
        assert raw.ensure(1)
        assert raw.data[0] == DATA[offset]
    raw.skip(50)
    assert raw.offset == 450


def test_damage_in_a_zip_is_a_fault_and_a_failing_disk_raises():
    raw, fault = buffer(Broken(zlib.error("bad block")))
    assert not raw.ensure(1)
    assert raw.dead
    assert fault.reason == "corrupt"
    raw, _ = buffer(Broken(OSError("disk")))
    with pytest.raises(ReadError, match="disk"):
        raw.ensure(1)


def test_an_inflated_file_without_output_ends_at_the_limit():
    raw, fault = buffer(io.BytesIO(bytes(10_000)), inflated=True, skip_bytes_max=500)
    raw.skip(10_000)
    assert fault.reason == "too_big"
    assert raw.offset <= 700
    raw, fault = buffer(io.BytesIO(bytes(10_000)), skip_bytes_max=500)
    raw.skip(10_000)
    assert raw.offset == 10_000


def test_the_first_fault_wins():
    fault = Fault()
    fault.report("corrupt", "first")
    fault.report("truncated", "second")
    assert fault.reason == "corrupt"
    assert fault.detail == "first"
    fault.clear()
    assert fault.reason == fault.detail == ""

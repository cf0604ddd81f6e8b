"""Pages of all formats, from files, folders and standard input."""

from __future__ import annotations

import gzip
import io
import os
import sys

import pytest

from streams.errors import ReadError
from streams.readers.dispatch import read, total_bytes
from streams.readers.position import Position
from streams.readers.read_limits import ReadLimits

LINE = b'{"url": "http://a.org/%d", "fetched_at": 1577934245, "text": "hi"}\n'


def urls(results):
    return [item.url for _, item in results]


@pytest.fixture
def folder(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_bytes(LINE % number)
    return tmp_path


def test_files_are_read_in_sorted_order(folder):
    assert urls(read([folder])) == [f"http://a.org/{i}" for i in range(4)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_raises(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE % 1)
    path.chmod(0)
    with pytest.raises(ReadError):
        list(read([path]))


def test_a_missing_file_raises(tmp_path):
    with pytest.raises(ReadError):
        read([tmp_path / "missing"])
    with pytest.raises(ReadError):
        total_bytes([tmp_path / "missing"])


def test_a_wrong_name_does_not_matter(build, pages):
    assert len(pages(build.gz(build.warc()), "a.jsonl")) == 1
    assert len(pages(build.warc(), "a.wacz")) == 1
    assert len(pages(build.zst(LINE % 1), "a.gz")) == 1


def test_bytes_read_grow_up_to_the_total(folder):
    reading = read([folder])
    done = [reading.bytes_read]
    done += [reading.bytes_read for _ in reading]
    assert done == sorted(done)
    assert done[0] == 0
    assert reading.bytes_read == total_bytes([folder]) > 0


def test_a_start_in_another_file_raises(folder):
    with pytest.raises(ReadError):
        read([folder], start=Position(source="elsewhere.jsonl"))


def test_an_unknown_format_is_rejected_and_an_empty_file_is_not(items):
    ((_, item),) = items(b"%PDF-1.4 nothing for us", "a.pdf")
    assert item.reason == "unknown_format"
    assert "WARC" in item.detail
    assert items(b"", "a.pdf") == []
    assert items(b"", "a.warc.gz") == []


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a.arc.zst", "a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize(
    # mtime=0: parameters must be the same in all processes of a test run.
    "data",
    [bytes(100_000), bytes(10) + b"\r\n" + bytes(20_000), gzip.compress(bytes(50_000), mtime=0)],
    ids=["plain", "in lines", "compressed"],
)
def test_a_file_of_nuls_is_rejected(items, name, data):
    """A crash leaves such a file, if its space was allocated before it was written."""
    results = items(data, name)
    reasons = {item.reason for _, item in results}
    assert reasons
    assert reasons <= ({"truncated", "bad_json"} if "jsonl" in name else {"garbage"})
    assert items(data, name, start=results[-1][0]) == []


def test_compressed_nuls_are_skipped_up_to_the_limit(build, items):
    bomb, limits = gzip.compress(bytes(8 << 20)), ReadLimits(skip_bytes_max=1 << 20)
    for data in (bomb, build.gz(build.warc()) + bomb):
        *pages, (_, item) = items(data, "a.warc.gz", limits)
        assert item.reason == "too_big"
        assert len(pages) == (data is not bomb)
    *_, (_, page) = items(bomb + build.gz(build.warc()), "a.warc.gz", limits)
    assert page.url == "http://a.org/x"  # reading resumes at the next member


def test_records_after_nuls_are_read(build, items):
    ((_, page),) = items(bytes(100_000) + build.warc() + bytes(100_000), "a.warc")
    assert page.url == "http://a.org/x"


class Pipe(io.RawIOBase):
    """Standard input from another program: it cannot seek, and reads return fewer bytes than requested."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        part = self.data[: min(len(buffer), 5000)]
        self.data = self.data[len(part) :]
        buffer[: len(part)] = part
        return len(part)


@pytest.fixture
def stdin(monkeypatch):
    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(data))))

    return put


def test_standard_input(stdin, build):
    records = [build.warc(build.http(os.urandom(9000)), url=f"http://a.org/{i}") for i in range(9)]
    lines = [LINE % i for i in range(9)]
    for data in (
        b"".join(records),
        build.gz(*records),
        build.zst(*records),
        b"".join(lines),
        build.gz(b"".join(lines)),
    ):
        stdin(data)
        results = list(read(["-"]))
        assert urls(results) == [f"http://a.org/{i}" for i in range(9)]
        stdin(data)
        assert urls(read(["-"], start=results[4][0])) == [f"http://a.org/{i}" for i in range(5, 9)]
        assert not sys.stdin.closed
    assert total_bytes(["-"]) == 0


def test_a_wacz_on_standard_input_raises(stdin, build):
    stdin(build.wacz({"archive/a.warc": build.warc()}))
    with pytest.raises(ReadError):
        list(read(["-"]))


def test_damage_ends_standard_input(stdin, build):
    stdin(build.gz(build.warc()) + b"rubbish" + build.gz(build.warc()))
    assert [getattr(item, "reason", "page") for _, item in read(["-"])] == ["page", "garbage"]

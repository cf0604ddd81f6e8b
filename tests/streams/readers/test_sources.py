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


def urls(found):
    return [item.url for _, item in found]


@pytest.fixture
def folder(tmp_path, build):
    for name, data in {
        "b/2.jsonl": LINE % 3,
        "b/.hidden.jsonl": LINE % 99,
        "b/notes.txt": b"not a crawl file",
        "b/stats.json": b'{"pages": 3}',
        "a.jsonl": LINE % 1,
        "a/no-extension": build.gz(build.warc(url="http://a.org/0")),
        "b/1.jsonl.gz": build.gz(LINE % 2),
        ".git/x.jsonl": LINE % 98,
    }.items():
        path = tmp_path / "crawl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "crawl"


def test_folder_in_sorted_order(folder):
    assert urls(read([folder])) == [f"http://a.org/{i}" for i in range(4)]


def test_each_file_once(folder):
    assert urls(read([folder / "a.jsonl", folder, folder / "a.jsonl"])) == [f"http://a.org/{i}" for i in (1, 0, 2, 3)]


def test_size_and_bytes_done(folder):
    reading = read([folder])
    done = [reading.bytes_read]
    done += [reading.bytes_read for _ in reading]
    assert done == sorted(done)
    assert done[0] == 0
    assert reading.bytes_read == total_bytes([folder]) > 0


def test_missing_and_unreadable(tmp_path):
    for paths in ([tmp_path / "missing"], [tmp_path, tmp_path / "missing"], ["a\0b"]):
        with pytest.raises(ReadError) as caught:
            read(paths)
        assert caught.value.hint
        with pytest.raises(ReadError):
            total_bytes(paths)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_no_permission(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINE % 1)
    path.chmod(0)
    with pytest.raises(ReadError):
        list(read([path]))


def test_a_place_in_another_file(folder):
    with pytest.raises(ReadError):
        read([folder], start=Position(source="elsewhere.jsonl"))


def test_unknown_and_empty(items):
    ((_, item),) = items(b"%PDF-1.4 nothing for us", "a.pdf")
    assert item.reason == "unknown_format"
    assert "WARC" in item.detail
    assert items(b"", "a.pdf") == []
    assert items(b"", "a.warc.gz") == []


def test_named_wrongly(build, pages):
    assert len(pages(build.gz(build.warc()), "a.jsonl")) == 1
    assert len(pages(build.warc(), "a.wacz")) == 1
    assert len(pages(build.zst(LINE % 1), "a.gz")) == 1


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a.arc.zst", "a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize(
    # Packed as of no time: a name that holds the second it was collected in differs between the processes of a run.
    "data",
    [bytes(100_000), bytes(10) + b"\r\n" + bytes(20_000), gzip.compress(bytes(50_000), mtime=0)],
    ids=["plain", "in lines", "packed"],
)
def test_nothing_but_nuls_is_told(items, name, data):
    """What a crash leaves of a file whose room was set aside before it was written."""
    found = items(data, name)
    reasons = {item.reason for _, item in found}
    assert reasons
    assert reasons <= ({"truncated", "bad_json"} if "jsonl" in name else {"garbage"})
    assert items(data, name, start=found[-1][0]) == []


def test_packed_nuls_are_not_unpacked_for_ever(build, items):
    bomb, limits = gzip.compress(bytes(8 << 20)), ReadLimits(skip_bytes_max=1 << 20)
    for data in (bomb, build.gz(build.warc()) + bomb):
        *pages, (_, item) = items(data, "a.warc.gz", limits)
        assert item.reason == "too_big"
        assert len(pages) == (data is not bomb)
    *_, (_, page) = items(bomb + build.gz(build.warc()), "a.warc.gz", limits)
    assert page.url == "http://a.org/x"  # reading goes on at the next member


def test_records_behind_nuls_are_read(build, items):
    ((_, page),) = items(bytes(100_000) + build.warc() + bytes(100_000), "a.warc")
    assert page.url == "http://a.org/x"


class Pipe(io.RawIOBase):
    """Standard input from another program: no seeking, and reads that give less than was asked for."""

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
        found = list(read(["-"]))
        assert urls(found) == [f"http://a.org/{i}" for i in range(9)]
        stdin(data)
        assert urls(read(["-"], start=found[4][0])) == [f"http://a.org/{i}" for i in range(5, 9)]
        assert not sys.stdin.closed
    assert total_bytes(["-"]) == 0


def test_wacz_on_a_pipe(stdin, build):
    stdin(build.wacz({"archive/a.warc": build.warc()}))
    with pytest.raises(ReadError):
        list(read(["-"]))


def test_corrupt_on_a_pipe_ends_it(stdin, build):
    stdin(build.gz(build.warc()) + b"rubbish" + build.gz(build.warc()))
    assert [getattr(item, "reason", "page") for _, item in read(["-"])] == ["page", "garbage"]

"""Going on after any item gives exactly the items that follow it, and no cut or damage raises."""

from __future__ import annotations

import random
import zipfile

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.page import REASONS, Page
from streams.readers.dispatch import read
from streams.readers.input_mark import InputMark
from streams.readers.position import Position
from streams.readers.read_limits import ReadLimits

LIMITS = ReadLimits(page_bytes_max=20_000, line_bytes_max=30_000, header_bytes_max=4_000)


def line(i: int, size: int = 10) -> bytes:
    return b'{"url": "http://a.org/%d", "fetched_at": 1577934245, "text": "%b"}\n' % (i, b"x" * size)


class Samples(dict[str, bytes]):
    """Files by name."""

    def __repr__(self) -> str:  # hypothesis shows it beside each failing case
        return "samples"


@pytest.fixture(scope="module")
def samples(build):
    """A small file of each kind, good and bad records mixed."""
    bodies = [build.html, b"", random.Random(1).randbytes(9000), bytes(25_000), b"x" * 50]
    warcs = [build.warc(build.http(body), url=f"http://a.org/{i}") for i, body in enumerate(bodies)]
    warcs[1:1] = [
        build.warc(b"GET /", "request"),
        build.warc(Content_Length="x"),
        build.warc(WARC_Date="null"),
        build.warc(Content_Length="9"),
        b"rubbish\r\n\r\n",
    ]
    arcs = [build.arc(build.http(body), url=f"http://a.org/{i}") for i, body in enumerate(bodies)]
    arcs[2:2] = [b"rubbish\n\n", build.arc(url="http://"), build.arc(size=3)]
    lines = [line(0), b"{\n", b"\n", line(1, 40_000), line(2, 9000), b'{"url": 5}\n', line(3)]
    bad = build.gz(warcs[-1])
    members = {"archive/a.warc.gz": build.gz(*warcs), "archive/b.warc": b"".join(warcs), "archive/c.warc": b""}
    files = {
        "a.warc": b"".join(warcs),
        "a.warc.gz": build.gz(*warcs),
        "single.warc.gz": build.gz(b"".join(warcs)),
        "damaged.warc.gz": build.gz(warcs[0]) + bad[:40] + b"\xff" * 9 + bad[49:] + build.gz(*warcs),
        "a.warc.zst": build.zst(*warcs),
        "pairs.warc.zst": build.zst(b"".join(warcs[:4]), b"".join(warcs[4:])),
        "a.arc": b"".join(arcs),
        "a.arc.gz": build.gz(*arcs),
        "a.jsonl": b"".join(lines),
        "a.jsonl.gz": build.gz(b"".join(lines)),
        "split.jsonl.zst": build.zst(b"".join(lines)[:100], b"".join(lines)[100:]),
        "a.wacz": build.wacz(members),
        "deflated.wacz": build.wacz(members, zipfile.ZIP_DEFLATED),
    }
    return Samples(files)


KINDS = [
    "a.warc",
    "a.warc.gz",
    "single.warc.gz",
    "damaged.warc.gz",
    "a.warc.zst",
    "pairs.warc.zst",
    "a.arc",
    "a.arc.gz",
    "a.jsonl",
    "a.jsonl.gz",
    "split.jsonl.zst",
    "a.wacz",
    "deflated.wacz",
]


def check_resume(path) -> int:
    """Raises where going on after any item differs; returns how many items there are."""
    reading = read([path], LIMITS)
    assert reading.mark() is None
    whole = [(*found, reading.mark()) for found in reading]
    assert all(isinstance(item, Page) or item.reason in REASONS for _, item, _ in whole)
    for i, (position, _, mark) in enumerate(whole):
        kept = msgspec.json.decode(msgspec.json.encode((position, mark)), type=tuple[Position, InputMark])
        rest = read([path], LIMITS, *kept)
        assert [item for _, item in rest] == [item for _, item, _ in whole[i + 1 :]]
        assert rest.input_unchanged
    return len(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_after_each_item(samples, tmp_path, kind):
    path = tmp_path / kind
    path.write_bytes(samples[kind])
    assert check_resume(path) >= 6


def test_across_files(samples, tmp_path):
    for kind in KINDS:
        (tmp_path / kind).write_bytes(samples[kind])
    whole = list(read([tmp_path], LIMITS))
    for i in range(0, len(whole), 7):
        rest = read([tmp_path], LIMITS, start=whole[i][0])
        assert [item for _, item in rest] == [item for _, item in whole[i + 1 :]]


CUT = ["a.warc", "a.warc.gz", "a.warc.zst", "a.arc", "a.jsonl", "a.jsonl.gz", "one.jsonl.gz", "a.wacz"]


def three(build, kind):
    """A file of three pages."""
    record = build.arc if "arc" in kind and "warc" not in kind else build.warc
    parts = [line(i) if "jsonl" in kind else record(url=f"http://a.org/{i}") for i in range(3)]
    if kind.startswith("one."):
        parts = [b"".join(parts)]
    pack = {"gz": build.gz, "zst": build.zst}.get(kind.rpartition(".")[2])
    if pack:
        return pack(*parts)
    return build.wacz({"archive/a.warc": b"".join(parts)}) if kind == "a.wacz" else b"".join(parts)


@pytest.mark.parametrize("kind", CUT)
def test_cut_at_every_byte(build, tmp_path, kind):
    data = three(build, kind)
    path = tmp_path / kind
    most = 0
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        found = [item for _, item in read([path])]
        pages = sum(isinstance(item, Page) for item in found)
        assert pages >= most
        most = pages
        assert all(isinstance(item, Page) for item in found[:-1])
        if found and not isinstance(found[-1], Page):
            assert found[-1].reason in {"truncated", "bad_zip", "no_archive", "unknown_format", "garbage"}
    assert most == 3


@pytest.mark.parametrize("kind", CUT)
def test_what_was_cut_anywhere_is_read_once_it_is_whole(build, tmp_path, kind):
    """No page is lost, none comes twice, and what was refused is not refused again while nothing came."""
    data = three(build, kind)
    path = tmp_path / kind
    for end in range(1, len(data)):
        path.write_bytes(data[:end])
        first = read([path])
        found = list(first)
        position = found[-1][0] if found else None
        again = read([path], None, position, first.mark())
        assert found == [] or list(again) == []
        path.write_bytes(data)
        rest = read([path], None, position, first.mark())
        items = [item for _, item in [*found, *rest]]
        pages = [item.url for item in items if isinstance(item, Page)]
        assert pages[-3:] == [f"http://a.org/{i}" for i in range(3)]
        assert len(pages) == 3 or not rest.input_unchanged
        assert len(items) <= len(pages) + 1


def grown(path, before, after):
    """What is read of a file that held `before` and holds `after` now: pages, and whether they go on."""
    path.write_bytes(before)
    first = read([path])
    *_, (position, _) = first
    path.write_bytes(after)
    rest = read([path], None, position, first.mark())
    return [item.origin.offset for _, item in rest], rest.input_unchanged


def test_a_file_that_has_grown_and_one_that_was_written_anew(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [line(i, 900) for i in range(50)]
    data = b"".join(lines)
    assert grown(path, data, data) == ([], True)
    assert grown(path, data, data + line(50)) == ([50], True)
    assert grown(path, data, line(99) + data) == (list(range(51)), False)
    assert grown(path, data, data[: -len(lines[-1])]) == (list(range(49)), False)
    middle = b"".join([*lines[:-1], line(77, 900)])  # begins the same, and ends with another line as long
    assert grown(path, data, middle) == (list(range(50)), False)
    assert grown(path, lines[0], lines[1]) == ([0], False)


def test_earlier_files_that_are_others_now(tmp_path):
    """Then all are read; a later file that is another is read from its start alone."""
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(line(0) + line(1))
    first = read([tmp_path])
    start = [position for position, _ in first][-1]
    mark = first.mark()
    assert list(read([tmp_path], None, start, mark)) == []
    (tmp_path / "c.jsonl").write_bytes(line(7))
    rest = read([tmp_path], None, start, mark)
    assert ([item.url for _, item in rest], rest.input_unchanged) == (["http://a.org/7"], False)
    (tmp_path / "a.jsonl").write_bytes(line(0) + line(1) + line(2))
    rest = read([tmp_path], None, start, mark)
    assert (len(list(rest)), rest.input_unchanged) == (6, False)


def test_the_mark_of_a_file_is_taken_while_it_is_open(tmp_path):
    """A crawler may put another file in its place at any time: what was read is what is marked."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(0) + line(1))
    reading = read([path])
    position, _ = next(reading)
    (tmp_path / "b.jsonl").write_bytes(line(5) + line(6))
    (tmp_path / "b.jsonl").replace(path)
    rest = read([path], None, position, reading.mark())
    assert [item.url for _, item in rest] == ["http://a.org/5", "http://a.org/6"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32))
def test_damaged_files_resume_too(samples, tmp_path, kind, seed):
    chance = random.Random(seed)
    data = bytearray(samples[kind])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        if chance.random() < 0.5:
            data[at : at + 1] = chance.randbytes(1)
        else:
            del data[at : at + chance.randint(1, 200)]
    path = tmp_path / kind
    path.write_bytes(data)
    check_resume(path)

"""Reading from the position after an item returns exactly the items that follow, whatever is cut or damaged."""

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
    """Files by name. The repr is short, because hypothesis prints it with every failing case."""

    def __repr__(self) -> str:
        return "samples"


@pytest.fixture(scope="module")
def samples(build):
    """Return a small file of each kind, with good and bad records."""
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
    """Assert that reading resumes correctly after each item; return the number of items."""
    reader = read([path], LIMITS)
    assert reader.mark() is None
    results = [(position, item, reader.mark()) for position, item in reader]
    assert all(isinstance(item, Page) or item.reason in REASONS for _, item, _ in results)
    for i, (position, _, mark) in enumerate(results):
        resume_from = msgspec.json.decode(msgspec.json.encode((position, mark)), type=tuple[Position, InputMark])
        rest = read([path], LIMITS, *resume_from)
        assert [item for _, item in rest] == [item for _, item, _ in results[i + 1 :]], f"after item {i}"
        assert rest.input_unchanged
    return len(results)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_resumes_after_each_item(samples, tmp_path, kind):
    path = tmp_path / kind
    path.write_bytes(samples[kind])
    assert check_resume(path) >= 6


def test_reading_resumes_across_files(samples, tmp_path):
    for kind in KINDS:
        (tmp_path / kind).write_bytes(samples[kind])
    results = list(read([tmp_path], LIMITS))
    for i in range(0, len(results), 7):
        rest = read([tmp_path], LIMITS, start=results[i][0])
        assert [item for _, item in rest] == [item for _, item in results[i + 1 :]]


CUT = ["a.warc", "a.warc.gz", "a.warc.zst", "a.arc", "a.jsonl", "a.jsonl.gz", "one.jsonl.gz", "a.wacz"]


def three_pages(build, kind):
    """Return a file with three pages."""
    record = build.arc if "arc" in kind and "warc" not in kind else build.warc
    parts = [line(i) if "jsonl" in kind else record(url=f"http://a.org/{i}") for i in range(3)]
    if kind.startswith("one."):
        parts = [b"".join(parts)]
    pack = {"gz": build.gz, "zst": build.zst}.get(kind.rpartition(".")[2])
    if pack:
        return pack(*parts)
    return build.wacz({"archive/a.warc": b"".join(parts)}) if kind == "a.wacz" else b"".join(parts)


@pytest.mark.parametrize("kind", CUT)
def test_a_file_cut_at_any_byte_has_its_complete_pages(build, tmp_path, kind):
    data = three_pages(build, kind)
    path = tmp_path / kind
    pages_max = 0
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        results = [item for _, item in read([path])]
        pages = sum(isinstance(item, Page) for item in results)
        assert pages >= pages_max
        pages_max = pages
        assert all(isinstance(item, Page) for item in results[:-1])
        if results and not isinstance(results[-1], Page):
            assert results[-1].reason in {"truncated", "bad_zip", "no_archive", "unknown_format", "garbage"}
    assert pages_max == 3


@pytest.mark.parametrize("kind", CUT)
def test_a_file_that_was_cut_is_resumed_once_it_is_complete(build, tmp_path, kind):
    """No page is lost or read twice, and a rejected record is not rejected again before the file has changed."""
    data = three_pages(build, kind)
    path = tmp_path / kind
    for end in range(1, len(data)):
        path.write_bytes(data[:end])
        first = read([path])
        results = list(first)
        position = results[-1][0] if results else None
        again = read([path], None, position, first.mark())
        assert results == [] or list(again) == []
        path.write_bytes(data)
        rest = read([path], None, position, first.mark())
        items = [item for _, item in [*results, *rest]]
        pages = [item.url for item in items if isinstance(item, Page)]
        assert pages[-3:] == [f"http://a.org/{i}" for i in range(3)]
        assert len(pages) == 3 or not rest.input_unchanged
        assert len(items) <= len(pages) + 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32))
def test_reading_resumes_in_damaged_files(samples, tmp_path, kind, seed):
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

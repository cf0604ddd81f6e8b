"""Reading resumes exactly after a position, whatever is cut or damaged, and marks recognise replaced files."""

from __future__ import annotations

import io
import random
import zipfile

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.page import REJECTION_REASONS, Page
from streams.readers.dispatch import read
from streams.readers.position import TAIL_BYTES, FileDigester, InputMark, Position
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
    assert all(isinstance(item, Page) or item.reason in REJECTION_REASONS for _, item, _ in results)
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


def input_file(data: bytes) -> FileDigester:
    return FileDigester("a", data[:100], io.BytesIO(data))


def test_a_mark_covers_the_head_and_the_tail_before_its_position():
    data = bytes(range(256)) * 100
    position = Position(source="a", offset=20_000)
    mark = input_file(data).mark(position, "")
    assert mark.tail_end == position.offset
    for changed, same in ((0, False), (position.offset - 1, False), (position.offset - TAIL_BYTES, False),
                          (position.offset - TAIL_BYTES - 1, True), (position.offset, True)):  # fmt: skip
        other = bytearray(data)
        other[changed] ^= 1
        assert input_file(bytes(other)).matches(mark) is same, f"byte {changed} changed"


def test_the_methods_of_an_input_file_do_not_move_it():
    file = io.BytesIO(bytes(10_000))
    file.seek(5000)
    marked = FileDigester("a", bytes(100), file)
    marked.matches(marked.mark(Position(source="a", offset=9000), ""))
    marked.digest()
    assert file.tell() == 5000


def resume_after(path, before, after):
    """Read `before`, then replace it by `after` and resume: return the lines that are read, and `input_unchanged`."""
    path.write_bytes(before)
    first = read([path])
    *_, (position, _) = first
    path.write_bytes(after)
    rest = read([path], None, position, first.mark())
    return [item.origin.offset for _, item in rest], rest.input_unchanged


def test_a_grown_file_is_resumed_and_a_rewritten_one_is_read_from_its_start(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [line(i, 900) for i in range(50)]
    data = b"".join(lines)
    assert resume_after(path, data, data) == ([], True)
    assert resume_after(path, data, data + line(50)) == ([50], True)
    assert resume_after(path, data, line(99) + data) == (list(range(51)), False)
    assert resume_after(path, data, data[: -len(lines[-1])]) == (list(range(49)), False)
    middle = b"".join([*lines[:-1], line(77, 900)])  # same start, another last line of the same length
    assert resume_after(path, data, middle) == (list(range(50)), False)
    assert resume_after(path, lines[0], lines[1]) == ([0], False)


def test_replacing_an_earlier_file_causes_all_files_to_be_read(tmp_path):
    """A replaced later file is read from its start, without the others."""
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(line(0) + line(1))
    first = read([tmp_path])
    start = [position for position, _ in first][-1]
    mark = first.mark()
    assert list(read([tmp_path], None, start, mark)) == []
    (tmp_path / "c.jsonl").write_bytes(line(7))
    rest = read([tmp_path], None, start, mark)
    assert [item.url for _, item in rest] == ["http://a.org/7"]
    assert not rest.input_unchanged
    (tmp_path / "a.jsonl").write_bytes(line(0) + line(1) + line(2))
    rest = read([tmp_path], None, start, mark)
    assert len(list(rest)) == 6
    assert not rest.input_unchanged


def test_a_mark_describes_the_file_that_was_read(tmp_path):
    """A crawler may replace a file at any time: the mark is that of the file that was read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(0) + line(1))
    reading = read([path])
    position, _ = next(reading)
    (tmp_path / "b.jsonl").write_bytes(line(5) + line(6))
    (tmp_path / "b.jsonl").replace(path)
    rest = read([path], None, position, reading.mark())
    assert [item.url for _, item in rest] == ["http://a.org/5", "http://a.org/6"]

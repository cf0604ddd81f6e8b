"""An input mark shows whether an input has changed since it was read."""

from __future__ import annotations

import io

from streams.readers.dispatch import read
from streams.readers.input_mark import TAIL_BYTES, InputFile, digest_files
from streams.readers.position import Position
from streams.readers.sources import Source, list_sources


def line(i: int, size: int = 10) -> bytes:
    return b'{"url": "http://a.org/%d", "fetched_at": 1577934245, "text": "%b"}\n' % (i, b"x" * size)


def input_file(data: bytes) -> InputFile:
    return InputFile("a", data[:100], io.BytesIO(data))


def test_a_mark_covers_the_head_and_the_tail_before_its_position():
    data = bytes(range(256)) * 100
    position = Position(source="a", offset=20_000)
    mark = input_file(data).mark(position, "")
    assert mark.until == position.offset
    for changed, same in ((0, False), (position.offset - 1, False), (position.offset - TAIL_BYTES, False),
                          (position.offset - TAIL_BYTES - 1, True), (position.offset, True)):  # fmt: skip
        other = bytearray(data)
        other[changed] ^= 1
        assert input_file(bytes(other)).matches(mark) is same, f"byte {changed} changed"


def test_methods_leave_the_file_where_it_is():
    file = io.BytesIO(bytes(10_000))
    file.seek(5000)
    marked = InputFile("a", bytes(100), file)
    marked.matches(marked.mark(Position(source="a", offset=9000), ""))
    marked.digest()
    assert file.tell() == 5000


def test_the_digest_of_files_changes_with_each_of_them(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(line(0))
    before = digest_files(list_sources([tmp_path]))
    (tmp_path / "b.jsonl").write_bytes(line(1))
    assert digest_files(list_sources([tmp_path])) != before


def test_pipes_have_no_digest():
    assert digest_files([Source("-", 0)]) is None


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


def test_a_replaced_earlier_file_makes_all_be_read(tmp_path):
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


def test_the_mark_of_a_file_is_taken_while_it_is_open(tmp_path):
    """A crawler may replace a file at any time: the mark is that of the file that was read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(0) + line(1))
    reading = read([path])
    position, _ = next(reading)
    (tmp_path / "b.jsonl").write_bytes(line(5) + line(6))
    (tmp_path / "b.jsonl").replace(path)
    rest = read([path], None, position, reading.mark())
    assert [item.url for _, item in rest] == ["http://a.org/5", "http://a.org/6"]

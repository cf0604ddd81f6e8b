"""The list of input files, and the format of each one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.errors import ReadError
from streams.readers.sources import (
    STDIN,
    Source,
    detect_format,
    digest_files,
    file_identity,
    format_from_name,
    list_sources,
    read_head,
)

LINE = b'{"url": "http://a.org/1", "text": "hi"}\n'


def names(sources):
    return [source.name for source in sources]


@pytest.fixture
def folder(tmp_path, build):
    for name, data in {
        "b/2.jsonl": LINE,
        "b/.hidden.jsonl": LINE,
        "b/notes.txt": b"not a crawl file",
        "b/stats.json": b'{"pages": 3}',
        "a.jsonl": LINE,
        "a/no-extension": build.gz(build.warc()),
        "b/1.jsonl.gz": build.gz(LINE),
        ".git/x.jsonl": LINE,
    }.items():
        path = tmp_path / "crawl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "crawl"


def test_the_crawl_files_of_a_folder_are_listed_in_sorted_order(folder):
    expected = ["a/no-extension", "a.jsonl", "b/1.jsonl.gz", "b/2.jsonl"]
    assert names(list_sources([folder])) == [str(folder / name) for name in expected]


def test_a_file_that_is_named_twice_is_listed_once(folder):
    first = str(folder / "a.jsonl")
    sources = names(list_sources([first, folder, first]))
    assert sources[0] == first
    assert len(sources) == len(set(sources)) == 4


def test_excluded_files_and_folders_are_left_out_under_any_name(folder):
    (folder / "link.jsonl").symlink_to(folder / "a.jsonl")
    sources = names(list_sources([folder], exclude=[folder / "a.jsonl", folder / "b"]))
    assert sources == [str(folder / "a/no-extension")]


def test_a_missing_path_raises_with_a_hint(tmp_path):
    for paths in ([tmp_path / "missing"], [tmp_path, tmp_path / "missing"], ["a\0b"]):
        with pytest.raises(ReadError, match="cannot read") as caught:
            list_sources(paths)
        assert caught.value.hint


def test_links_have_the_identity_of_their_target(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"")
    (tmp_path / "link").symlink_to(target)
    os.link(target, tmp_path / "hard")
    assert file_identity(tmp_path / "link") == file_identity(tmp_path / "hard") == file_identity(target) is not None
    assert file_identity(tmp_path / "missing") is None


def test_sizes_are_those_on_disk_and_0_for_standard_input(folder):
    standard_input, file = list_sources([STDIN, folder / "a.jsonl"])
    assert standard_input.size == 0
    assert not standard_input.is_regular
    assert file.size == len(LINE)
    assert file.is_regular


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.WARC.gz", "warc"), ("a.wet.zst", "warc"), ("a.arc", "arc"), ("a.ndjson", "jsonl"), ("a.wacz", "wacz"),
     ("a.gz", ""), ("warc", ""), ("a.warc.bz2", "")],
)  # fmt: skip
def test_the_suffix_names_the_format(name, expected):
    assert format_from_name(name) == expected


def test_first_bytes_win_over_the_name(build):
    assert detect_format(build.gz(build.warc()), "a.jsonl") == "warc"
    assert detect_format(build.zst(build.arc()), "a.warc") == "arc"
    assert detect_format(LINE, "a") == "jsonl"
    assert detect_format(build.wacz({}), "a.warc") == "wacz"


def test_the_name_counts_if_the_first_bytes_show_no_format():
    assert detect_format(b"?", "a.warc") == "warc"
    assert detect_format(b"{", "a.arc") == "arc"
    assert detect_format(b"\x1f\x8b\x08 damaged", "a.jsonl.gz") == "jsonl"
    assert detect_format(b"?", "a.pdf") == ""


def test_reading_the_head_leaves_the_file_at_its_start(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 100)
    with path.open("rb") as file:
        head, same = read_head(file)
        assert path.read_bytes().startswith(head)
        assert same.read() == path.read_bytes()


def test_the_digest_of_files_changes_with_each_of_them(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(LINE)
    before = digest_files(list_sources([tmp_path]))
    (tmp_path / "b.jsonl").write_bytes(LINE * 2)
    assert digest_files(list_sources([tmp_path])) != before


def test_pipes_have_no_digest():
    assert digest_files([Source(STDIN, 0)]) is None

"""A folder of HTML becomes the pages that a server would make of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.errors import InputError
from streams.readers.dispatch import list_files, read
from streams.readers.html_folder import contains_html, open_folder
from streams.readers.read_limits import ReadLimits
from streams.readers.read_options import ReadOptions

BASE = "https://docs.example.org/en/"
FILES = {
    "index.html": "",
    "guide/index.html": "guide/",
    "guide/start.html": "guide/start.html",
    "guide/INDEX.HTM": "guide/",
    "a b/\u00fc%20#?.html": "a%20b/%C3%BC%2520%23%3F.html",
    "notes.txt": "notes.txt",
    "read.md": "read.md",
    "x.xhtml": "x.xhtml",
    "genindex.html": "genindex.html",
}
SKIPPED = [
    "style.css",
    "logo.png",
    "_static/x.html",
    "guide/_sources/index.txt",
    "404.html",
    ".hidden.html",
    "a.json",
]


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "build"
    for name in [*FILES, *SKIPPED]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<html><p>{name}</p></html>")
        os.utime(path, (1_577_934_245, 1_577_934_245))
    return root


def options(root, exclude=("_static", "_sources", "404.html"), time=0):
    return ReadOptions(html_folder=open_folder(str(root), BASE, exclude), time=time)


def read_all(root, limits=None, start=None, mark=None, **arguments):
    return list(read([root], limits, start, mark, options(root, **arguments)))


def test_files_have_the_urls_of_a_server(folder):
    read_items = {item.url: item for _, item in read_all(folder)}
    assert set(read_items) == {BASE + path for path in FILES.values()}
    page = read_items[BASE + "guide/start.html"]
    assert page.body == b"<html><p>guide/start.html</p></html>"
    assert (page.time, page.status, page.mime) == (1_577_934_245_000, 200, "text/html")
    assert read_items[BASE + "read.md"].mime == "text/markdown"


def test_files_are_read_in_sorted_order(folder):
    sources = [item.origin.source for _, item in read_all(folder)]
    assert sources == sorted(sources, key=lambda source: Path(source).parts)


def test_a_time_may_be_given_for_all_files(folder):
    assert {item.time for _, item in read_all(folder, time=5000)} == {5000}


@pytest.mark.parametrize(
    ("pattern", "skipped"),
    [
        ("genindex.html", {"genindex.html"}), ("guide", {"guide/index.html", "guide/start.html", "guide/INDEX.HTM"}),
        ("guide/", {"guide/index.html", "guide/start.html", "guide/INDEX.HTM"}), ("guide/start*", {"guide/start.html"}),
        ("*.txt", {"notes.txt"}), ("start", set()), ("start.html", {"guide/start.html"}),
    ],
)  # fmt: skip
def test_patterns_match_names_and_paths(folder, pattern, skipped):
    read_items = {
        os.path.relpath(item.origin.source, folder) for _, item in read_all(folder, exclude=(pattern, "_sources"))
    }
    everything = {os.path.relpath(item.origin.source, folder) for _, item in read_all(folder, exclude=("_sources",))}
    assert everything - read_items == skipped


def test_links_that_lead_out_of_the_folder_are_not_followed(folder):
    outside = folder.parent / "secret.html"
    outside.write_text("secret")
    (folder.parent / "more").mkdir()
    (folder.parent / "more" / "y.html").write_text("secret")
    (folder / "out.html").symlink_to(outside)
    (folder / "more").symlink_to(folder.parent / "more")
    (folder / "same.html").symlink_to(folder / "notes.txt")
    urls = {item.url for _, item in read_all(folder)}
    assert urls == {BASE + path for path in [*FILES.values(), "same.html"]}


def test_a_file_that_is_too_big_keeps_its_url(folder):
    (folder / "notes.txt").write_text("x" * 2000)
    results = {item.url: item for _, item in read_all(folder, ReadLimits(page_bytes_max=1000))}
    assert results[BASE + "notes.txt"].content_error[0] == "too_big"
    assert results[BASE + "notes.txt"].body is None
    assert results[BASE].content_error is None


def test_reading_resumes_after_any_file(folder):
    (folder / "zz.txt").write_text("")
    everything = read_all(folder)
    reader = read([folder], options=options(folder))
    for index, (position, _) in enumerate(reader):
        assert read_all(folder, None, position, reader.mark()) == everything[index + 1 :]


def test_a_changed_file_is_read_again(folder):
    reader = read([folder], options=options(folder))
    *_, (position, last) = reader
    Path(last.origin.source).write_text("<p>rewritten and longer than it was before")
    assert len(read_all(folder, None, position, reader.mark())) == 1


def test_the_folder_and_the_url_are_checked(folder):
    assert open_folder(str(folder), "https://a.org").base_url == "https://a.org/"
    for url in ("docs.example.org", "ftp://a.org/", "https://a.org/?q", "https://a.org/#x", "https://", ""):
        with pytest.raises(InputError, match="base-url") as caught:
            open_folder(str(folder), url)
        assert "https://docs.example.org/" in caught.value.hint
    with pytest.raises(InputError, match="not a folder"):
        open_folder(str(folder / "index.html"), BASE)


def test_a_folder_of_html_is_recognised(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert contains_html(str(tmp_path))
    assert not contains_html(str(tmp_path / "empty"))
    assert list_files([folder]) == []

"""CSV rows become pages; malformed rows do not affect others, and reading resumes after any row."""

from __future__ import annotations

import csv
import io

import pytest

from streams.page import Page
from streams.readers.dispatch import read
from streams.readers.read_limits import ReadLimits
from streams.readers.read_options import ReadOptions
from tests.streams.readers.conftest import assert_rejects_long_item_in_bounded_memory

BODIES = [
    "<p>plain",
    '<p class="x">quotes, commas',
    '<p>lines\n\n"of" text,\r\n,',
    '""',
    '"',
    "\u00e9, \u4f60",
    '<p>"\n"<p>',
]
NAMES = ["body", "status", "url", "unknown"]


def table(rows, names=NAMES, **options):
    file = io.StringIO()
    writer = csv.writer(file, **options)
    writer.writerows([names, *rows])
    return file.getvalue().encode()


ROWS = [[body, "200", f"http://a.org/{n}", ""] for n, body in enumerate(BODIES)]
FORMS = {
    "scrapy": table(ROWS),
    "unix": table(ROWS, lineterminator="\n"),
    "all quoted": table(ROWS, quoting=csv.QUOTE_ALL),
    "byte order mark": b"\xef\xbb\xbf" + table(ROWS),
    "no last newline": table(ROWS).rstrip(b"\r\n"),
    "blank lines": table(ROWS) + b"\r\n\r\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.csv", "a.bin"])
def test_every_row_is_a_page(pages, form, name):
    read_pages = pages(FORMS[form], name)
    assert [(page.url, page.body.decode()) for page in read_pages] == [(row[2], row[0]) for row in ROWS]
    assert [page.status for page in read_pages] == [200] * len(ROWS)
    assert [page.origin.offset for page in read_pages] == list(range(len(ROWS)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pack", ["plain", "gz", "zst"])
def test_reading_resumes_after_any_row(build, items, form, pack):
    data = FORMS[form] if pack == "plain" else getattr(build, pack)(FORMS[form])
    everything = items(data, "a.csv")
    assert len(everything) == len(ROWS)
    for index, (position, _) in enumerate(everything):
        assert items(data, "a.csv", start=position) == everything[index + 1 :]


def test_a_row_that_is_cut_off_is_read_again_once_it_is_complete(items):
    data = table([ROWS[0], ROWS[2], ROWS[3]])
    whole = items(data, "a.csv")
    part = items(data[: data.index(b"of")], "a.csv")
    assert [getattr(item, "reason", "page") for _, item in part] == ["page", "truncated"]
    assert items(data, "a.csv", start=part[-1][0]) == whole[1:]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"<p>x,200,http://a.org/,,more\r\n", "bad_csv"), (b"<p>x,200,,\r\n", "no_url"), (b"\xff,200,http://a.org/,\r\n", "bad_utf8"),
        (b"<p>x,OK,http://a.org/,\r\n", "bad_field"), (b",200,http://a.org/,\r\n", "no_content"),
        (b'"' + b"x\n" * 3000 + b'",200,http://a.org/,\r\n', "too_big"), (b"x" * 6000 + b",200,http://a.org/,\r\n", "too_big"),
        (b'5" disk,200,http://a.org/,\r\n', "page"),
    ],
)  # fmt: skip
def test_a_bad_row_does_not_affect_the_others(reasons, bad, reason):
    good = b"<p>x,200,http://a.org/,\r\n"
    data = b"body,status,url,unknown\r\n" + good + bad + good + good
    assert reasons(data, "a.csv", ReadLimits(line_bytes_max=3000)) == ["page", reason, "page", "page"]


def test_a_header_without_urls_names_its_columns(items):
    ((_, rejected),) = items(b"Address,Title\r\nhttp://a.org/,x\r\n", "a.csv")
    assert rejected.reason == "unknown_format"
    assert "Address, Title" in rejected.detail
    assert "--field url=COLUMN" in rejected.detail


def test_columns_name_the_fields(tmp_path):
    (tmp_path / "a.csv").write_text("Address,Content\nhttp://a.org/,hi\n")
    options = ReadOptions(columns={"url": "Address", "text": "Content"}, time=5000)
    ((_, page),) = read([tmp_path / "a.csv"], options=options)
    assert isinstance(page, Page)
    assert (page.url, page.text, page.time) == ("http://a.org/", "hi", 5000)


@pytest.mark.parametrize(
    "filler",
    [
        b"x" * 8_000_000,
        b'"' + b'""' * 4_000_000 + b'"',
        b'"' + (b"a line, with a comma, " * 6 + b"\n") * 60_000 + b'"',
    ],
)
def test_memory_is_bounded_by_the_longest_row(tmp_path, filler):
    path = tmp_path / "a.csv"
    path.write_bytes(b"url,text\nhttp://a.org/," + filler + b"\nhttp://a.org/,hi\n")
    assert_rejects_long_item_in_bounded_memory(path)


def test_xml_and_single_pages_are_refused_with_a_hint(items):
    ((_, xml),) = items(b'<?xml version="1.0" encoding="utf-8"?>\n<items>\n<item/></items>', "a.xml")
    ((_, page),) = items(b"<!DOCTYPE html><html>", "a.html")
    assert xml.reason == page.reason == "unknown_format"
    assert "-o pages.jl" in xml.detail
    assert "--base-url" in page.detail

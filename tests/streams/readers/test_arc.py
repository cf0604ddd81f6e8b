"""ARC records become pages, as old crawlers wrote them."""

from __future__ import annotations

import pytest

from streams.readers.read_limits import ReadLimits

FILE = b"1 0 Crawler\nURL IP-address Archive-date Content-type Archive-length\n"


def head(build, size=None):
    return build.arc(FILE, "filedesc://a.arc", size)


def test_a_record_is_a_page(build, pages):
    (page,) = pages(head(build) + build.arc())
    assert page.url == "http://a.org/x"
    assert page.status == 200
    assert page.body == build.html
    assert page.mime == "text/html"
    assert page.time == 1_210_359_761_000


@pytest.mark.parametrize("size", [len(FILE) - 1, len(FILE) + 1, 0])
def test_the_length_of_the_file_record_may_be_wrong(build, pages, size):
    assert len(pages(head(build, size) + build.arc() * 2)) == 2


def test_compressed_files_and_files_without_a_file_record_are_read(build, pages):
    records = [build.arc(url=f"http://a.org/{i}") for i in range(4)]
    for data in (b"".join(records), build.gz(*records), build.zst(*records), build.gz(b"".join(records))):
        assert [page.url for page in pages(data)] == [f"http://a.org/{i}" for i in range(4)]


def test_unusual_records_are_read(build, pages):
    lines = [
        b"http://a.org/with space 192.0.2.7 20080509190241 text/html 2\nhi\n",
        b"http://a.org/v2 192.0.2.7 20080509190241 text/html 200 checksum - 0 name.arc 2\nhi\n",
        b"http://a.org/v6 2001:db8::1 20080509190241 text/html; charset=x 2\nhi\n",
        b"http://a.org/no-type 192.0.2.7 20080509190241 2\nhi\n",
        b"http://a.org/short-date 192.0.2.7 20080509 text/html 2\r\nhi\r\n",
        b"dns:a.org 192.0.2.7 20080509190241 text/dns 2\nhi\n",
        b"http://a.org/empty - 20080509190241 text/html 0\n\n",
    ]
    results = pages(b"".join(lines))
    names = ["with space", "v2", "v6", "no-type", "short-date", "empty"]
    assert [page.url for page in results] == [f"http://a.org/{name}" for name in names]
    assert {page.body for page in results} == {b"hi", b""}
    assert results[2].charset == "x"


def test_damaged_records_are_rejected_and_the_others_read(build, reasons):
    good = build.arc()
    size = len(build.http())
    assert reasons(good + b"rubbish\n\nmore of it\n" + good) == ["page", "garbage", "page"]
    assert reasons(good + build.arc(size=size - 7) + good) == ["page", "bad_length", "page"]
    assert reasons(build.gz(good, build.arc(size=size + 99), good)) == ["page", "bad_length", "page"]
    assert reasons(good + build.arc(size=10**17)) == ["page", "truncated"]
    assert reasons(good + build.arc(url="http://") + good) == ["page", "bad_url", "page"]
    assert reasons(good + good.replace(b"20080509", b"20089999") + good) == ["page", "bad_time", "page"]
    assert reasons(b"x" * 100_000 + b"\n" + good, "a.arc") == ["garbage", "page"]


def test_a_page_that_is_too_big_is_refused(build, items):
    limits = ReadLimits(page_bytes_max=1000, header_bytes_max=1000)
    results = [
        item for _, item in items(build.arc(bytes(1500)) + build.arc(bytes(5000)) + build.arc(), limits=limits)
    ]
    assert [item.content_error and item.content_error[0] for item in results] == ["too_big", "too_big", None]

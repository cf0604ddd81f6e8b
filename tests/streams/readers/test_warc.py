"""WARC records become pages; damaged and refused ones are rejections."""

from __future__ import annotations

import tracemalloc

import pytest

from streams.page import Origin, Page
from streams.readers.read_limits import ReadLimits
from streams.settings import load

TIME = 1_577_934_245_000


def test_a_response_is_a_page(build, pages):
    data = build.warc()
    (page,) = pages(data, "a.warc")
    assert page == Page(
        url="http://a.org/x",
        time=TIME,
        body=build.html,
        mime="text/html",
        charset="utf-8",
        origin=Origin(page.origin.source, 0),
    )


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0", "1.1"])
@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_all_versions_and_newlines_are_read(build, pages, version, newline):
    data = build.warc(version=version, newline=newline) * 3
    assert [page.body for page in pages(data)] == [build.html] * 3


def test_compression_does_not_matter(build, pages):
    records = [build.warc(url=f"http://a.org/{i}") for i in range(5)]
    plain = pages(b"".join(records))
    for data in (
        build.gz(*records),
        build.gz(b"".join(records)),
        build.gz(b"".join(records[:2]), b"".join(records[2:])),
        build.zst(*records),
        build.zst(b"".join(records)),
        build.gz(records[0]) + b"\0" * 700 + build.gz(*records[1:]),
    ):
        results = pages(data)
        assert [(page.url, page.body) for page in results] == [(page.url, page.body) for page in plain]
    offsets = [page.origin.offset for page in pages(build.gz(*records))]
    assert offsets == [len(build.gz(*records[:i])) for i in range(5)]


def test_records_without_a_page_are_skipped(build, pages):
    data = b"".join(
        [
            build.warc(b"software: x\r\n", "warcinfo", None, Content_Type="application/warc-fields"),
            build.warc(b"GET / HTTP/1.1\r\n\r\n", "request"),
            build.warc(b"via: x\r\n", "metadata"),
            build.warc(b"20200101\nx", "response", "dns:a.org", Content_Type="text/dns"),
            build.warc(b"x", "resource", "urn:x:y"),
            build.warc(b"x", "nonsense"),
            build.warc(b"x", "continuation"),
        ]
    )
    assert pages(data, "a.warc") == []


def test_a_resource_has_a_body_and_a_conversion_has_text(build, pages):
    resource, conversion = pages(
        build.warc(b"<p>hi", "resource", Content_Type="Text/HTML; Charset=Latin1")
        + build.warc("h\u00e9".encode() + b"\xff", "conversion", "<http://a.org/y>", Content_Type="text/plain")
    )
    assert resource.body == b"<p>hi"
    assert resource.mime == "text/html"
    assert resource.charset == "latin1"
    assert conversion.url == "http://a.org/y"
    assert conversion.text == "h\u00e9\ufffd"
    assert conversion.body is None
    assert conversion.mime == "", "text/plain is the type of the text, not of the page"


def test_redirects_have_a_target_and_no_body(build, pages):
    def redirect(location, status="301 Moved"):
        return build.warc(build.http(b"moved", status, Location=location))

    absolute, relative, unusable, not_modified = pages(
        redirect("https://b.org/y") + redirect("../z?q=1") + redirect("mailto:x@y.org") + redirect("/q", "200 OK")
    )
    assert absolute.status == 301
    assert absolute.redirect == "https://b.org/y"
    assert absolute.body is None
    assert relative.redirect == "http://a.org/z?q=1"
    assert unusable.redirect is None
    assert unusable.body is None
    assert unusable.content_error is None
    assert not_modified.redirect is None
    assert not_modified.body == b"moved"


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_errors_are_pages_without_a_body(build, pages, coding):
    (page,) = pages(build.warc(build.http(b"no", "404 Not Found", Content_Encoding=coding)))
    assert page.status == 404
    assert page.body is None
    assert page.content_error is None


def test_a_revisit_names_the_capture_that_it_repeats(build, pages):
    named, digest_only, without_http, moved = pages(
        build.warc(
            build.http(b""),
            "revisit",
            WARC_Refers_To_Target_URI="http://b.org/",
            WARC_Refers_To_Date="2020-01-01T00:00:00Z",
            WARC_Payload_Digest="sha1:ABC",
        )
        + build.warc(build.http(b"", "304 Not Modified"), "revisit", WARC_Payload_Digest="sha1:ABC")
        + build.warc(b"", "revisit")
        + build.warc(build.http(b"", "302 Found", Location="/y"), "revisit")
    )
    assert named.original_url == "http://b.org/"
    assert named.original_time == 1_577_836_800_000
    assert named.body is None
    assert named.text is None
    assert named.status == 200
    assert digest_only.original_url == "http://a.org/x"
    assert digest_only.original_time is None
    assert digest_only.status == 304
    assert without_http.original_url == "http://a.org/x"
    assert without_http.status == 200
    assert moved.redirect == "http://a.org/y"
    assert moved.status == 302


def test_a_record_without_http_headers_has_its_own_media_type(build, pages):
    named, claimed = pages(
        build.warc(b"<p>hi", Content_Type="text/html; charset=utf-8") + build.warc(b"<p>hi there", newline="\n")
    )
    assert named.body == b"<p>hi"
    assert named.mime == "text/html"
    assert named.charset == "utf-8"
    assert named.status == 200
    assert claimed.body == b"<p>hi there"
    assert claimed.mime == ""


def test_the_time_comes_from_warc_date_or_a_date_header(build, items):
    data = b"".join(
        [
            build.warc(WARC_Date="2020-01-02T03:04:05.678901Z", version="1.1"),
            build.warc(WARC_Date="null", Date="Thu, 02 Jan 2020 03:04:05 GMT"),
            build.warc(build.http(Date="Thu, 02 Jan 2020 03:04:05 GMT"), WARC_Date="null"),
            build.warc(WARC_Date=None),
            build.warc(WARC_Date="null"),
        ]
    )
    *results, bad = [item for _, item in items(data)]
    assert [page.time for page in results] == [TIME + 679, TIME, TIME, 0]
    assert bad.reason == "bad_time"


def test_records_without_a_usable_header_are_rejected(build, items):
    data = b"".join(
        [
            build.warc(url=None),
            build.warc(url="http://"),
            build.warc(url="http://a.org/" + "x" * 3000),
            build.warc(WARC_Segment_Number="1"),
            build.warc(),
        ]
    )
    results = [item for _, item in items(data)]
    assert [item.reason for item in results[:-1]] == ["no_url", "bad_url", "bad_url", "segmented"]
    assert isinstance(results[-1], Page)
    assert len(results[2].url) == 2048


@pytest.mark.parametrize("pack", ["plain", "gz", "zst"])
def test_after_bad_framing_reading_resumes_at_the_next_record(build, reasons, pack):
    good = build.warc()
    block = len(build.http())
    cases = {
        "too short": (build.warc(Content_Length=str(block - 5)), "bad_length"),
        "too long": (build.warc(Content_Length=str(block + 9)), "bad_length"),
        "no length": (build.warc(Content_Length=None), "bad_header"),
        "negative": (build.warc(Content_Length="-5"), "bad_header"),
        "no number": (build.warc(Content_Length="x"), "bad_header"),
        "header": (b"WARC/1.0\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "bad_header"),
        "garbage": (b"some rubbish\r\n\r\n<p>WARC/1.0", "garbage"),
    }
    for bad, reason in cases.values():
        parts = [good, bad, good, good]
        data = b"".join(parts) if pack == "plain" else getattr(build, pack)(*parts)
        expected = ["page", reason, "page", "page"]
        if bad is cases["too long"][0] and pack == "plain":
            expected.pop()  # the length includes the first line of the next record, but ends at a frame
        assert reasons(data, "a.warc") == expected


@pytest.mark.parametrize("pack", ["gz", "zst"])
def test_after_a_corrupt_member_reading_resumes_at_the_next(build, reasons, pack):
    packed = getattr(build, pack)(build.warc(build.http(bytes(range(256)) * 40)))
    good = getattr(build, pack)(build.warc())
    for at in (len(packed) // 2, len(packed) - 3):
        bad = bytearray(packed)
        bad[at] ^= 0xFF
        results = reasons(good + bytes(bad) + good, "a.warc")
        assert results[0] == results[-1] == "page"
        assert "corrupt" in results
    assert reasons(good + b"rubbish" * 9 + good, "a.warc") == ["page", "garbage", "page"]


@pytest.mark.parametrize("status", [200, 404])
def test_the_headers_of_a_record_that_is_too_big_are_read(build, items, status):
    limits = ReadLimits(page_bytes_max=1000, header_bytes_max=2000)
    big = build.warc(build.http(bytes(50_000), f"{status} Status"))
    for data in (big, build.gz(big), build.zst(big)):
        ((_, page),) = items(data, limits=limits)
        assert page.url == "http://a.org/x"
        assert page.status == status
        assert page.mime == "text/html"
        assert page.time == TIME
        assert page.content_error == (("too_big", page.content_error[1]) if status == 200 else None)


def test_a_record_that_is_too_big_is_skipped(build, reasons):
    limits = ReadLimits(page_bytes_max=1000, header_bytes_max=2000)
    data = build.warc() + build.warc(build.http(bytes(5000))) + build.warc(b"x" * 1500, "conversion") + build.warc()
    assert reasons(data, limits=limits) == ["page", "too_big", "too_big", "page"]


def test_a_bomb_is_skipped_up_to_the_limit(build, reasons):
    limits = ReadLimits(page_bytes_max=1000, header_bytes_max=2000, skip_bytes_max=1_000_000)
    for pack in (build.gz, build.zst):
        bomb, good = build.warc(build.http(bytes(30_000_000))), build.warc()
        assert reasons(pack(good, bomb, good), limits=limits) == ["page", "too_big", "page"]
        assert reasons(pack(good, bytes(30_000_000), good), "a.warc", limits) == ["page", "too_big", "page"]
        assert reasons(pack(good, bytes(900_000), good), "a.warc", limits) == ["page", "page"]
        rubbish = b"x" * 30_000_000
        assert reasons(pack(good, rubbish, good), "a.warc", limits) == ["page", "garbage", "page"]


def many_fields(number: int) -> bytes:
    return b"".join(b"%x:\r\n" % n for n in range(number))


def test_headers_with_many_fields_take_bounded_memory(build, items):
    limits = ReadLimits.from_settings(load())
    records = [
        build.warc().replace(b"\r\n", b"\r\n" + many_fields(9_000), 1),
        build.warc(build.http().replace(b"\r\n", b"\r\n" + many_fields(9_000), 1)),
        build.warc(build.http().replace(b"\r\n", b"\r\n" + many_fields(1_000_000), 1)),
        build.warc().replace(b"\r\n", b"\r\n" + many_fields(1_000_000), 1),
        build.warc(),
    ]
    data = b"".join(records)
    tracemalloc.start()
    results = [item for _, item in items(data, "a.warc", limits)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 48 << 20  # three times the largest record
    assert [getattr(item, "reason", "") for item in results] == ["", "", "", "bad_header", ""]
    assert results[2].content_error == ("bad_header", "the HTTP header is longer than header_bytes_max 65536")


def test_the_limit_on_headers_is_a_setting(build, items):
    limits = ReadLimits.from_settings(load(overrides={"limits": {"header_bytes_max": 1024}}))
    data = build.warc().replace(b"\r\n", b"\r\n" + many_fields(300), 1)
    assert [item.reason for _, item in items(data, "a.warc", limits)] == ["bad_header"]

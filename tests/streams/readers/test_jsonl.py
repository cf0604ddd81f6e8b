"""JSONL lines become pages, with our field names and with Common Crawl's."""

from __future__ import annotations

import base64
import json
import tracemalloc

import pytest

from streams.page import Page, SuppliedLink
from streams.readers.dispatch import read
from streams.readers.read_limits import ReadLimits
from streams.sketch.content_kind import ContentKind, detect
from streams.sketch.extract import extract
from tests.samples import settings

TIME = 1_577_934_245_000


def line(**fields):
    return (
        json.dumps({"url": "http://a.org/x", "fetched_at": "2020-01-02T03:04:05Z", "text": "hi"} | fields).encode()
        + b"\n"
    )


def test_our_field_names_are_read(pages):
    text, html, body = pages(
        line(title="T")
        + line(text=None, html="<p>h\u00e9")
        + line(text=None, body=base64.b64encode(b"\xff<p>").decode())
    )
    assert text.text == "hi"
    assert text.body is None
    assert text.title == "T"
    assert text.time == TIME
    assert html.text is None
    assert html.body == "<p>h\u00e9".encode()
    assert html.mime == "text/html"
    assert html.charset == "utf-8"
    assert body.text is None
    assert body.body == b"\xff<p>"
    assert body.mime == ""
    assert [page.origin.offset for page in (text, html, body)] == [0, 1, 2]


def test_common_crawls_field_names_are_read(pages):
    page, moved = pages(
        line(
            fetch_time="2020-01-02 03:04:05.000",
            fetched_at=None,
            fetch_status=404,
            content_mime_type="Text/HTML",
            content_charset="UTF-8",
            crawl="CC-MAIN-2020-05",
            url_host_name="a.org",
            unknown={"deep": [1, None]},
        )
        + line(fetch_status=301, fetch_redirect="/y", text=None)
    )
    assert page.time == TIME
    assert page.status == 404
    assert page.mime == "text/html"
    assert page.charset == "utf-8"
    assert moved.status == 301
    assert moved.redirect == "http://a.org/y"
    assert moved.text is None


def test_a_media_type_may_have_parameters(pages):
    """Crawlers copy it from the header of the response."""
    body = base64.b64encode(b"<p>h\xe9").decode()
    declared = "Text/HTML; charset=ISO-8859-1"
    html, packed, explicit, neither = pages(
        line(text=None, html="<p>h\u00e9", mime=declared)
        + line(text=None, body=body, content_mime_type=declared)
        + line(text=None, body=body, mime=declared, charset="windows-1252")
        + line(text=None, html="<p>h", mime=" ; what")
    )
    assert {page.mime for page in (html, packed, explicit, neither)} == {"text/html"}
    assert [page.charset for page in (html, packed, explicit)] == ["utf-8", "iso-8859-1", "windows-1252"]
    for page in (html, packed, explicit):
        assert detect(page, settings().policy) is ContentKind.HTML
        assert extract(page, ContentKind.HTML, page_bytes_max=1000).text == "h\u00e9"


def test_a_redirect_without_a_status_has_status_302(pages):
    (page,) = pages(line(text=None, redirect="https://b.org/"))
    assert page.status == 302
    assert page.redirect == "https://b.org/"


@pytest.mark.parametrize(
    "fetched_at",
    [
        "2020-01-02T03:04:05Z",
        "2020-01-02T04:04:05+01:00",
        "2020-01-02 03:04:05",
        "20200102030405",
        20_200_102_030_405,
        "1577934245",
        1_577_934_245,
        1_577_934_245.0,
        1_577_934_245_000,
    ],
)
def test_a_time_may_have_many_forms(pages, fetched_at):
    assert [page.time for page in pages(line(fetched_at=fetched_at))] == [TIME]


def test_a_missing_time_is_0(pages):
    assert [page.time for page in pages(line(fetched_at=None))] == [0]


def test_compression_blank_lines_and_a_byte_order_mark_do_not_matter(build, pages):
    lines = [line(url=f"http://a.org/{i}") for i in range(5)]
    plain = b"".join(lines)
    variants = [
        plain,
        b"\xef\xbb\xbf" + plain,
        plain.rstrip(b"\n"),
        plain.replace(b"\n", b"\r\n"),
        plain.replace(b"\n", b"\n\n \n"),
        build.gz(plain),
        build.gz(*lines),
        build.zst(plain),
        build.zst(plain[:100], plain[100:]),
    ]
    for data in variants:
        assert [page.url for page in pages(data)] == [f"http://a.org/{i}" for i in range(5)]


REFUSED = [
    (b"{", "bad_json"),
    (b"5", "bad_json"),
    (b"[]", "bad_json"),
    (b"\x00\x00", "bad_json"),
    (b'{"url": "http://a.org/"} x', "bad_json"),
    (b'{"text": "\\ud800"}', "bad_json"),
    (b'{"a":' * 100_000, "bad_json"),
    (b"[" * 100_000, "bad_json"),
    (b'{"text": "\xff"}', "bad_utf8"),
    ('{"text": "h\u00e9"}'.encode("utf-16"), "bad_json"),
    (b"{}", "no_url"),
    (line(url="").strip(), "no_url"),
    (line(url="ftp://a.org/").strip(), "bad_url"),
    (line(url="http://a.org/" + "x" * 3000).strip(), "bad_url"),
    (line(url=5).strip(), "bad_field"),
    (line(url=None).strip(), "bad_field"),
    (line(text=["x"]).strip(), "bad_field"),
    (line(fetch_status="OK").strip(), "bad_field"),
    (line(fetch_status=7).strip(), "bad_field"),
    (line(fetched_at=True).strip(), "bad_field"),
    (line(fetched_at="yesterday").strip(), "bad_time"),
    (line(fetched_at=-1).strip(), "bad_time"),
    (line(fetched_at=20_201_302_030_405).strip(), "bad_time"),
    (line(fetched_at=1e300).strip(), "bad_time"),
    (line(fetched_at="9" * 400).strip(), "bad_time"),
    (line(text=None).strip(), "no_content"),
]


DAMAGED = base64.b64encode(bytes(range(100))).decode()[:-5]


@pytest.mark.parametrize(
    "fields", [{"body_base64": "*"}, {"body_base64": "\u00e9"}, {"body_base64": "AAA"}, {"body": DAMAGED}]
)
def test_the_url_of_a_body_in_damaged_base64_is_kept(pages, fields):
    (page,) = pages(line(text=None, **fields))
    assert page.url == "http://a.org/x"
    assert page.status == 200
    assert page.body is None
    assert page.content_error[0] == "bad_base64"


@pytest.mark.parametrize(("bad", "reason"), REFUSED, ids=[f"{reason}-{i}" for i, (_, reason) in enumerate(REFUSED)])
def test_a_bad_line_is_rejected_and_the_others_read(items, bad, reason):
    results = [item for _, item in items(line() + bad + b"\n" + line(), "a.jsonl")]
    if b"\n" in bad:  # UTF-16 has bytes that look like newlines
        assert isinstance(results[0], Page)
        assert isinstance(results[-1], Page)
        return
    first, refused, last = results
    assert isinstance(first, Page)
    assert isinstance(last, Page)
    assert refused.reason == reason
    assert refused.origin.offset == 1
    assert last.origin.offset == 2
    assert len(refused.detail) < 1000


def test_nuls_in_text_are_kept(pages):
    assert [page.text for page in pages(line(text="a\x00b"))] == ["a\x00b"]


def test_content_and_lines_that_are_too_big_are_refused(reasons):
    limits = ReadLimits(page_bytes_max=1000, line_bytes_max=3000)
    data = line() + line(text="x" * 1001) + line(html="x" * 1001, text=None) + line(text="x" * 4000) + line()
    assert reasons(data, limits=limits) == ["page", "too_big", "too_big", "too_big", "page"]
    assert reasons(line(text="\u00e9" * 400), limits=limits) == ["page"]
    assert reasons(line() + line(text="x" * 4000).strip(), limits=limits) == ["page", "too_big"]


def test_a_last_line_that_is_cut_off_is_truncated(build, reasons):
    assert reasons((line() + line())[:-9]) == ["page", "truncated"]
    assert reasons(build.gz(line() * 9)[:-9]) == ["page"] * 9 + ["truncated"]


def test_damage_affects_only_its_gzip_member(build, reasons):
    bad = bytearray(build.gz(line(text="x" * 500)))
    bad[40] ^= 0xFF
    assert reasons(build.gz(line()) + bytes(bad) + build.gz(line())) == ["page", "corrupt", "page"]


@pytest.mark.parametrize("pack", ["plain", "gz", "zst"])
def test_memory_is_bounded_by_the_longest_line(build, tmp_path, pack):
    limits = ReadLimits(line_bytes_max=1 << 20)
    data = line() + b'{"text": "' + b"x" * 100_000_000 + b'"}\n' + line()
    path = tmp_path / "a.jsonl"
    path.write_bytes(data if pack == "plain" else getattr(build, pack)(data))
    del data
    tracemalloc.start()
    results = [item for _, item in read([path], limits)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [getattr(item, "reason", "page") for item in results] == ["page", "too_big", "page"]
    assert peak < 8 << 20


def test_links_are_read_together_with_a_text(pages):
    links = [
        "/a",
        {"url": "/b", "text": "B", "rel": "external NOFOLLOW"},
        {"href": "/c", "anchor": "C", "rel": ["me"]},
        {},
    ]
    text, html, bare = pages(line(links=links) + line(text=None, html="<p>x", links={"any": 1}) + line(links=None))
    assert text.links == [
        SuppliedLink("/a"), SuppliedLink("/b", "B", nofollow=True), SuppliedLink("/c", "C"), SuppliedLink("")
    ]  # fmt: skip
    assert html.links is bare.links is None


@pytest.mark.parametrize("links", [{"a": 1}, "x", [1], [None], [{"url": 1}], [{"rel": [1]}], [["/a"]], 7])
def test_links_of_another_form_are_rejected(reasons, links):
    assert reasons(line(links=links) + line(), "a.jsonl") == ["bad_field", "page"]

"""Test pages as messages: their encoding, their limits and their faults."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.model import LinkKind
from streams.kafka.wire import packed_messages, page_messages
from streams.page import Origin, Page, Rejected, SuppliedLink
from streams.readers.crawler_formats import CRAWLER_FORMATS
from streams.readers.read_limits import ReadLimits

ORIGIN = Origin("t-pages", 7)


LIMITS = ReadLimits()


PACKED = [("content-type", b"application/msgpack")]


def encode(page: Page, crawl: str) -> tuple[bytes, packed_messages.Headers]:
    """The value and headers of a message with one page."""
    headers = [("schema", page_messages.PAGE_SCHEMA.encode()), *PACKED]
    return msgspec.msgpack.encode(page_messages.to_message(page, crawl)), headers


def test_a_page_survives_publishing() -> None:
    page = Page(
        url="http://a.example/",
        time=5,
        body=b"<p>\xff",
        mime="text/html",
        redirect=None,
        origin=Origin("f.warc", 9, "m"),
    )
    value, given = encode(page, "2026-11")
    assert page_messages.decode_page(value, given, ORIGIN, LIMITS) == (page, "2026-11")


def test_the_links_of_a_text_survive_publishing() -> None:
    links = [SuppliedLink("/a", "A", LinkKind.CANONICAL, nofollow=True), SuppliedLink("b")]
    page = Page(url="http://a.example/", time=5, text="a text", links=links, origin=Origin("f.jsonl", 9))
    value, given = encode(page, "")
    assert page_messages.decode_page(value, given, ORIGIN, LIMITS)[0] == page
    damaged = value.replace(b"\xa4kind\x01", b"\xa4kind\x09")
    assert damaged != value
    assert isinstance(page_messages.decode_page(damaged, given, ORIGIN, LIMITS)[0], Rejected)


def test_a_media_type_may_have_parameters() -> None:
    for charset_field, charset in (("", "iso-8859-1"), ("utf-8", "utf-8")):
        sent = Page(
            url="http://a.example/", time=5, body=b"<p>", mime="Text/HTML; charset=ISO-8859-1", charset=charset_field
        )
        page, _ = page_messages.decode_page(*encode(sent, ""), ORIGIN, LIMITS)
        assert isinstance(page, Page)
        assert (page.mime, page.charset) == ("text/html", charset)


def test_a_page_that_is_too_big_keeps_its_url() -> None:
    sent = Page(url="http://a.example/", time=5, body=b"x" * 1_001, mime="text/html", origin=Origin("f.warc", 9))
    page, _ = page_messages.decode_page(*encode(sent, ""), ORIGIN, ReadLimits(page_bytes_max=1_000))
    rejected = ("too_big", "1001 bytes, more than page_bytes_max 1000")
    assert page == msgspec.structs.replace(sent, body=None, content_error=rejected)
    assert page_messages.decode_page(*encode(page, ""), ORIGIN, LIMITS)[0] == page


def test_a_page_with_an_unknown_reason_is_rejected() -> None:
    sent = Page(url="http://a.example/", time=5, content_error=("because", "I say so"), origin=ORIGIN)
    page, _ = page_messages.decode_page(*encode(sent, ""), ORIGIN, LIMITS)
    assert (page.reason, page.detail) == ("bad_field", "'because' is not a reason for a dead letter")


def test_an_invalid_page_of_a_pack_is_rejected_alone_and_a_broken_pack_as_a_whole() -> None:
    good = page_messages.to_message(Page(url="http://a.example/", time=1, text="a"), "s")
    bad = msgspec.structs.replace(good, url="mailto:me")
    value, given = page_messages.encode_pack([bad, good])
    (rejected, _), (page, _) = page_messages.decode_pages(value, given, ORIGIN, LIMITS)
    assert (rejected.reason, page.url) == ("bad_url", good.url)
    ((broken, _),) = page_messages.decode_pages(value[:-1], given, ORIGIN, LIMITS)
    assert broken.reason == "bad_message"


def test_a_message_without_headers_has_one_page() -> None:
    assert (
        page_messages.decode_pages(b'{"url": "http://a.example/", "text": "a"}', [], ORIGIN, LIMITS)[0][0].text == "a"
    )


def test_the_default_format_applies_to_messages_without_our_headers() -> None:
    value = b'{"url": "http://a.example/b", "content": "PHA+eA=="}'
    page, _ = page_messages.decode_page(value, [("format", b"ache")], ORIGIN, LIMITS)
    assert isinstance(page, Page), page
    assert page.body == b"<p>x"
    assert page_messages.decode_page(value, [], ORIGIN, LIMITS, "ache")[0] == page


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5) | st.sampled_from(["http://a.example/", "PHA+eA=="]),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.sampled_from(["Content-Type", "x"]), values),
    max_leaves=4,
)  # fmt: skip


FIELDS = (
    "url", "response_url", "redirected_url", "timestamp", "fetch_time", "retrieved", "timestamp_crawl", "status_code",
    "body", "content", "html", "raw_content", "response_body", "text", "content_type", "response_headers",
    "responseHeaders", "encoding", "crawlid", "fetch_status", "warc_filename",
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@example("ache", {"content_type": ["text/html"]})
@example("ache", {"content_type": 5})
@given(st.sampled_from(["", *sorted(CRAWLER_FORMATS)]), st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES))
def test_fields_of_any_type_give_a_page_or_a_rejection(preset: str, fields: dict[str, object]) -> None:
    message = {"url": "http://a.example/", "body": "PHA+eA==", "content": "PHA+eA=="} | fields
    page, _ = page_messages.decode_page(json.dumps(message).encode(), [("format", preset.encode())], ORIGIN, LIMITS)
    assert isinstance(page, Page | Rejected)


@pytest.mark.parametrize("url", ["http://x[y@a.example/d/p", "http://us\uff0fer@a.example/d/p"])
def test_a_redirect_without_a_valid_target_is_rejected(url: str) -> None:
    sent = page_messages.PageMessage(url=url, time=5, status=302, redirect="http://a.example/z")
    rejected, _ = page_messages.decode_page(msgspec.msgpack.encode(sent), PACKED, ORIGIN, LIMITS)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "bad_url"
    page, _ = page_messages.decode_page(msgspec.msgpack.encode(msgspec.structs.replace(sent, url="http://a.example/d/p")), PACKED,
                           ORIGIN, LIMITS)  # fmt: skip
    assert isinstance(page, Page)
    assert page.redirect == "http://a.example/z"


def test_a_message_may_point_to_a_record(tmp_path: Path) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>x"
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/b\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
        b"Content-Type: application/http\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(block), block)
    )
    (tmp_path / "a.warc").write_bytes(record)
    limits = ReadLimits(warc_folder=str(tmp_path))
    fields = {"url": "http://a.example/b", "crawl": "c", "warc_filename": "a.warc", "warc_record_offset": 0}
    for encode, headers in ((msgspec.json.encode, []), (msgspec.msgpack.encode, PACKED)):
        value = encode(fields | {"warc_record_length": len(record), "time": 0})
        page, crawl = page_messages.decode_page(value, headers, ORIGIN, limits)
        assert isinstance(page, Page), page
        assert (page.body, page.mime, page.time, page.origin, crawl) == (
            b"<p>x", "text/html", 1_577_934_245_000, ORIGIN, "c",
        )  # fmt: skip
        for rejected in (page_messages.decode_page(value, headers, ORIGIN, LIMITS)[0],
                        page_messages.decode_page(encode(fields | {"time": 0}), headers, ORIGIN, limits)[0]):  # fmt: skip
            assert isinstance(rejected, Rejected)
            assert rejected.reason == "bad_pointer"


def test_a_rejected_page_has_the_origin_of_its_message() -> None:
    rejected, _ = page_messages.decode_page(b"{", [], ORIGIN, LIMITS)
    assert isinstance(rejected, Rejected)
    assert rejected.origin == ORIGIN

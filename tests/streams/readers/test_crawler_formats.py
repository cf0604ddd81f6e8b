"""Messages of other crawlers are converted to the fields of a JSONL line."""

from __future__ import annotations

import msgspec
import pytest

from streams.page import Origin, Page
from streams.readers.crawler_formats import CRAWLER_FORMATS, convert_ache
from streams.readers.page_line import parse_line
from streams.readers.read_limits import ReadLimits

ORIGIN = Origin("pages", 0)


def parse(fields: dict[str, object]) -> Page:
    page, _ = parse_line(msgspec.json.encode(fields), ReadLimits(), ORIGIN)
    assert isinstance(page, Page), page
    return page


@pytest.mark.parametrize(
    ("crawler_format", "message"),
    [
        # As the crawlers' own sources write them: scrapy-cluster's KafkaPipeline, ACHE's KafkaTargetRepository.
        (
            "scrapy-cluster",
            {"appid": "a", "attrs": None, "body": "<p>x", "crawlid": "c", "links": [], "request_headers": {},
             "response_headers": {"Content-Type": ["text/html; charset=utf-8"]}, "response_url": "http://a.example/b",
             "status_code": 200, "status_msg": "OK", "timestamp": "2026-11-01T10:20:30.123456",
             "url": "http://a.example/"},
        ),
        (
            "scrapy-cluster-base64",
            {"appid": "a", "body": "PHA+eA==", "crawlid": "c", "encoding": "utf-8", "links": [],
             "response_headers": {"Content-Type": ["text/html"]}, "response_url": "http://a.example/b",
             "status_code": 200, "timestamp": "2026-11-01T10:20:30", "url": "http://a.example/"},
        ),
        (
            "ache",
            {"url": "http://a.example/", "redirected_url": "http://a.example/b", "content": "PHA+eA==",
             "content_type": "text/html; charset=utf-8", "response_headers": {"Content-Type": ["text/html"]},
             "fetch_time": 1_700_000_000_000, "relevance": {"isRelevant": True, "relevance": 1.0},
             "crawler_id": "default"},
        ),
        (
            "ache",
            {"domain": "a.example", "url": "http://a.example/b", "title": "x", "text": "x", "html": "<p>x",
             "retrieved": "2017-07-01T12:00:00.000+0000", "words": ["x"], "wordsMeta": [],
             "topPrivateDomain": "a.example", "responseHeaders": {"content-type": ["text/html"]},
             "isRelevant": "relevant", "relevance": 1.0, "crawlerId": "default"},
        ),
        (
            "scrapy-cluster",
            {"url": "http://a.example/", "response_url": "http://a.example/b", "status_code": 200, "body": "<p>x",
             "timestamp": "2026-11-01T00:00:00Z", "crawlid": "c"},
        ),
        ("ache", {"url": "http://a.example/b", "timestamp_crawl": 1_700_000_000_000, "raw_content": "<p>x",
                  "content_type": "text/html; charset=utf-8"}),
    ],
)  # fmt: skip
def test_messages_of_other_crawlers_become_pages(crawler_format: str, message: dict[str, object]) -> None:
    page = parse(CRAWLER_FORMATS[crawler_format](message))
    assert page.url == "http://a.example/b"
    assert page.body == b"<p>x"
    assert page.mime == "text/html"
    assert page.time > 0


def test_the_charset_comes_from_the_content_type() -> None:
    message = {"url": "http://a.example/b", "content": "PHA+eA==", "content_type": "Text/HTML; charset=ISO-8859-1"}
    page = parse(convert_ache(message))
    assert page.mime == "text/html"
    assert page.charset == "iso-8859-1"


def test_the_url_after_redirects_wins() -> None:
    message = {"url": "http://a.example/", "redirected_url": "http://a.example/b", "html": "x"}
    assert convert_ache(message)["url"] == "http://a.example/b"


def test_a_header_that_is_neither_a_text_nor_a_list_is_ignored() -> None:
    message = {"url": "http://a.example/", "html": "x", "content_type": 5, "response_headers": "text/plain"}
    assert convert_ache(message)["content_mime_type"] == "text/html"


@pytest.mark.parametrize("crawler_format", CRAWLER_FORMATS)
def test_a_message_without_its_required_fields_raises_key_error(crawler_format: str) -> None:
    with pytest.raises(KeyError):
        CRAWLER_FORMATS[crawler_format]({"timestamp": 1})

"""Which responses are pages: by media type, URL and first bytes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.page import Page
from streams.sketch.content_kind import ContentKind, detect, detect_by_body
from tests.samples import settings

HTML, TEXT, BINARY, NOT_A_PAGE = ContentKind.HTML, ContentKind.TEXT, ContentKind.BINARY, ContentKind.NOT_A_PAGE
XHTML = b"<?xml version='1.0'?>\n<!-- a page -->\n<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN'>"


def kind(mime: str, body: bytes | None = b"some words", path: str = "page", **fields: Any) -> ContentKind | None:
    media_types = fields.pop("media_types", [])
    page = Page(url=f"https://a.org/{path}", time=0, body=body, mime=mime, **fields)
    return detect(page, settings({"policy": {"media_types": media_types}}).policy)


@pytest.mark.parametrize(
    ("mime", "body", "expected"),
    [
        ("text/html", b"var x", HTML),
        ("application/xhtml+xml", XHTML, HTML),
        ("text/plain", b"<p>x", TEXT),
        ("text/markdown", b"# x", TEXT),
        ("text/x-markdown", b"# x", TEXT),
        ("application/xml", XHTML, HTML),
        ("text/xml", b"<?xml version='1.0'?><rss version='2.0'>", NOT_A_PAGE),
        ("application/xml", b"<urlset>", NOT_A_PAGE),
        ("application/rss+xml", b"<rss>", NOT_A_PAGE),
        ("image/svg+xml", b"<svg>", NOT_A_PAGE),
        *((mime, b"x", NOT_A_PAGE) for mime in ("text/css", "text/javascript", "application/x-javascript")),
        *((mime, b"x", NOT_A_PAGE) for mime in ("application/json", "application/ld+json", "text/csv", "text/vtt")),
        *((mime, b"x", NOT_A_PAGE) for mime in ("image/png", "font/woff2", "application/pdf", "application/zip")),
    ],
)
def test_the_media_type_decides(mime: str, body: bytes, expected: ContentKind) -> None:
    assert kind(mime, body) is expected


@pytest.mark.parametrize("mime", ["text/css", "text/x-unknown", "application/json", "text/javascript"])
def test_html_with_the_type_of_another_text_is_a_page_unless_its_url_is_a_file(mime: str) -> None:
    assert kind(mime, b"\n<!DOCTYPE html><p>words") is HTML
    assert kind(mime, "<html lang=de>wörter".encode("utf-16")) is HTML
    assert kind(mime, b"<!-- hidden from old browsers\nvar x = '<html>'") is NOT_A_PAGE
    assert kind(mime, b"<!DOCTYPE html><p>not found", "style.css") is NOT_A_PAGE


@pytest.mark.parametrize(
    "path", ["a.js", "lib/jquery-3.5.1.JS", "a.css?v=3", "a.min.css#top", "a.map", "font.woff2", "a.js;x"]
)
def test_plain_text_and_unknown_content_of_a_file_is_not_a_page(path: str) -> None:
    for mime in ("text/plain", "", "application/octet-stream", "binary/octet-stream"):
        assert kind(mime, path=path) is NOT_A_PAGE
    assert kind("text/plain", None, path, text="words") is NOT_A_PAGE
    assert kind("text/html", path=path) is HTML
    assert kind("", None, path, text="words") is TEXT, "the crawler extracted it"
    assert kind("", b"<!doctype html><p>Node.js", path) is HTML


@pytest.mark.parametrize(
    "path", ["", "a.js/", "a.js/page", "?file=a.js", "#a.js", "ajs", "a.txt", "a.md", "a.jsp", "v1.2"]
)
def test_other_urls_are_pages(path: str) -> None:
    assert kind("text/plain", path=path) is TEXT
    assert kind("", path=path) is TEXT


def test_a_host_is_not_a_file() -> None:
    policy = settings().policy
    assert detect(Page(url="https://lib.js", time=0, body=b"words", mime="text/plain"), policy) is TEXT


def test_content_of_unknown_type_is_examined() -> None:
    for mime in ("", "application/octet-stream", "unknown/unknown"):
        assert kind(mime, b"<p>x") is HTML
        assert kind(mime, b"words") is TEXT
        for body in (b"%PDF-1.7", b"\x89PNG\r\n", b"PK\x03\x04", b"\0\1\0\0font", b"words\0words"):
            assert kind(mime, body) is NOT_A_PAGE
    assert kind("", "words".encode("utf-16")) is TEXT
    assert kind("", None) is TEXT, "without content, it may be a page"


def test_binary_content_of_a_page_is_reported() -> None:
    for mime in ("text/html", "text/plain", "text/markdown"):
        assert kind(mime, b"%PDF-1.7") is BINARY
        assert kind(mime, b"\x1f\x8b\x08") is BINARY
    assert kind("text/plain", b"%PDF-1.7", "manual.pdf") is NOT_A_PAGE


def test_a_text_of_the_crawler_is_a_page_unless_its_type_is_that_of_another_text() -> None:
    for mime in ("", "text/html", "text/plain", "application/pdf", "application/msword"):
        assert kind(mime, None, text="words") is TEXT
    for mime in ("text/css", "application/json", "application/javascript", "application/rss+xml"):
        assert kind(mime, None, text="words") is NOT_A_PAGE


def test_added_media_types() -> None:
    added = ["text/css", "text/plain", "application/json", "application/docbook+xml", "application/octet-stream"]
    for mime in added:
        assert kind(mime, path="a.css", media_types=added) in {HTML, TEXT}
    assert kind("text/css", b"<p>x", media_types=added) is HTML
    assert kind("application/docbook+xml", b"<article>", media_types=added) is HTML
    assert kind("text/css", b"\x1f\x8b\x08", media_types=added) is BINARY
    assert kind("application/json", None, text="words", media_types=added) is TEXT
    assert kind("text/javascript", media_types=added) is NOT_A_PAGE


@given(st.binary(max_size=300), st.sampled_from(["", "utf-8", "utf-16", "x", "\0"]))
def test_no_body_raises(body: bytes, charset: str) -> None:
    assert isinstance(detect_by_body(body, charset), ContentKind)
    for mime in ("text/xml", "text/css", "", "text/plain"):
        assert isinstance(kind(mime, body, charset=charset), ContentKind)


@pytest.mark.parametrize("body", [b"<!--" * 3_000_000, b"<?" * 6_000_000, b" " * 12_000_000, b"<!---->" * 1_000_000])
def test_a_hostile_body_or_url_takes_little_time(body: bytes) -> None:
    started = time.process_time()
    kind("text/xml", body)
    kind("text/plain", body, "." * 2_000)
    kind("text/plain", body, "//" * 1_000)
    assert time.process_time() - started < 0.5

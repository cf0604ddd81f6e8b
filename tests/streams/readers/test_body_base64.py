"""A body is base64 or text: the rule decides every real-looking body correctly."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from streams.readers.body_base64 import decode_if_base64

PAGE = "<!DOCTYPE html>\n<html><head><title>A</title></head><body><p>one two three</p></body></html>"
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000 1f15c489".replace(" ", "")) * 3
WORDS = sorted(
    set(re.findall(r"[A-Za-z]+", "".join(path.read_text() for path in Path(__file__).parents[3].glob("docs/*.md"))))
)

TEXTS = [
    "test", "Test", "TEST", "page", "city", "data", "word", "PAGE", "PLAY", "PEER", "PEST", "chat", "JavaScript",
    "GitHubUser12", "abcd efgh", "abcd\nefgh", "one two three", "404", "2026", "20261130", "OK==", "a/b+", "====",
    "https://a.example/", "d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    PAGE, "<p>x", "<p>", "\u00e9t\u00e9", "\u4f60\u597d", "User-agent: *\nDisallow: /", '{"a": 1}', "a.b.c", "*", "A" * 400,
    "x" * 64, "0" * 64, "Lorem ipsum dolor sit amet " * 20, "\n".join(["word"] * 40), "\n".join("a" * 64 for _ in range(4)),
]  # fmt: skip

BYTES = [
    PAGE.encode(), PAGE.encode("utf-16"), PAGE.encode("utf-16-le"), b"\xef\xbb\xbf" + PAGE.encode(), b"<p>", b"\xff<p>",
    b"<p>h\xe9", b"<p>hi", b"\n <html>\n", b"<?xml version='1.0'?><a/>", b"hello", b"hello world", "\u00e9t\u00e9 \u00e0 Paris".encode(),
    "\u4f60\u597d \u4e16\u754c".encode(), "\u4f60\u597d\uff0c\u4e16\u754c".encode("gbk") * 10, PNG, b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n" * 5,
    bytes(range(256)), b"Some plain text of a page, with numbers 1 2 3.\n" * 5,
]  # fmt: skip


@pytest.mark.parametrize("body", TEXTS, ids=range(len(TEXTS)))
def test_text_is_text(body):
    assert decode_if_base64(body) is None


def test_no_word_of_a_real_text_is_base64():
    """About one word in four has the right length to be base64."""
    assert len(WORDS) > 1000
    assert sum(len(word) % 4 == 0 for word in WORDS) > 200
    variants = [variant for word in WORDS for variant in (word, word.lower(), word.upper(), word.capitalize())]
    assert [word for word in variants if decode_if_base64(word) is not None] == []


@pytest.mark.parametrize("data", BYTES, ids=range(len(BYTES)))
def test_base64_is_decoded(data):
    assert decode_if_base64(base64.b64encode(data).decode()) == data
    assert decode_if_base64(base64.b64encode(data).decode() + "\n") == data
    assert decode_if_base64(base64.encodebytes(data).decode().replace("\n", "\r\n")) == data


def test_encoded_pages_of_any_length_are_decoded():
    for length in range(20, len(PAGE)):
        data = PAGE[:length].encode()
        assert decode_if_base64(base64.b64encode(data).decode()) == data


def test_damaged_base64_is_reported():
    encoded = base64.b64encode(PAGE.encode()).decode()
    with pytest.raises(ValueError, match=r"(?i)padding|base64"):
        decode_if_base64(encoded[:-3])
    assert decode_if_base64("AAA") is None


def test_scrapys_items_are_pages(pages):
    """`{"url", "body": response.text}` is what most spiders yield."""
    items = [{"url": f"http://a.org/{n}", "body": f"{PAGE}{n}"} for n in range(20)]
    read = pages("".join(json.dumps(item) + "\n" for item in items).encode(), "a.jl")
    assert [page.body.decode() for page in read] == [item["body"] for item in items]
    assert {page.charset for page in read} == {"utf-8"}
    assert not any(page.content_error for page in read)


def test_html_wins_over_a_body_that_is_not_base64(pages):
    encoded = base64.b64encode(b"<p>served").decode()
    lines = [
        {"body": "<p>body", "html": "<p>html"},
        {"body": encoded, "html": "<p>html"},
        {"body": encoded, "body_base64": base64.b64encode(b"<p>explicit").decode()},
        {"body": "", "html": "<p>html"},
        {"body": "test", "text": "extracted"},
        {"html": "", "text": "extracted"},
        {"body": base64.b64encode(PNG).decode()[:-2], "html": "<p>html"},
    ]
    read = pages("".join(json.dumps({"url": "http://a.org/"} | line) + "\n" for line in lines).encode(), "a.jl")
    expected = [b"<p>html", b"<p>served", b"<p>explicit", b"<p>html", b"test", None, b"<p>html"]
    assert [page.body for page in read] == expected
    assert read[5].text == "extracted"

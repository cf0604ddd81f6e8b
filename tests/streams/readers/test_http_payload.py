"""HTTP responses are parsed, and their bodies decoded within limits."""

from __future__ import annotations

import base64
import gzip
import zlib

import pytest
import zstandard

from streams.page import Origin
from streams.readers.http_payload import (
    decode_body,
    decode_header_value,
    page_from_response,
    page_without_http,
    parse_content_type,
    parse_response,
    resolve_redirect,
)
from streams.readers.read_limits import ContentError, ReadLimits
from streams.urls import url_key

LIMITS = ReadLimits()
URL = "http://a.org/d/x"
# Written by Google's brotli, which nothing else needs: the test page 50 times, and 5,000,000 zeros.
BROTLI = base64.b64decode("G70KEIzTZTR1tGxuY/uI4BtBo/IIFcgLbMCBS4KJTtviMmzAgQSSrsN6oLNDUQi3ylfyVh+TBwkAJA==")
BROTLI_BOMB = base64.b64decode("mz9LTPgnAOKxQCBfiAk=")


def respond(build, body=b"", status="200 OK", **headers):
    data = build.http(body, status, **headers)
    response = parse_response(data, len(data), LIMITS)
    assert response is not None
    return response


def decode(build, body, limits=LIMITS, **headers):
    return decode_body(respond(build, body, **headers), limits)


def test_a_block_without_a_status_line_is_not_a_response():
    assert parse_response(b"<p>HTTP/1.1 200", 15, LIMITS) is None
    assert parse_response(b"HTTP/1.1 2000 OK", 16, LIMITS) is None


@pytest.mark.parametrize(
    ("status_line", "status"),
    [("HTTP/1.1 200", 200), ("HTTP/1.1 404 ", 404), ("HTTP/2 301", 301), ("http/1.1 503 Busy", 503), ("HTTP/1.1", 200),
     ("HTTP/1.0 ", 200), ("HTTP/1.1 OK", 200)],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_a_status_line_may_lack_its_reason_or_its_status(status_line, status, newline):
    data = newline.join([status_line, "Content-Type: text/html", "", "<p>HTTP/1.1 500 x"]).encode()
    response = parse_response(data, len(data), LIMITS)
    assert response is not None
    assert (response.status, response.body) == (status, b"<p>HTTP/1.1 500 x")
    assert response.fields == {"content-type": "text/html"}


def test_header_fields_have_lower_case_names_and_the_first_value_counts():
    data = b"HTTP/1.0 301 Moved\nLOCATION:  /a \nLocation: /b\nX-Other: c\n\nbody"
    response = parse_response(data, 999, LIMITS)
    assert response is not None
    assert response.status == 301
    assert response.fields == {"location": "/a"}
    assert response.body == b"body"
    assert response.full_size == 999


def test_a_header_without_an_end_has_no_body():
    response = parse_response(b"HTTP/1.1 200 OK\r\nContent-Type: text/html", 41, LIMITS)
    assert response is not None
    assert response.fields == {"content-type": "text/html"}
    assert response.body == b""


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Type: x/y\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 2,
    ],
)
def test_interim_responses_are_skipped(build, interim):
    data = interim + build.http()
    response = parse_response(data, len(data), LIMITS)
    assert response is not None
    assert response.status == 200
    assert response.fields["content-type"] == "text/html; charset=UTF-8"
    assert response.body == build.html
    alone = parse_response(interim, len(interim), LIMITS)
    assert alone is not None
    assert alone.status in {100, 103}


def test_header_values_are_utf8_or_latin1():
    assert decode_header_value("h\u00e9".encode()) == "h\u00e9"
    assert decode_header_value(b"h\xe9") == "h\u00e9"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('Text/HTML; charset="UTF-8"', ("text/html", "utf-8")),
        ("text/html;charset = latin1", ("text/html", "latin1")),
        (" ; charset=x", ("", "x")),
        ("nonsense", ("", "")),
        ("", ("", "")),
        ("a/" + "b" * 300, ("a/" + "b" * 254, "")),
    ],
)
def test_a_content_type_is_split_into_media_type_and_charset(value, expected):
    assert parse_content_type(value) == expected


def test_redirects_are_resolved_to_http_urls():
    assert resolve_redirect(URL, "../y", LIMITS) == "http://a.org/y"
    assert resolve_redirect(URL, " https://b.org/ ", LIMITS) == "https://b.org/"
    assert resolve_redirect(URL, "mailto:x@y.org", LIMITS) is None
    assert resolve_redirect(URL, "http://[", LIMITS) is None


def page_of(response):
    return page_from_response(response, URL, url_key(URL), 1, LIMITS, Origin("a", 0))


def test_only_3xx_responses_redirect(build):
    assert page_of(respond(build, status="302 Found", Location="y")).redirect == "http://a.org/d/y"
    assert page_of(respond(build, Location="y")).redirect is None
    assert page_of(respond(build, status="302 Found")).redirect is None


def test_only_2xx_bodies_are_kept(build):
    for status, body in (("200 OK", b"x"), ("206 Partial", b"x"), ("404 Not Found", None), ("301 Moved", None)):
        assert page_of(respond(build, b"x", status)).body == body, status


def test_a_record_without_http_headers_has_its_own_type():
    page = page_without_http(URL, url_key(URL), 1, b"<p>", 3, "text/html; charset=x", LIMITS, Origin("a", 0))
    assert page.body == b"<p>"
    assert page.mime == "text/html"
    assert page.charset == "x"
    claimed = page_without_http(URL, url_key(URL), 1, b"<p>", 3, "application/http", LIMITS, Origin("a", 0))
    assert claimed.mime == ""


CODINGS = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", lambda body: zlib.compress(body, wbits=-15)),
    ("br", lambda _: BROTLI),
    ("zstd", zstandard.compress),
    ("identity", bytes),
    ("deflate, gzip", lambda body: gzip.compress(zlib.compress(body))),
]


@pytest.mark.parametrize(("coding", "compress"), CODINGS)
def test_content_encodings_are_decoded(build, coding, compress):
    body = build.html * 50
    assert decode(build, compress(body), Content_Encoding=coding) == body


def test_all_members_of_a_gzip_body_are_decoded(build):
    compressed = gzip.compress(build.html[:20]) + gzip.compress(build.html[20:])
    for trailer in (b"", b"rubbish", gzip.compress(b"")[:8]):
        assert decode(build, compressed + trailer, Content_Encoding="gzip") == build.html


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_is_already_decoded_is_returned_as_it_is(build, coding):
    assert decode(build, build.html, Content_Encoding=coding) == build.html


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", lambda _: BROTLI_BOMB),
        ("zstd", zstandard.compress),
    ],
)
def test_a_decompression_bomb_is_refused(build, coding, compress):
    with pytest.raises(ContentError) as caught:
        decode(build, compress(bytes(5_000_000)), ReadLimits(page_bytes_max=100_000), Content_Encoding=coding)
    assert caught.value.reason == "too_big"


def test_a_body_of_exactly_the_limit_is_kept(build):
    body, limits = bytes(1000), ReadLimits(page_bytes_max=1000)
    assert decode(build, gzip.compress(body), limits, Content_Encoding="gzip") == body
    assert decode(build, body, limits) == body
    with pytest.raises(ContentError):
        decode(build, body + b"x", limits)


def test_an_incomplete_body_is_too_big():
    response = parse_response(b"HTTP/1.1 200 OK\r\n\r\nx", 10**9, LIMITS)
    assert response is not None
    with pytest.raises(ContentError) as caught:
        decode_body(response, LIMITS)
    assert caught.value.reason == "too_big"


@pytest.mark.parametrize("coding", ["gzip", "sdch", "gzip,gzip,gzip,gzip"])
def test_a_body_that_cannot_be_decoded_is_refused(build, coding):
    with pytest.raises(ContentError) as caught:
        decode(build, b"\x1f\x8b\x08" + b"\xff" * 50, Content_Encoding=coding)
    assert caught.value.reason == "bad_encoding"


def test_a_body_that_is_cut_off_is_decoded_as_far_as_it_goes(build):
    body = build.html * 500
    decoded = decode(build, gzip.compress(body)[:-20], Content_Encoding="gzip")
    assert body.startswith(decoded)
    assert len(decoded) > 100


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"3\nabc\n0\n\n", b"abc"),
        (b"3\r\nabc\r\nff\r\nrest", b"abcrest"),
        (b"3\r\nabc\r\nnot a size", b"abcnot a size"),
        (b"<p>never chunked", b"<p>never chunked"),
        (b"abc\nnever chunked, though it begins like one", b"abc\nnever chunked, though it begins like one"),
        (b"0\r\n\r\n", b""),
        (b"ffffffff\r\nabc", b"abc"),
        (b"", b""),
    ],
)
def test_chunks_are_joined(build, body, expected):
    assert decode(build, body, Transfer_Encoding="chunked") == expected


def test_chunks_are_joined_before_the_content_encoding_is_decoded(build):
    compressed = gzip.compress(build.html)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(compressed), compressed)
    assert decode(build, body, Transfer_Encoding="chunked", Content_Encoding="gzip") == build.html

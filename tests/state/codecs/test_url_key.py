"""A URL key decodes to its URL."""

from __future__ import annotations

import pytest

from state.codecs.url_key import decode_host, encode_host, host_prefix, url_of

HOSTS = [
    ("www.example.org", "", b"org,example,www)"),
    ("www.example.org", "8080", b"org,example,www:8080)"),
    ("localhost", "", b"localhost)"),
    ("192.0.2.7", "81", b"192.0.2.7:81)"),
    ("[2001:db8::1]", "", b"[2001:db8::1])"),
    ("[2001:db8::1]", "81", b"[2001:db8::1]:81)"),
]


@pytest.mark.parametrize(("host", "port", "prefix"), HOSTS)
def test_a_host_prefix_encodes_a_host_and_port(host: str, port: str, prefix: bytes) -> None:
    assert encode_host(host, port) == prefix
    assert host_prefix(prefix + b"/path)") == prefix


@pytest.mark.parametrize(("host", "port", "prefix"), HOSTS)
def test_a_host_prefix_decodes_to_its_host_and_port(host: str, port: str, prefix: bytes) -> None:
    assert decode_host(prefix) == (host, port)


def test_a_key_decodes_to_its_url() -> None:
    assert url_of(b"org,example,www:8080)/path?query", https=True) == "https://www.example.org:8080/path?query"
    assert url_of(b"org,example)/", https=False) == "http://example.org/"


def test_a_key_without_a_host_has_no_host_prefix() -> None:
    assert host_prefix(b"org,example") == b""


def test_a_host_that_makes_keys_ambiguous_is_not_encoded() -> None:
    with pytest.raises(AssertionError, match="ambiguous"):
        encode_host("a,b")

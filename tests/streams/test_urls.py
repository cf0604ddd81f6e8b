from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import BadUrl, LostfoundError
from streams.urls import (
    directory_prefix,
    domain_key,
    domain_ranges,
    host_prefix,
    key_host,
    key_url,
    key_words,
    path_words,
    registered_domain,
    url_key,
)

KEYS = [
    ("http://flink.apache.org/2019/05/03/x.html?q=1", b"org,apache,flink)/2019/05/03/x.html?q=1"),
    ("HTTPS://User:Pw@Flink.Apache.ORG:443/a/./b/../c#top", b"org,apache,flink)/a/c"),
    ("http://flink.apache.org", b"org,apache,flink)/"),
    ("http://flink.apache.org.:80/", b"org,apache,flink)/"),
    ("http://flink.apache.org:8080/x", b"org,apache,flink:8080)/x"),
    ("http://B\u00fccher.example/\u00fc?\u00fc", b"example,xn--bcher-kva)/%C3%BC?%C3%BC"),
    ("http://192.0.2.7:81/a", b"192.0.2.7:81)/a"),
    ("http://0x7f.1/", b"127.0.0.1)/"),
    ("http://[2001:DB8::1]/a", b"[2001:db8::1])/a"),
    ("http://[2001:DB8::1]:81/a", b"[2001:db8::1]:81)/a"),
    ("http://localhost/a b\x00c", b"localhost)/a%20b%00c"),
    ("http://a_b.org/?", b"org,a_b)/"),
    ("http://a.org/x)y,z", b"org,a)/x)y,z"),
]


@pytest.mark.parametrize(("url", "key"), KEYS)
def test_key(url: str, key: bytes) -> None:
    assert url_key(url) == key
    assert url_key(key_url(key)) == key
    assert url_key(key_url(key, "http")) == key


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "//x.org/",
        "/a/b",
        "mailto:a@b.org",
        "ftp://a.org/",
        "data:text/html,hi",
        "http://",
        "http://a b.org/",
        "http://a,b.org/",
        "http://a)b.org/",
        "http://../",
        "http://a..b/",
        "http://a.org:99999/",
        "http://a.org/\ud800",
        "\ud800" * 9,
        "http://a.org/" + "x" * 60_000,
        "http://a.org/" + "\u00fc" * 30_000,
        "http://a.org/" + "\u00fc" * 12_000,  # fits, but not once it is percent-encoded
    ],
)
def test_refused(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        url_key(url)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LostfoundError)
    assert caught.value.hint
    assert len(str(caught.value)) < 2000


def test_limit_is_the_callers() -> None:
    assert len(url_key("http://a.org/" + "x" * 3000, 4096)) == 3007


def test_prefixes() -> None:
    key = url_key("https://ci.flink.apache.org:8080/2019/05/x.html?to=/a/b")
    assert host_prefix(key) == b"org,apache,flink,ci:8080)"
    assert directory_prefix(key) == b"org,apache,flink,ci:8080)/2019/05/"
    assert domain_key(key) == b"org,apache"
    assert key_host(key) == "ci.flink.apache.org"
    assert key_host(key, with_port=True) == "ci.flink.apache.org:8080"
    assert key_url(key) == "https://ci.flink.apache.org:8080/2019/05/x.html?to=/a/b"
    assert key_host(url_key("http://[::1]:81/"), with_port=True) == "[::1]:81"
    assert key_host(url_key("http://[::1]/"), with_port=True) == "[::1]"
    assert directory_prefix(url_key("http://a.org")) == b"org,a)/"


def test_not_a_key() -> None:
    for junk in (b"", b"org,a", b")/"):
        with pytest.raises(BadUrl):
            host_prefix(junk)


def test_what_is_below_a_public_suffix_is_not_its_own() -> None:
    key = url_key("http://police.uk/a")
    other = url_key("http://www.met.police.uk/a")
    for one, in_ranges in ((key, True), (url_key("http://police.uk:81/"), True), (other, False)):
        assert any(start <= one < stop for start, stop in domain_ranges(key)) == in_ranges


def test_domain_ranges_hold_the_domain_and_nothing_else() -> None:
    ranges = domain_ranges(url_key("http://www.apache.org/"))

    def in_ranges(url: str) -> bool:
        key = url_key(url)
        return any(start <= key < stop for start, stop in ranges)

    assert all(
        map(
            in_ranges,
            ["http://apache.org/", "https://a.b.apache.org/", "http://apache.org:81/~", "http://x.apache.org:9/"],
        )
    )
    assert not any(
        map(
            in_ranges,
            ["http://apachecon.org/", "http://apache-x.org/", "http://apache2.org/", "http://org/", "http://a.org/"],
        )
    )


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("docs.a.co.uk", "a.co.uk"),
        ("a.co.uk", "a.co.uk"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("192.0.2.7", "192.0.2.7"),
        ("[::1]", "[::1]"),
        ("a.b.nosuchsuffix", "b.nosuchsuffix"),
    ],
)
def test_registered_domain(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", []),
        ("/index.html", []),
        ("/docs/Default.aspx", ["docs"]),
        ("/index/x.php", ["index", "x"]),
        ("/2019/05/03/release-1.8.0.html", ["2019", "05", "03", "release", "1", "8", "0"]),
        ("/api/ModelAdmin.html", ["api", "model", "admin"]),
        ("/api/HTMLParser_v2", ["api", "html", "parser", "v2"]),
        ("/python3/utf8/3d", ["python3", "utf8", "3d"]),
        ("/p/a3f9c2b7", ["p", "a3f9c2b7"]),
        ("/index.php?title=Main_Page&id=5", ["main", "page", "5"]),
        ("/stra%C3%9Fe/%FF", ["stra\u00dfe"]),
        ("/\u4e2d\u6587/\u00c9t\u00e9", ["\u4e2d\u6587", "\u00e9t\u00e9"]),
    ],
)
def test_path_words(path: str, words: list[str]) -> None:
    assert path_words("http://a.org" + path) == words
    assert key_words(url_key("http://a.org" + path)) == words


labels = st.from_regex(r"[a-z0-9]([a-z0-9_]{0,8})", fullmatch=True)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join)


@given(hosts, st.integers(0, 65535), st.text(max_size=40), st.sampled_from(["http", "https"]))
def test_round_trip(host: str, port: int, path: str, scheme: str) -> None:
    try:
        key = url_key(f"{scheme}://{host}:{port}/{path}")
    except BadUrl:
        return
    assert min(key) > 0x20
    assert max(key) < 0x7F
    assert url_key(key_url(key, scheme)) == key
    assert key.startswith(directory_prefix(key))
    assert directory_prefix(key).startswith(host_prefix(key))
    assert any(start <= key < stop for start, stop in domain_ranges(key))


@given(st.text(max_size=60))
def test_anything_is_a_key_or_refused(text: str) -> None:
    for url in (text, "http://" + text, "http://a.org/" + text):
        try:
            key = url_key(url)
            assert key_words(key) == path_words(url)
        except BadUrl:
            continue
        assert url_key(key_url(key)) in {key, key.replace(b":443)", b")")}

"""Hashes of the export: spellings of a URL agree, and the compiled functions agree with plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.export import column_hashes, hashes
from streams.urls import url_key


@pytest.mark.parametrize(
    ("url", "other_url", "same_page"),
    [
        ("http://a.example/x/", "https://a.example/x/index.html", True),
        ("http://a.example/", "http://a.example/INDEX.PHP", True),
        ("http://a.example/?id=1", "http://a.example/default.aspx?id=1", True),
        ("http://a.example/~u/", "http://a.example/%7eu/index.htm", True),
        ("http://a.example/%c3%a9", "http://a.example/é", True),
        ("http://a.example/x%2fy", "http://a.example/x%2Fy", True),
        ("http://a.example/x%2Fy", "http://a.example/x/y", False),
        ("http://a.example/x%3Fy", "http://a.example/x?y", False),
        ("http://a.example/%2541", "http://a.example/%41", False),
        ("http://a.example/x/", "http://a.example/x/myindex.html", False),
        ("http://a.example/", "http://a.example/default.css", False),
        ("http://a.example/?p=", "http://a.example/?p=/index.html", False),
        ("http://a.example/x/", "http://a.example/x", False),
    ],
)
def test_spellings_of_a_url_are_one_page(url: str, other_url: str, *, same_page: bool) -> None:
    assert (hashes.page_hash(url_key(url)) == hashes.page_hash(url_key(other_url))) is same_page


def test_mirrored_pages_share_their_path_but_not_their_host() -> None:
    key, mirrored = url_key("http://a.example/x/%7e?q"), url_key("http://b.example:8080/x/~?q")
    assert hashes.path_hash(key) == hashes.path_hash(mirrored)
    assert hashes.host_hash(key) != hashes.host_hash(mirrored)
    assert hashes.page_hash(key) != hashes.page_hash(mirrored)


fragments = st.sampled_from(
    [b"/", b"?", b"%2F", b"%2f", b"%41", b"%7E", b"%", b"%4", b"%zz", b"index.html", b"DEFAULT.aspx", b".", b"index.",
     b"com,example)", b"a", b"\xc3\xa9", b"%00", b"#", b"index.html.html", b"%69ndex.php"]
)  # fmt: skip
keys = st.binary(max_size=40) | st.lists(fragments, max_size=8).map(b"".join)


@given(key=keys, offset=st.integers(0, 3))
def test_compiled_hashes_agree_with_plain_python(key: bytes, offset: int) -> None:
    data = np.frombuffer(b"\xff" * offset + key + b"%41/?", np.uint8)
    scratch = np.zeros(len(key) + 1, dtype=np.uint8)
    end = offset + len(key)
    length = column_hashes.normalise(data, offset, end, scratch)
    assert scratch[:length].tobytes() == hashes.page_key(key)
    assert column_hashes.hash_bytes(data, offset, end) == hashes.url_hash(key)
    expected = hashes.page_hash(key), hashes.path_hash(key), hashes.host_hash(key)
    assert column_hashes.hash_key(data, offset, end, scratch) == expected

"""The similarity of paths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.find.path_similarity import path_features, path_similarity_to
from streams.urls import url_key


def likeness(a: str, b: str) -> float:
    return path_similarity_to(path_features(url_key(a)))(path_features(url_key(b)))


def test_likeness_sees_moved_and_joined_words() -> None:
    old = "https://a.example/components/parentservices.html"
    assert likeness(old, old) == 1.0
    near = likeness(old, "https://a.example/service_container/parent_services.html")
    assert near > likeness(old, "https://a.example/security/voters.html")
    assert likeness("https://a.example/topics/auth.html", "https://b.example/topics/auth/index.html") == 1.0


@given(st.text(max_size=40), st.text(max_size=40))
def test_likeness_is_a_share_and_symmetric(a: str, b: str) -> None:
    one, other = f"https://a.example/{a}", f"https://a.example/{b}"
    assert 0.0 <= likeness(one, other) <= 1.0
    assert likeness(one, other) == likeness(other, one)

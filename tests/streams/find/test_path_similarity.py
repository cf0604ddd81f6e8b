"""The similarity of paths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.find.path_similarity import path_features, path_similarity_to
from streams.urls import url_key


def similarity(a: str, b: str) -> float:
    return path_similarity_to(path_features(url_key(a)))(path_features(url_key(b)))


def test_moved_and_joined_words_are_similar() -> None:
    old = "https://a.example/components/parentservices.html"
    assert similarity(old, old) == 1.0
    near = similarity(old, "https://a.example/service_container/parent_services.html")
    assert near > similarity(old, "https://a.example/security/voters.html")
    assert similarity("https://a.example/topics/auth.html", "https://b.example/topics/auth/index.html") == 1.0


@given(st.text(max_size=40), st.text(max_size=40))
def test_path_similarity_is_a_share_and_symmetric(a: str, b: str) -> None:
    one, other = f"https://a.example/{a}", f"https://a.example/{b}"
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, other) == similarity(other, one)

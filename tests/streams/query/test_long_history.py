"""Test queries about a URL with many captures: its history is read a fixed number of times, and not into memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.codecs import capture_row
from state.model import Capture
from state.store import Store
from state.view import View
from streams import query
from streams.urls import url_key
from tests.samples import NOW, page, settings, take, variant, words

URL, CAPTURES = "https://a.org/x", 60


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    """Versions of a page at one URL, every third of them also at another URL."""
    rng = random.Random(2)
    base = words(rng, 120)
    lines = []
    for n in range(CAPTURES):
        text = " ".join(variant(rng, base, 2))
        lines.append(page(URL, text, NOW + 1_000 * n))
        if n % 3 == 0:
            lines.append(page(f"https://b.org/{n}", text, NOW + 1_000 * n + 1))
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "a.jsonl", lines, "one", settings())
        yield View(store)


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    decode, decoded = capture_row.decode, []

    def counted(row: bytes, value: bytes) -> Capture:
        decoded.append(row)
        return decode(row, value)

    monkeypatch.setattr(capture_row, "decode", counted)
    return decoded


def test_the_members_of_a_cluster_read_each_history_once(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    document = query.resolve(view, URL)
    cluster = query.cluster(view, document, 500)
    assert cluster.document_count > CAPTURES // 2
    decoded = count_decoded(monkeypatch)
    members = query.members(view, cluster, document, 500)
    assert len(decoded) == len(set(decoded))
    urls = {member.document: member.urls for member in members}
    for capture in view.captures(url_key(URL)):
        assert capture.document
        if capture.document.hex() in urls:
            member = next(member for member in members if member.document == capture.document.hex())
            assert URL in member.urls
            assert member.first_seen == capture.time
            assert member.last_seen - capture.time == len(member.urls) - 1  # the other URL is 1 ms later
    assert {len(member.urls) for member in members} == {1, 2}


def test_a_url_is_known_after_one_capture(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = count_decoded(monkeypatch)
    assert view.has_captures(url_key(URL))
    assert not view.has_captures(url_key("https://a.org/y"))
    assert len(decoded) == 1

"""Links to and from URLs, read from the stored chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from state.store import Store
from state.view import View
from streams.query import links_to, stored_links
from streams.urls import url_key
from tests.samples import NOW, html, take

TARGET = "https://a.example.org/target.html"
SOURCES = [f"https://a.example.org/source{number}.html" for number in range(9)]


@pytest.mark.parametrize("chunks_per_lookup", [2, 9])
def test_links_in_more_chunks_than_one_lookup_are_all_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks_per_lookup: int
) -> None:
    lines = [
        html(url, f'<p>page {number}</p><a href="target.html">anchor {number}</a>', NOW + number)
        for number, url in enumerate(SOURCES)
    ]
    monkeypatch.setattr(stored_links, "_CHUNKS_PER_LOOKUP", chunks_per_lookup)
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", lines, "one")
        links = list(links_to(View(store), url_key(TARGET)))
    assert [link.source for link in links] == SOURCES
    assert {link.anchor for link in links} == {f"anchor {number}" for number in range(9)}

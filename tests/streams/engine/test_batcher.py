"""Batches are bounded in pages and in bytes, and reading resumes after a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.engine.batcher import Batcher
from streams.page import Page, Rejected
from tests.samples import jsonl, page, settings

LINES = [page(f"https://a.org/{n}", "some words " * 10) for n in range(5)]


def urls(batcher: Batcher) -> list[list[str]]:
    return [[item.url for item in batch.items if isinstance(item, Page)] for batch in batcher]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [({"batch_pages": 2}, [2, 2, 1]), ({"batch_bytes": 220}, [2, 2, 1]), ({}, [5])],
)
def test_batches_are_bounded_in_pages_and_bytes(tmp_path: Path, limits: dict[str, int], sizes: list[int]) -> None:
    path = jsonl(tmp_path / "a.jsonl", LINES)
    batches = list(Batcher([str(path)], settings({"ingest": limits}), None, None))
    assert [len(batch.items) for batch in batches] == sizes
    assert batches[-1].bytes_read == path.stat().st_size


def test_reading_resumes_after_a_batch(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", LINES)
    custom = settings({"ingest": {"batch_pages": 2}})
    first = next(iter(Batcher([str(path)], custom, None, None)))
    resumed = Batcher([str(path)], custom, first.position, first.mark)
    assert urls(resumed) == [["https://a.org/2", "https://a.org/3"], ["https://a.org/4"]]
    assert resumed.input_unchanged
    path.write_bytes(b"x" + path.read_bytes())
    replaced = Batcher([str(path)], custom, first.position, first.mark)
    list(replaced)
    assert not replaced.input_unchanged


def test_rejected_records_are_items(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [LINES[0], {"url": "nowhere", "text": "no scheme"}])
    (batch,) = Batcher([str(path)], settings(), None, None)
    assert [type(item) for item in batch.items] == [Page, Rejected]


def test_items_after_a_position_are_noticed(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", LINES)
    (batch,) = Batcher([str(path)], settings(), None, None)
    assert not Batcher([str(path)], settings(), batch.position, batch.mark).has_more()
    jsonl(path, [*LINES, page("https://a.org/new", "words")])
    assert Batcher([str(path)], settings(), batch.position, batch.mark).has_more()


def test_an_empty_file_has_no_batches(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [])
    assert list(Batcher([str(path)], settings(), None, None)) == []

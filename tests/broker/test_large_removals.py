"""Test a removal in several parts on a real broker: the answers equal those of the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

URL, CAPTURES = "https://a.example/x", 1_040  # more than one part
OTHERS = 30
PAGES = 5


def write_versions(path: Path) -> Path:
    """Write near-duplicates of a few pages: most at one URL, the others at URLs of their own.

    No bucket is full: a full bucket would make the pairs depend on the order of arrival.
    """
    rng = Random(1)
    pages = [[f"word{number}-{n % 150}" for n in range(200)] for number in range(PAGES)]
    with path.open("w") as out:
        for n in range(CAPTURES + OTHERS):
            text = list(pages[n % PAGES])
            for _ in range(2):
                text[rng.randrange(len(text))] = f"new{rng.randrange(5000)}"
            url = URL if n < CAPTURES else f"https://b.example/{n}"
            time = f"2026-01-01T{n // 60:02d}:{n % 60:02d}:00Z"
            out.write(json.dumps({"url": url, "text": " ".join(text), "fetch_time": time}) + "\n")
    return path


@pytest.mark.long
def test_a_url_with_many_captures_is_forgotten_as_by_the_embedded_engine(
    make_collection: Callable[..., Any], tmp_path: Path
) -> None:
    collection, folder = make_collection(3, answer_seconds_max=20.0), tmp_path / "embedded"
    path = write_versions(tmp_path / "versions.jsonl")
    collection("publish", path, "--sweep", "one")
    collection.run("ingest", path, "--sweep", "one", "--data-dir", folder)
    urls = collection.serve_all(["a", "b"])
    collection.wait_until_committed(urls[0], 1)
    expected = collection.run("forget", URL, "--data-dir", folder)
    assert expected.startswith(f"deleted {CAPTURES:,} captures")
    assert collection.run("forget", URL, "--server", urls[1]) == expected
    query = ["clusters", "--min-size", "1", "--json"]
    answer = collection.run(*query, "--data-dir", folder)
    assert answer
    assert collection.run(*query, "--server", urls[0]) == answer
    collection.stop()
    collection.check("a", "b")

"""Many clients at the same time: none of them fails, and the answers are those of the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from state.store import Store
from streams import forgetting
from streams.urls import url_key

PAGES = 60
FINDS, FORGETS = 24, 25
LIMITS = """
[server]
client_requests_max = 12
change_requests_max = 8
"""


@pytest.fixture
def sweeps(tmp_path: Path) -> list[Path]:
    """Two sweeps; in the second one, each page has moved."""
    rng = Random(3)
    texts = [" ".join(f"word{rng.randrange(5000)}" for _ in range(120)) for _ in range(PAGES)]
    paths = []
    for sweep, folder in enumerate(("old", "new")):
        path = tmp_path / f"{folder}.jsonl"
        path.write_text(
            "".join(
                json.dumps(
                    {
                        "url": f"https://a.example/{folder}/{number}",
                        "text": text,
                        "fetch_time": f"2026-0{sweep + 1}-01T00:00:00Z",
                    }
                )
                + "\n"
                for number, text in enumerate(texts)
            )
        )
        paths.append(path)
    return paths


@pytest.mark.long
def test_many_clients_find_and_forget_at_the_same_time(
    make_collection: Callable[..., Any], tmp_path: Path, sweeps: list[Path]
) -> None:
    """The workers admit fewer requests than there are clients, so some of them must retry."""
    collection, folder = make_collection(4, answer_seconds_max=10.0), tmp_path / "embedded"
    collection.config.write_text(collection.config.read_text() + LIMITS)
    for path in sweeps:
        collection("publish", path, "--sweep", path.stem)
        collection.run("ingest", path, "--sweep", path.stem, "--data-dir", folder)
    urls = collection.serve_all(["a", "b"])
    collection.wait_until_committed(urls[0], len(sweeps))

    batches = [[f"https://a.example/old/{start + number}" for number in range(20)] for start in range(0, PAGES, 20)]
    answers = [collection.run("find", *batch, "--json", "--data-dir", folder) for batch in batches]

    def find(client: int) -> bool:
        batch = client % len(batches)
        answer = collection.run("find", *batches[batch], "--json", "--server", urls[client % 2])
        return bool(answer == answers[batch])

    def forget(client: int) -> str:
        return str(collection.run("forget", f"https://a.example/old/{client}", "--server", urls[client % 2]))

    with ThreadPoolExecutor(FORGETS) as threads:
        assert all(threads.map(find, range(FINDS)))
        assert all(threads.map(forget, range(FORGETS)))
    with Store(folder) as store:
        for client in range(FORGETS):
            removals = forgetting.forget_url(store, url_key(f"https://a.example/old/{client}"))
            forgetting.commit_removals(removals, store.write)
    query = ["clusters", "--min-size", "1", "--json"]
    expected = collection.run(*query, "--data-dir", folder)
    assert all(collection.run(*query, "--server", url) == expected for url in urls)
    collection.stop()
    collection.check("a", "b")

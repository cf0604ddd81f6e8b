"""Test on a real broker that unchanged pages are not sketched again, and that the results stay the same."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.settings import load
from tests.broker.running import clusters_of
from tests.broker.test_same import settle

PAGES = 40


def metric(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:
        text = response.read().decode()
    (value,) = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(value)


def write_sweep(path: Path, day: int, changed: int) -> None:
    """Write a sweep in which the first `changed` pages have a new text."""
    lines = []
    for page in range(PAGES):
        version = f"version {day}" if page < changed else ""
        text = " ".join(f"word{page}x{word}" for word in range(60)) + f" {version}"
        fields = {"url": f"https://a.example/{page}", "text": text, "fetch_time": f"2026-11-{day:02}T00:00:00Z"}
        lines.append(json.dumps(fields) + "\n")
    path.write_text("".join(lines))


def test_a_second_sweep_of_unchanged_pages_is_not_sketched(
    make_collection: Callable[..., Any], tmp_path: Path
) -> None:
    collection = make_collection(3)
    urls = collection.serve_all(["a", "b"])
    sweeps = {"first": tmp_path / "first.jsonl", "second": tmp_path / "second.jsonl"}
    write_sweep(sweeps["first"], 1, changed=0)
    write_sweep(sweeps["second"], 2, changed=5)
    for count, (name, path) in enumerate(sweeps.items(), start=1):
        collection("publish", path, "--sweep", name)
        settle(urls[0], count)
    assert sum(metric(url, "lostfound_pages_total") for url in urls) == 2 * PAGES
    assert sum(metric(url, "lostfound_pages_not_sketched_total") for url in urls) == PAGES - 5
    assert sum(metric(url, "lostfound_captures_total") for url in urls) == 2 * PAGES
    collection.stop()
    collection.check("a", "b")
    with Store(tmp_path / "embedded") as store:
        for name, path in sweeps.items():
            ingest(store, load(collection.config), [str(path)], name, now=1_000)
        assert collection.clusters("a", "b") == clusters_of(View(store))

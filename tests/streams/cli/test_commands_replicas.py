"""`lostfound replicas` prints the replicated directories of a crawl."""

from __future__ import annotations

import json
from pathlib import Path

from tests.analysis_data import prose
from tests.streams.cli.conftest import Lostfound

DIRECTORIES = ("https://a.example/docs/manual/", "https://b.example/copies/handbook/")


def ingest(lostfound: Lostfound, folder: Path, *, index: bool) -> None:
    paths = [*(f"part{number % 3}/page{number}.html" for number in range(30)), *([""] if index else [])]
    texts = {directory + path: prose(path) for directory in DIRECTORIES for path in paths}
    texts |= {
        f"https://{host}.example/own/{number}.html": prose(host, number) for host in "ab" for number in range(9)
    }
    lines = (json.dumps({"url": url, "text": text, "fetch_time": 1_700_000_000_000}) for url, text in texts.items())
    (folder / "pages.jsonl").write_text("\n".join(lines))
    assert lostfound("ingest", folder / "pages.jsonl", "--sweep", "one").code == 0


def test_replicas_as_json_and_as_a_table(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path, index=False)
    a, b = DIRECTORIES
    (replica,) = lostfound("replicas", "--json").rows
    assert replica == {"a": a, "b": b, "pages": [30, 30], "common": 30, "containment": [1.0, 1.0]}
    header, row = lostfound("replicas").out.splitlines()
    assert header.split()[:2] == ["a", "b"]
    assert row.split() == [a, b, "30", "30", "30", "1.00", "1.00"]


def test_the_published_method_needs_index_pages(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path, index=False)
    result = lostfound("replicas", "--method", "zhang")
    assert (result.code, result.out) == (1, "")
    assert "no directory is a replica" in result.err


def test_the_published_method_finds_directories_with_index_pages(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path, index=True)
    (replica,) = lostfound("replicas", "--method", "zhang", "--json").rows
    assert (replica["a"], replica["b"]) == DIRECTORIES


def test_limits_are_logged(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path, index=False)
    settings = tmp_path / "limits.toml"
    settings.write_text("[analyses]\nreplica_depth_max = 2\n")
    result = lostfound("replicas", "--config", settings, "-v")
    assert result.code == 1
    assert "limits reached" in result.err
    assert '"replica_depth_max": 60' in result.err

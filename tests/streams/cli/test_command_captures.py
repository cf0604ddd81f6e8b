"""`lostfound captures`: the history of a URL."""

from __future__ import annotations

import json
from pathlib import Path

from tests.streams.cli.conftest import SITE, SWEEPS, Lostfound


def test_captures_have_resemblances_and_redirects(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("captures", f"{SITE}/install.html", "--json").rows
    assert [row["sweep"] for row in rows] == list(SWEEPS)
    assert rows[0]["resemblance"] is None
    assert 0.7 < rows[1]["resemblance"] < 1
    assert rows[2]["resemblance"] == 1.0
    assert "unchanged" in lostfound("captures", f"{SITE}/install.html").out
    (redirect, _) = lostfound("captures", f"{SITE}/setup.html", "--json").rows
    assert (redirect["status"], redirect["redirect"]) == (301, f"{SITE}/install.html")


def test_an_invalid_url_is_an_error(lostfound: Lostfound, sample_state: Path) -> None:
    assert lostfound("captures", "ftp://a.example/").code == 2


def test_brackets_in_pages_are_not_markup(lostfound: Lostfound, tmp_path: Path) -> None:
    lines = [
        {"url": "https://a.example/x", "fetch_time": 5_000, "title": "[/b] :bug:", "text": "some words " * 20},
        {
            "url": "https://a.example/y",
            "fetch_time": 5_000,
            "status": 301,
            "redirect": "https://a.example/q?[/b]=:x:",
        },
    ]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "[/sweep]").code == 0
    assert "[/sweep]" in lostfound("sweep", "list").out
    assert "q?[/b]=:x:" in lostfound("captures", "https://a.example/y").out
    assert "[/b] :bug:" in lostfound("clusters", "--min-size", "1").out
    assert "https://a.example/x" in lostfound("find", "https://a.example/x").out

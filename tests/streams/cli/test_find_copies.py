"""`find` uses the mirrors that `lostfound mirrors` has stored."""

from __future__ import annotations

import random
from pathlib import Path

from tests.samples import NOW, jsonl, page, words
from tests.streams.cli.conftest import Lostfound

A, B = "https://www.a.example", "https://mirror.b.example"
PATHS = [f"/guide/part{n // 10}/p{n}.html" for n in range(30)]
DAY = 86_400_000


def ingest(lostfound: Lostfound, folder: Path, sweep: int, *, without: str = "") -> None:
    lines = []
    for host in (A, B):
        for path in PATHS:
            text = " ".join(words(random.Random(path), 80))
            if host + path != without:
                lines.append(page(host + path, text, NOW + sweep * DAY, title=path))
    file = jsonl(folder / f"{sweep}.jsonl", lines)
    assert lostfound("ingest", file, "--sweep", f"sweep-{sweep}").code == 0


def test_a_missing_page_that_lives_on_a_stored_mirror_is_a_copy(lostfound: Lostfound, tmp_path: Path) -> None:
    old, copy = A + PATHS[7], B + PATHS[7]
    ingest(lostfound, tmp_path, 1)
    ingest(lostfound, tmp_path, 2, without=old)
    assert lostfound("find", old, "--json").rows[0]["status"] != "copy"
    (mirror,) = lostfound("mirrors", "--json").rows
    assert mirror["level"] in {"1", "2", "3"}
    (answer,) = lostfound("find", old, "--json").rows
    assert (answer["status"], answer["candidates"][0]["url"]) == ("copy", copy)
    assert answer["candidates"][0]["evidence"][0]["kind"] == "mirror"
    shown = lostfound("find", old).out
    assert "copy, last seen" in shown
    assert "same path on a mirror" in shown
    assert copy in lostfound("find", "--missing").out
    assert [row["url"] for row in lostfound("find", "--missing", "--status", "copy", "--json").rows] == [old]
    assert lostfound("find", "--missing", "--status", "moved").code == 1
    assert copy not in lostfound("find", "--missing", "--redirects", "nginx").out
    # A removal deletes the stored mirrors.
    assert lostfound("forget", B + PATHS[0]).code == 0
    assert lostfound("find", old, "--json").rows[0]["status"] != "copy"

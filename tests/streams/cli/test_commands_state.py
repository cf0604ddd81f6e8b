"""`lostfound state` and `lostfound forget`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state.changes import Changes
from state.families import Family
from state.store import Store
from streams.cli import commands_state
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

FAQ, FAQ_MIRROR = f"{SITE}/faq.html", f"{SITE}/mirror/faq.html"


def test_check_lists_violations(lostfound: Lostfound, sample_state: Path) -> None:
    assert lostfound("state", "check").err == "the state is sound\n"
    with Store(sample_state) as store:
        changes = Changes()
        changes.put(Family.PARENTS, bytes(16), bytes([1] * 16))
        store.write(changes)
    result = lostfound("state", "check")
    assert result.code == 1
    assert "parents" in result.out
    assert all(row["family"] for row in lostfound("state", "check", "--json").rows)


def test_stats_shows_counters(lostfound: Lostfound, sample_state: Path) -> None:
    (row,) = lostfound("state", "stats", "--json").rows
    assert row["sweeps"]["committed"] == 3
    assert row["counters"]["pages"] == 48
    assert "column family" in lostfound("state", "stats").out


def test_a_backup_can_be_queried(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    assert lostfound("state", "backup", tmp_path / "copy").code == 0
    clusters = lostfound("clusters", "--json").out
    shutil.rmtree(sample_state)
    assert lostfound("--data-dir", tmp_path / "copy", "clusters", "--json").out == clusters
    assert lostfound("--data-dir", tmp_path / "copy", "state", "backup", tmp_path / "copy").code == 2


def test_dump_writes_rows_of_one_family_or_all(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("state", "dump").rows
    assert {"captures", "documents", "edges", "sweeps"} <= {row["family"] for row in rows}
    assert len(lostfound("state", "dump", "documents", "--limit", "3").rows) == 3
    key = lostfound("state", "dump", "documents", "--limit", "1").rows[0]["document"]
    assert len(lostfound("state", "dump", "documents", "--prefix", key).rows) == 1
    assert lostfound("state", "dump", "nothing").code == 2
    assert lostfound("state", "dump", "bands", "--prefix", "xyz").code == 2


def test_dump_writes_rows_while_it_reads(
    lostfound: Lostfound, sample_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    written: list[int] = []
    dump_rows = commands_state._dump_rows

    def count_rows(*arguments: Any) -> Iterator[dict[str, Any]]:
        for row in dump_rows(*arguments):
            read.append(1)
            yield row

    monkeypatch.setattr(commands_state, "_dump_rows", count_rows)
    monkeypatch.setattr(commands_state, "write_json", lambda *_: written.append(len(read)))
    assert lostfound("state", "dump", "documents").code == 0
    assert written == list(range(1, len(read) + 1))


def test_hot_lists_full_buckets(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "small.toml"
    settings.write_text("[limits]\nbucket_postings_max = 2\n")
    for sweep in SWEEPS:
        lostfound("ingest", SAMPLE / f"{sweep}.jsonl", "--sweep", sweep, "--config", settings)
    result = lostfound("state", "hot", "--json", "--config", settings)
    assert result.code == 0
    assert {row["kind"] for row in result.rows} == {"bucket"}
    assert "bucket" in lostfound("state", "hot", "--config", settings).out
    assert lostfound("state", "hot").code == 1


def test_a_file_in_place_of_a_folder_is_an_error(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "below"
    assert lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "x", "--data-dir", below).code == 4
    assert lostfound("state", "backup", below).code == 2


def test_forget_deletes_a_url(lostfound: Lostfound, sample_state: Path) -> None:
    expected = "deleted 3 captures and 2 documents; rebuilt the clusters of 2 other documents\n"
    assert lostfound("forget", FAQ_MIRROR).out == expected
    assert lostfound("captures", FAQ_MIRROR).code == 1
    assert lostfound("captures", FAQ).code == 0
    assert lostfound("state", "check").code == 0
    assert lostfound("forget", FAQ_MIRROR).code == 1


def test_forget_deletes_a_document(lostfound: Lostfound, sample_state: Path) -> None:
    (row,) = lostfound("cluster", FAQ, "--json").rows
    assert lostfound("forget", row["asked"], "--json").rows[0]["documents"] == 1
    assert lostfound("cluster", row["asked"]).code == 1
    assert lostfound("state", "check").code == 0

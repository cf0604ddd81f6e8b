"""`lostfound ingest` and `lostfound sweep`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from state import sweeps
from state.store import Store
from tests.samples import begin_cancel
from tests.streams.cli.conftest import COMMAND, ROOT, SAMPLE, SITE, SWEEPS, Lostfound


def test_ingest_prints_a_summary(lostfound: Lostfound) -> None:
    result = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    assert result.code == 0
    assert "15 pages" in result.out
    assert "committed" in result.out
    assert "near-duplicate" in result.out


def test_ingesting_the_same_file_again_changes_nothing(lostfound: Lostfound) -> None:
    lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    result = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    assert result.code == 0
    assert "nothing to do" in result.out
    assert len(lostfound("state", "dump", "captures").rows) == 15


def test_json_contains_the_counts(lostfound: Lostfound) -> None:
    (row,) = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--json").rows
    assert row["sweep"] == "first"
    assert row["status"] == "ingested"
    assert row["committed"] is True
    counts = {name: row[name] for name in ("pages", "new", "unchanged", "rejected")}
    assert counts == {"pages": 15, "new": 15, "unchanged": 0, "rejected": {}}


def test_a_committed_sweep_refuses_more_input(lostfound: Lostfound) -> None:
    lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    result = lostfound("ingest", SAMPLE / "2024-05.jsonl", "--sweep", "first")
    assert result.code == 2
    assert "is committed" in result.err


def test_an_open_sweep_accepts_more_input(lostfound: Lostfound) -> None:
    lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--keep-open")
    assert lostfound("sweep", "list", "--json").rows[0]["state"] == "open"
    assert lostfound("ingest", SAMPLE / "2024-05.jsonl", "--sweep", "first").code == 0
    (row,) = lostfound("sweep", "list", "--json").rows
    assert (row["state"], row["captures"]) == ("committed", 31)


def test_a_missing_file_is_an_error(lostfound: Lostfound, tmp_path: Path) -> None:
    result = lostfound("ingest", tmp_path / "nothing.warc", "--sweep", "first")
    assert result.code == 2
    assert "nothing.warc" in result.err
    assert "Traceback" not in result.err


@pytest.fixture
def file_with_bad_line(tmp_path: Path) -> Path:
    lines = (SAMPLE / "2023-03.jsonl").read_text().splitlines()
    lines.insert(3, "{not JSON")
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    return tmp_path / "pages.jsonl"


def test_a_bad_record_becomes_a_dead_letter(lostfound: Lostfound, file_with_bad_line: Path, tmp_path: Path) -> None:
    result = lostfound("ingest", file_with_bad_line, "--sweep", "first")
    assert result.code == 0
    assert "dead-letters.jsonl" in result.out
    (letter,) = map(json.loads, (tmp_path / "data" / "dead-letters.jsonl").read_text().splitlines())
    assert letter["sweep"] == "first"
    assert letter["offset"] == 3


def test_a_bad_record_stops_the_ingest_if_asked(lostfound: Lostfound, file_with_bad_line: Path) -> None:
    result = lostfound("ingest", file_with_bad_line, "--sweep", "first", "--bad-records", "fail")
    assert result.code == 3
    assert "pages.jsonl" in result.err


def test_wrong_arguments_create_no_state(lostfound: Lostfound, tmp_path: Path) -> None:
    result = lostfound("ingest", tmp_path / "mistyped.warc", "--sweep", "x", "--data-dir", tmp_path / "new")
    assert result.code == 2
    assert "mistyped.warc" in result.err
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    for path, name in ((tmp_path / "empty", "x"), (SAMPLE, "")):
        assert lostfound("ingest", path, "--sweep", name, "--data-dir", tmp_path / "new").code == 2
        assert not (tmp_path / "new").exists()


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    lines = [{"url": f"https://a.example/{n}", "text": " ".join(map(str, range(n, n + 999)))} for n in range(200)]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["ingest", str(tmp_path / "pages.jsonl"), "--sweep", "x", "--data-dir", str(tmp_path / "data")]
    limited = ["bash", "-c", 'ulimit -f 100; exec "$@"', "-", *COMMAND, *arguments]
    result = subprocess.run(limited, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 4, result.stderr
    assert "File too large" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_sweep_can_be_opened_committed_and_cancelled(lostfound: Lostfound) -> None:
    assert lostfound("sweep", "open", "first").code == 0
    assert lostfound("sweep", "open", "first").code == 2
    assert lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--keep-open").code == 0
    assert "15 captures" in lostfound("sweep", "commit", "first").out
    assert lostfound("sweep", "cancel", "first").code == 0
    assert lostfound("sweep", "list", "--json").rows == []
    assert lostfound("clusters").code == 1
    assert lostfound("captures", f"{SITE}/faq.html").code == 1
    assert lostfound("sweep", "commit", "second").code == 2


def test_a_name_is_free_after_an_interrupted_cancellation(lostfound: Lostfound, sample_state: Path) -> None:
    with Store(sample_state) as store:
        sweep = sweeps.named(store, "2025-09")
        assert sweep
        begin_cancel(store, sweep)
    assert lostfound("sweep", "open", "2025-09").code == 0
    assert [row["state"] for row in lostfound("sweep", "list", "--json").rows] == ["committed", "committed", "open"]


def test_list_shows_when_sweeps_were_opened_and_committed(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("sweep", "list", "--json").rows
    assert [row["sweep"] for row in rows] == list(SWEEPS)
    assert all(row["committed"] >= row["opened"] > "2026" for row in rows)
    assert all(name in lostfound("sweep", "list").out for name in SWEEPS)

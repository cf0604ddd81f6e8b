"""`lostfound state check --repair` goes back to the last batch before damage in a log."""

from __future__ import annotations

import fcntl
import random
import shutil
from pathlib import Path

import pytest

from state.store import Store
from tests.samples import NOW, jsonl, page, variant, words
from tests.streams.cli.conftest import Lostfound

PAGES = 60
FAMILIES = ("captures", "documents", "locations", "bands", "edges", "parents", "members", "texts")


@pytest.fixture
def crawls(tmp_path: Path) -> list[Path]:
    """Two crawls with near-duplicates and rejected records."""
    rng = random.Random(2)
    texts = [words(rng, 120) for _ in range(PAGES // 2)]
    texts += [variant(rng, text) for text in texts]
    first = [page(f"https://a.org/{n}", " ".join(text), NOW + n) for n, text in enumerate(texts)]
    second = [page(f"https://b.org/{n}", " ".join(variant(rng, text)), NOW + 90 + n) for n, text in enumerate(texts)]
    return [jsonl(tmp_path / f"crawl-{n}.jsonl", [*lines, {"url": "no"}]) for n, lines in enumerate((first, second))]


@pytest.fixture
def damaged(lostfound: Lostfound, crawls: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A killed state with two sweeps, the second only in the log, where one byte in the middle is flipped."""
    config = tmp_path / "small.toml"
    config.write_text("[ingest]\nbatch_pages = 4\nworkers = 1\n")
    monkeypatch.setenv("LOSTFOUND_CONFIG", str(config))
    ingest(lostfound, crawls[:1])
    with monkeypatch.context() as patch:  # copy the files before the second ingest closes them
        patch.setattr(Store, "_sync_log", lambda store: shutil.copytree(store.path, tmp_path / "intact"))
        assert lostfound("ingest", crawls[1], "--sweep", 1).code == 0
    shutil.rmtree(tmp_path / "data")
    shutil.copytree(tmp_path / "intact", tmp_path / "data")
    log = max((tmp_path / "data").glob("*.log"), key=lambda file: file.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x10
    log.write_bytes(data)
    return log


def ingest(lostfound: Lostfound, crawls: list[Path]) -> None:
    for number, crawl in enumerate(crawls):
        assert lostfound("ingest", crawl, "--sweep", number).code == 0


def dump(lostfound: Lostfound, folder: Path) -> list[str]:
    return [lostfound("--data-dir", folder, "state", "dump", family).out for family in FAMILIES]


def test_every_command_refuses_the_damage_until_it_is_repaired(
    lostfound: Lostfound, damaged: Path, crawls: list[Path], tmp_path: Path
) -> None:
    original = damaged.read_bytes()
    for arguments in (
        ["state", "check"],
        ["clusters"],
        ["ingest", crawls[1], "--sweep", "2"],
        ["forget", "https://x"],
    ):
        result = lostfound(*arguments)
        assert result.code == 4
        assert f"the log {damaged} is damaged after byte " in result.err
        assert "state check --repair" in result.err
    result = lostfound("state", "check", "--repair")
    assert result.code == 0, result.err
    assert "the state is sound" in result.err
    assert f"sweep 1: ingest again the input that contains {crawls[1]}\n" in result.out
    assert "sweep 0" not in result.out
    assert damaged.with_name(damaged.name + ".damaged").read_bytes() == original
    assert damaged.read_bytes() == original[: damaged.stat().st_size]
    captures = len(lostfound("state", "dump", "captures").rows)
    assert PAGES < captures < 2 * PAGES
    assert captures % 4 == 0  # complete batches
    ingest(lostfound, crawls)
    assert dump(lostfound, tmp_path / "data") == dump(lostfound, tmp_path / "intact")
    letters = (tmp_path / "data" / "dead-letters.jsonl").read_bytes()
    assert letters == (tmp_path / "intact" / "dead-letters.jsonl").read_bytes()
    again = lostfound("state", "check", "--repair")
    assert (again.code, again.out) == (0, "")
    assert "no write-ahead log is damaged" in again.err


def test_a_repair_is_reported_as_json(lostfound: Lostfound, damaged: Path, crawls: list[Path]) -> None:
    (row,) = lostfound("state", "check", "--repair", "--json").rows
    assert row == {
        "log": str(damaged),
        "kept_logs": [f"{damaged}.damaged"],
        "ingest_again": [{"sweep": "1", "source": str(crawls[1])}],
    }


def test_damage_in_the_first_batch_removes_the_whole_sweep(
    lostfound: Lostfound, damaged: Path, crawls: list[Path], tmp_path: Path
) -> None:
    data = bytearray((tmp_path / "intact" / damaged.name).read_bytes())
    data[6] ^= 0x04  # the kind of the first fragment: RocksDB would take the whole log for an older one
    damaged.write_bytes(data)
    result = lostfound("state", "check", "--repair")
    assert result.code == 0
    assert f"ingest again the input that contains {crawls[1]}\n" in result.out
    assert [row["sweep"] for row in lostfound("sweep", "list", "--json").rows] == ["0"]
    assert damaged.stat().st_size == 0
    ingest(lostfound, crawls)
    assert dump(lostfound, tmp_path / "data") == dump(lostfound, tmp_path / "intact")


def test_later_logs_are_removed_too(lostfound: Lostfound, damaged: Path) -> None:
    later = damaged.with_name("999999.log")
    later.write_bytes(damaged.read_bytes())
    result = lostfound("state", "check", "--repair")
    assert result.code == 0
    assert not later.exists()
    assert later.with_name("999999.log.damaged").exists()


def test_a_repair_is_refused_without_a_state_and_while_a_writer_is_active(
    lostfound: Lostfound, damaged: Path, tmp_path: Path
) -> None:
    assert lostfound("--data-dir", tmp_path / "none", "state", "check", "--repair").code == 4
    assert not (tmp_path / "none").exists()
    locks: list[object] = []

    def refuse(*arguments: object) -> None:
        locks.append(arguments)
        raise BlockingIOError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "lockf", refuse)
        result = lostfound("state", "check", "--repair")
    assert locks
    assert result.code == 4
    assert "another process is writing" in result.err

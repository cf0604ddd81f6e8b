"""Kills a real ingest by SIGKILL at random instants and goes on: the answers are those of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from state.check import check
from state.store import Store
from state.view import View
from streams import query
from streams.settings import load

RUN = "import sys; from streams.cli import main; sys.argv[0] = 'lostfound'; main()"
# Small batches, so that a kill nearly always falls between two commits or into one; two workers, so that some are left.
SETTINGS = """
[ingest]
batch_pages = 16
workers = {workers}
workers_from_bytes = 0
"""
WORDS = [f"word{n}" for n in range(900)]


def write_sweep(path: Path, seed: int, pages: int) -> None:
    """Pages of which some are near-copies, some the same, some broken."""
    chance = random.Random(seed)
    texts = [" ".join(chance.choices(WORDS, k=120)) for _ in range(pages // 2)]
    lines = []
    for n in range(pages):
        words = texts[n % len(texts)].split()
        if n >= len(texts) and n % 3:
            words[chance.randrange(120)] = chance.choice(WORDS)
        lines.append(
            json.dumps({"url": f"https://example.org/{n}", "fetch_time": 1_700_000_000, "text": " ".join(words)})
        )
        if n % 11 == 0:
            lines.append(chance.choice(["not json", '{"text": "no url"}', '{"url": "ftp://x/", "text": "a b"}']))
    path.write_text("\n".join(lines) + "\n")


def command(folder: Path, sweep: Path, workers: int) -> list[str]:
    config = folder / f"settings-{workers}.toml"
    config.write_text(SETTINGS.format(workers=workers))
    options = ["--config", str(config), "--data-dir", str(folder / "state"), "ingest", str(sweep), "--sweep", "one"]
    return [sys.executable, "-c", RUN, *options]


def answers(folder: Path) -> tuple[list[object], list[object]]:
    """What a user is told of a finished state, and its dead letters; a broken invariant fails the test."""
    settings = load()
    with Store(folder / "state", settings.store) as store:
        assert list(check(store, postings_max=settings.limits.bucket_postings_max)) == []
        view = View(store)
        clusters: list[object] = [(c.cluster, c.documents, c.urls) for c in query.clusters(view, min_size=1)]
    letters = [json.loads(line) for line in (folder / "state" / "dead-letters.jsonl").read_text().splitlines()]
    return clusters, letters


def kill_often(folder: Path, sweep: Path, *, kills: int, seed: int, workers: int) -> int:
    """Start and kill until `kills` are done or the ingest got through, then let it end; returns how many were killed."""
    chance = random.Random(seed)
    done = 0
    while done < kills:
        child = subprocess.Popen(
            command(folder, sweep, workers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
        )
        started = time.monotonic()
        wait = chance.uniform(0.3, 2.5)
        while child.poll() is None and time.monotonic() - started < wait:
            time.sleep(0.01)
        if child.poll() is not None:
            break
        child.send_signal(signal.SIGKILL)
        child.wait()
        done += 1
    subprocess.run(command(folder, sweep, workers), check=True, capture_output=True, timeout=120)
    return done


def orphans(folder: Path) -> list[int]:
    """Processes that still have this state's folder among their arguments or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def compare(tmp_path: Path, *, rounds: int, kills: int, seed: int, workers: int) -> None:
    sweep = tmp_path / "sweep.jsonl"
    write_sweep(sweep, seed, pages=4_000)
    plain = tmp_path / "plain"
    plain.mkdir()
    subprocess.run(command(plain, sweep, 1), check=True, capture_output=True, timeout=120)
    expected = answers(plain)
    killed = 0
    for turn in range(rounds):
        folder = tmp_path / f"killed-{turn}"
        folder.mkdir()
        killed += kill_often(folder, sweep, kills=kills, seed=seed * 1_000 + turn, workers=workers)
        assert answers(folder) == expected
        assert orphans(folder) == []
    assert killed >= rounds, "no run was killed: make the input longer"


@pytest.mark.parametrize(("seed", "workers"), [(1, 1), (2, 2)])
def test_killed_ten_times(tmp_path: Path, seed: int, workers: int) -> None:
    compare(tmp_path, rounds=1, kills=10, seed=seed, workers=workers)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 13))
def test_killed_a_hundred_times(tmp_path: Path, seed: int) -> None:
    compare(tmp_path, rounds=1, kills=10, seed=seed, workers=1 + seed % 2)


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends with its own code, keeps what was committed, and the same command goes on."""
    sweep = tmp_path / "sweep.jsonl"
    write_sweep(sweep, 7, pages=4_000)
    plain = tmp_path / "plain"
    plain.mkdir()
    subprocess.run(command(plain, sweep, 1), check=True, capture_output=True, timeout=120)
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    child = subprocess.Popen(
        command(stopped, sweep, 1), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    deadline = time.monotonic() + 60
    while not (stopped / "state" / "dead-letters.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode in {0, 130}, said
    assert b"Traceback" not in said
    subprocess.run(command(stopped, sweep, 1), check=True, capture_output=True, timeout=120)
    assert answers(stopped) == answers(plain)

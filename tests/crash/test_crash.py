"""SIGKILL at random instants of a real ingest: then the state is sound, and the same command finishes the work.

An instant is so many lines of what the child says, and some milliseconds more. What the state holds in the end equals
an undisturbed run, row for row.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from state import meta, sweeps
from state.check import check
from state.families import Family
from state.model import SweepState
from state.store import Store
from streams.engine.ingest import ingest
from streams.forgetting import apply, finish_cancelling
from streams.page import Page
from streams.readers.dispatch import read
from tests.samples import NOW, Line, jsonl, page, settings, variant, words

ROOT = Path(__file__).parents[2]
SUITE, LONG = 20, 100
CHAIN = 5  # kills of one ingest, one after another

Facts = dict[Family, dict[bytes, bytes]]


class Crawl(NamedTuple):
    """Two sweeps on disk, and what they come to undisturbed."""

    files: list[Path]
    pages: list[int]
    facts: list[Facts]  # after each sweep
    counters: dict[str, int]
    letters: list[str]


def real_pages(folder: Path) -> list[list[Line]]:
    found = []
    for path in sorted(folder.glob("moves/symfony/sweep-*"))[:2]:
        items = [item for _, item in read([path])]
        found.append([page(item.url, item.text or "", item.time) for item in items if isinstance(item, Page)])
    return found


def made_pages() -> list[list[Line]]:
    rng = random.Random(13)
    texts = [words(rng, 300) for _ in range(150)]
    texts += [variant(rng, rng.choice(texts), 3) for _ in range(150)]
    first = [page(f"https://a{n % 7}.org/{n}", " ".join(text), NOW + n) for n, text in enumerate(texts)]
    changed = [variant(rng, text, 2) if rng.random() < 0.5 else text for text in texts]
    second = [page(f"https://a{n % 7}.org/{n}", " ".join(text), NOW + 900 + n) for n, text in enumerate(changed)]
    return [first, second]


def with_bad_records(lines: list[Line]) -> list[Line]:
    found: list[Line] = []
    for number, line in enumerate(lines):
        found.append(line)
        if number % 15 == 7:
            found.append({"url": f"not a url {number}", "text": "bad"})
    return found


def facts(store: Store) -> Facts:
    return {family: dict(store.scan(family)) for family in Family if family is not Family.META}


def letters(folder: Path) -> list[str]:
    path = folder / "dead-letters.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="session")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    folder = tmp_path_factory.mktemp("crawl")
    shared = Path(os.environ.get("LOSTFOUND_SHARED", ROOT.parent / "shared")) / "data"
    both = real_pages(shared) or made_pages()
    files = [jsonl(folder / f"{n}.jsonl", with_bad_records(lines)) for n, lines in enumerate(both)]
    held: list[Facts] = []
    pages: list[int] = []
    with Store(folder / "state") as store:
        for number, path in enumerate(files):
            wanted = settings({"ingest": {"batch_pages": 16}})
            pages.append(ingest(store, wanted, [str(path)], str(number), now=NOW).pages)
            held.append(facts(store))
        assert held[-1][Family.EDGES]
        return Crawl(files, pages, held, meta.counters(store), letters(folder / "state"))


class Child:
    """A child process in a session of its own."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.crash.child", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)

    def read(self, lines: int) -> list[bytes]:
        assert self.process.stdout is not None
        return [line.strip() for _ in range(lines) if (line := self.process.stdout.readline())]

    def end(self, by: signal.Signals | None = None, *, group: bool = False) -> int:
        """Wait for its end, and for that of all processes that it started."""
        assert self.process.stdout is not None
        if by is not None and group:
            os.killpg(self.process.pid, by)
        elif by is not None:
            self.process.send_signal(by)
        self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait(timeout=60)
        until = time.monotonic() + 20
        while group_alive(self.process.pid):
            assert time.monotonic() < until, "processes are left behind"
            time.sleep(0.02)
        return code


def group_alive(group: int) -> bool:
    """Whether any process of a group lives; zombies that nobody has waited for yet do not."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                return True
    return False


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Starts children, and sees that none outlives the test."""
    children: list[Child] = []

    def started(*arguments: object) -> Child:
        children.append(Child(*arguments))
        return children[-1]

    yield started
    for child in children:
        if child.process.poll() is None:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()


def sound(folder: Path) -> bool:
    with Store(folder) as store:
        return list(check(store, postings_max=32)) == []


def kill_and_go_on(start: Callable[..., Child], crawl: Crawl, folder: Path, rng: random.Random, workers: int) -> None:
    """A chain of kills while two sweeps are taken in; then the end is compared with the undisturbed run."""
    kills = 0
    for number, path in enumerate(crawl.files):
        batches = crawl.pages[number] // 16
        allowed = kills + CHAIN // 2 if number == 0 else CHAIN
        while True:
            child = start("ingest", folder, number, workers, path)
            if kills < allowed:
                child.read(rng.randint(0, max(1, batches // 2)))
                time.sleep(rng.random() * 0.04)
                child.end(signal.SIGKILL)
                kills += 1
                if not (folder / "CURRENT").exists():
                    continue  # killed before there was a state
                assert sound(folder), f"after {kills} kills"
            else:
                assert child.end() == 0
                break
    with Store(folder) as store:
        assert list(check(store, postings_max=32)) == []
        found = facts(store)
        for family in found:
            assert found[family] == crawl.facts[-1][family], family
        assert meta.counters(store) == crawl.counters
        again = ingest(store, settings(), [str(crawl.files[-1])], "1", now=NOW)
    assert again.status == "nothing to do"
    assert again.pages == crawl.pages[-1]
    assert letters(folder) == crawl.letters


@pytest.mark.parametrize("seed", range(SUITE // CHAIN))
def test_killed_while_ingesting(seed: int, start: Callable[..., Child], crawl: Crawl, tmp_path: Path) -> None:
    kill_and_go_on(start, crawl, tmp_path / "state", random.Random(seed), workers=2 if seed == 0 else 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 100 + LONG // CHAIN))
def test_killed_many_times_more(seed: int, start: Callable[..., Child], crawl: Crawl, tmp_path: Path) -> None:
    kill_and_go_on(start, crawl, tmp_path / "state", random.Random(seed), workers=1 + seed % 3)


def test_killed_while_cancelling(start: Callable[..., Child], crawl: Crawl, tmp_path: Path) -> None:
    """The next cancellation, or any writer, finishes it; then the first sweep is all there is."""
    folder = tmp_path / "state"
    for number, path in enumerate(crawl.files):
        assert start("ingest", folder, number, 1, path).end() == 0
    rng = random.Random(1)
    for _ in range(4):
        child = start("cancel", folder, "1")
        child.read(1)
        time.sleep(rng.random() * 0.1)
        child.end(signal.SIGKILL)
        assert sound(folder)
    with Store(folder) as store:
        apply(finish_cancelling(store), store.write)
        assert sweeps.all_sweeps(store)[1].state in {SweepState.CANCELLED, SweepState.COMMITTED}
    assert start("cancel", folder, "1").end() == 0
    with Store(folder) as store:
        assert list(check(store, postings_max=32)) == []
        found = facts(store)
        for family in found:
            if family is not Family.SWEEPS:
                assert found[family] == crawl.facts[0][family], family
        assert [s.state for s in sweeps.all_sweeps(store)] == [SweepState.COMMITTED, SweepState.CANCELLED]


def command(folder: Path, config: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from streams.cli import main; sys.exit(main())", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"LOSTFOUND_DATA_DIR": str(folder), "LOSTFOUND_CONFIG": str(config)},
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_while_ingesting(workers: int, crawl: Crawl, tmp_path: Path) -> None:
    """As a terminal sends it: to the command and to all its workers at once."""
    folder, config = tmp_path / "state", tmp_path / "settings.toml"
    config.write_text(f"[ingest]\nworkers = {workers}\nworkers_from_bytes = 0\nbatch_pages = 4\n")
    ingesting = ["ingest", str(crawl.files[0]), "--sweep", "0", "--json"]
    child = command(folder, config, *ingesting)
    until = time.monotonic() + 60
    while not (folder / "dead-letters.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.005)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert b"Traceback" not in err
    assert out == b""
    while group_alive(child.pid):
        assert time.monotonic() < until, "processes are left behind"
        time.sleep(0.02)
    assert sound(folder)
    child = command(folder, config, *ingesting)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    summary: dict[str, Any] = json.loads(out)
    assert summary["status"] == "resumed"
    assert summary["pages"] == crawl.pages[0]
    with Store(folder) as store:
        found = facts(store)
    for family in (Family.CAPTURES, Family.DOCUMENTS, Family.EDGES, Family.PARENTS, Family.MEMBERS):
        assert found[family] == crawl.facts[0][family], family
    assert letters(folder) == [letter for letter in crawl.letters if json.loads(letter)["sweep"] == "0"]


def test_a_worker_that_is_killed_ends_the_ingest_with_a_word(crawl: Crawl, tmp_path: Path) -> None:
    folder, config = tmp_path / "state", tmp_path / "settings.toml"
    config.write_text("[ingest]\nworkers = 2\nworkers_from_bytes = 0\nbatch_pages = 2\n")
    child = command(folder, config, "ingest", str(crawl.files[0]), "--sweep", "0")
    until = time.monotonic() + 60
    killed: list[int] = []
    while not killed and time.monotonic() < until:
        if (folder / "dead-letters.jsonl").exists():
            tasks = Path(f"/proc/{child.pid}/task").glob("*/children")
            below = {int(pid) for task in tasks for pid in task.read_text().split()}
            killed = [p for p in below if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()][:1]
        time.sleep(0.002)
    os.kill(killed[0], signal.SIGKILL)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 2, err
    assert b"a process that sketches pages was killed" in err
    assert b"Traceback" not in err
    assert sound(folder)

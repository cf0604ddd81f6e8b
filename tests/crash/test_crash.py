"""Test that a killed ingest, forget or cancel leaves a consistent state, and that the same command finishes the work.

A child process is killed after a random number of its output lines plus some milliseconds. In the end, the state equals
that of an uninterrupted run: row for row, except that parent pointers are compared by the root that they lead to. The
pointers themselves depend on the order of the unions.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from state import meta, sweeps
from state.check import Problem, check
from state.families import Family
from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.forgetting import cancel_sweep, commit_removals, finish_interrupted_removals, forget_url
from streams.page import Page
from streams.readers.dispatch import read
from streams.urls import url_key
from tests.samples import NOW, Line, jsonl, page, settings, variant, words

ROOT = Path(__file__).parents[2]
SUITE, LONG = 10, 100
CHAIN = 5  # kills per test

Facts = dict[Family, dict[bytes, bytes]]


class Crawl(NamedTuple):
    """Two sweeps on disk, and the result of ingesting them without an interruption."""

    files: list[Path]
    pages: list[int]  # per sweep
    facts: list[Facts]  # after each sweep
    counters: dict[str, int]
    letters: list[str]


def read_pages(path: Path) -> list[Line]:
    pages = (item for _, item in read([path]) if isinstance(item, Page))
    return [page(item.url, item.text or "", item.time) for item in pages]


def generate_pages() -> list[list[Line]]:
    rng = random.Random(13)
    texts = [words(rng, 300) for _ in range(150)]
    texts += [variant(rng, rng.choice(texts), 3) for _ in range(150)]
    first = [page(f"https://a{n % 7}.org/{n}", " ".join(text), NOW + n) for n, text in enumerate(texts)]
    changed = [variant(rng, text, 2) if rng.random() < 0.5 else text for text in texts]
    second = [page(f"https://a{n % 7}.org/{n}", " ".join(text), NOW + 900 + n) for n, text in enumerate(changed)]
    return [first, second]


def with_bad_records(lines: list[Line]) -> list[Line]:
    mixed: list[Line] = []
    for number, line in enumerate(lines):
        mixed.append(line)
        if number % 15 == 7:
            mixed.append({"url": f"not a url {number}", "text": "bad"})
    return mixed


def facts(store: Store) -> Facts:
    """Return all rows that must not depend on interruptions; the value of a parent row is its root."""
    rows: Facts = {family: dict(store.scan(family)) for family in Family if family is not Family.META}
    view = View(store)
    rows[Family.PARENTS] = {node: view.root(node) for node in rows[Family.PARENTS]}
    return rows


def assert_same_facts(actual: Facts, expected: Facts, families: Iterable[Family]) -> None:
    for family in families:
        assert actual[family] == expected[family], family


def letters(folder: Path) -> list[str]:
    path = folder / "dead-letters.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def write_crawl(folder: Path, sweep_lines: Sequence[list[Line]]) -> Crawl:
    """Write two sweeps and ingest them without an interruption."""
    files = [jsonl(folder / f"{n}.jsonl", with_bad_records(lines)) for n, lines in enumerate(sweep_lines)]
    facts_by_sweep: list[Facts] = []
    pages: list[int] = []
    with Store(folder / "state") as store:
        for number, path in enumerate(files):
            small_batches = settings({"ingest": {"batch_pages": 16}})
            pages.append(ingest(store, small_batches, [str(path)], str(number), now=NOW).pages)
            facts_by_sweep.append(facts(store))
        assert facts_by_sweep[-1][Family.EDGES], "the test needs near-duplicates"
        return Crawl(files, pages, facts_by_sweep, meta.counters(store), letters(folder / "state"))


@pytest.fixture(scope="session")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    return write_crawl(tmp_path_factory.mktemp("crawl"), generate_pages())


@pytest.fixture(scope="session")
def real_crawl(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Crawl:
    paths = sorted(shared_data.glob("moves/symfony/sweep-*"))[:2]
    return write_crawl(tmp_path_factory.mktemp("real-crawl"), [read_pages(path) for path in paths])


class Child:
    """A child process in its own session."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.crash.child", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)

    def read(self, lines: int) -> list[bytes]:
        assert self.process.stdout is not None
        return [line.strip() for _ in range(lines) if (line := self.process.stdout.readline())]

    def end(self, by: signal.Signals | None = None, *, group: bool = False) -> int:
        """Wait until the child and all processes that it started have ended; return its exit code."""
        assert self.process.stdout is not None
        if by is not None and group:
            os.killpg(self.process.pid, by)
        elif by is not None:
            self.process.send_signal(by)
        self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait(timeout=60)
        deadline = time.monotonic() + 20
        while group_alive(self.process.pid):
            assert time.monotonic() < deadline, "processes are still running"
            time.sleep(0.02)
        return code


def group_alive(group: int) -> bool:
    """Whether any process of a group is running; zombies are not."""
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
    """Start children; kill those that are still running after the test."""
    children: list[Child] = []

    def start_child(*arguments: object) -> Child:
        children.append(Child(*arguments))
        return children[-1]

    yield start_child
    for child in children:
        if child.process.poll() is None:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()


def problems(folder: Path) -> list[Problem]:
    with Store(folder) as store:
        return list(check(store, postings_max=32))


def kill_and_resume(
    start: Callable[..., Child], crawl: Crawl, folder: Path, rng: random.Random, workers: int
) -> None:
    """Kill the ingest of two sweeps several times; compare the result with an uninterrupted run."""
    kills = 0
    for number, path in enumerate(crawl.files):
        batches = crawl.pages[number] // 16
        kills_max = kills + CHAIN // 2 if number == 0 else CHAIN
        while True:
            child = start("ingest", folder, number, workers, path)
            if kills < kills_max:
                child.read(rng.randint(0, max(1, batches // 2)))
                time.sleep(rng.random() * 0.04)
                child.end(signal.SIGKILL)
                kills += 1
                if not (folder / "CURRENT").exists():
                    continue  # killed before the state was created
                assert problems(folder) == [], f"after {kills} kills"
            else:
                assert child.end() == 0
                break
    with Store(folder) as store:
        assert list(check(store, postings_max=32)) == []
        assert_same_facts(facts(store), crawl.facts[-1], crawl.facts[-1])
        assert meta.counters(store) == crawl.counters
        summary = ingest(store, settings(), [str(crawl.files[-1])], "1", now=NOW)
    assert summary.status == "nothing to do"
    assert summary.pages == crawl.pages[-1]
    assert letters(folder) == crawl.letters


@pytest.mark.parametrize("seed", range(SUITE // CHAIN))
def test_killed_while_ingesting(seed: int, start: Callable[..., Child], crawl: Crawl, tmp_path: Path) -> None:
    kill_and_resume(start, crawl, tmp_path / "state", random.Random(seed), workers=2 if seed == 0 else 1)


def test_killed_while_ingesting_real_pages(start: Callable[..., Child], real_crawl: Crawl, tmp_path: Path) -> None:
    kill_and_resume(start, real_crawl, tmp_path / "state", random.Random(1), workers=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 100 + LONG // CHAIN))
def test_killed_many_times_more(seed: int, start: Callable[..., Child], crawl: Crawl, tmp_path: Path) -> None:
    kill_and_resume(start, crawl, tmp_path / "state", random.Random(seed), workers=1 + seed % 3)


class Removal(NamedTuple):
    """A removal that is killed: the state that it starts from, and the states after it without an interruption."""

    kind: str
    target: str  # a sweep or a URL
    start: Path
    facts: Facts


URL = "https://a.org/x"


def finish_removal(folder: Path, kind: str, target: str) -> None:
    """Remove everything at once, in this process."""
    with Store(folder) as store:
        sweep = sweeps.named(store, target)
        if kind == "forget":
            commit_removals(forget_url(store, url_key(target)), store.write)
        elif sweep is not None:
            commit_removals(cancel_sweep(store, sweep), store.write)


@pytest.fixture(scope="session")
def removals(crawl: Crawl, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Removal]:
    """Return a removal of each kind: a sweep of many clusters, and a URL whose versions belong to one cluster."""
    rng, base = random.Random(3), words(random.Random(2), 100)
    texts = [" ".join(variant(rng, base, 2)) for _ in range(120)]
    lines = [page(URL if n % 4 else f"https://b.org/{n}", text, NOW + n) for n, text in enumerate(texts)]
    results = {}
    for kind, target in (("cancel", "1"), ("forget", URL)):
        folder = tmp_path_factory.mktemp(kind)
        files = crawl.files if kind == "cancel" else [jsonl(folder / "versions.jsonl", lines)]
        with Store(folder / "start") as store:
            for number, path in enumerate(files):
                ingest(store, settings(), [str(path)], str(number), now=NOW)
        shutil.copytree(folder / "start", folder / "whole")
        finish_removal(folder / "whole", kind, target)
        with Store(folder / "whole") as store:
            results[kind] = Removal(kind, target, folder / "start", facts(store))
            assert results[kind].facts[Family.EDGES], "the test needs clusters that remain"
    return results


def kill_removals(
    start: Callable[..., Child], removal: Removal, folder: Path, rng: random.Random, kills: int, resume: str
) -> None:
    """Kill a removal several times, at any of its commits; finish it, and compare it with an uninterrupted one."""
    shutil.copytree(removal.start, folder)
    with Store(folder) as store:
        captures_before = len(list(store.scan(Family.CAPTURES)))
    for kill in range(1, kills + 1):
        child = start(removal.kind, folder, removal.target)
        assert child.read(1) == [b"ready"]
        child.read(rng.randint(0, 10))
        time.sleep(rng.random() * 0.02)
        child.end(signal.SIGKILL)
        assert problems(folder) == [], f"after {kill} kills"
    if resume == "same command":
        assert start(removal.kind, folder, removal.target).end() == 0
    else:
        with Store(folder) as store:
            commit_removals(finish_interrupted_removals(store), store.write)
        finish_removal(folder, removal.kind, removal.target)  # needed if no kill came after the first commit
    with Store(folder) as store:
        assert list(check(store, postings_max=32)) == []
        assert_same_facts(facts(store), removal.facts, removal.facts)
        assert len(list(store.scan(Family.CAPTURES))) < captures_before


RESUMES = ("same command", "next writer")


@pytest.mark.parametrize("resume", RESUMES)
@pytest.mark.parametrize("kind", ["cancel", "forget"])
def test_killed_while_removing(
    kind: str, resume: str, start: Callable[..., Child], removals: dict[str, Removal], tmp_path: Path
) -> None:
    kill_removals(start, removals[kind], tmp_path / "state", random.Random(resume), 3, resume)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(LONG // CHAIN // 2))
@pytest.mark.parametrize("kind", ["cancel", "forget"])
def test_killed_many_times_while_removing(
    kind: str, seed: int, start: Callable[..., Child], removals: dict[str, Removal], tmp_path: Path
) -> None:
    kill_removals(start, removals[kind], tmp_path / "state", random.Random(seed), CHAIN, RESUMES[seed % 2])


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
    """Send SIGINT to the command and all its workers, as a terminal does."""
    folder, config = tmp_path / "state", tmp_path / "settings.toml"
    config.write_text(f"[ingest]\nworkers = {workers}\nworkers_from_bytes = 0\nbatch_pages = 4\n")
    ingesting = ["ingest", str(crawl.files[0]), "--sweep", "0", "--json"]
    child = command(folder, config, *ingesting)
    deadline = time.monotonic() + 60
    while not (folder / "dead-letters.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert b"Traceback" not in err
    assert out == b""
    while group_alive(child.pid):
        assert time.monotonic() < deadline, "processes are still running"
        time.sleep(0.02)
    assert problems(folder) == []
    child = command(folder, config, *ingesting)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    summary: dict[str, Any] = json.loads(out)
    assert summary["status"] == "resumed"
    assert summary["pages"] == crawl.pages[0]
    with Store(folder) as store:
        families = (Family.CAPTURES, Family.DOCUMENTS, Family.EDGES, Family.PARENTS, Family.MEMBERS)
        assert_same_facts(facts(store), crawl.facts[0], families)
    assert letters(folder) == [letter for letter in crawl.letters if json.loads(letter)["sweep"] == "0"]


def test_a_killed_worker_ends_the_ingest_with_an_error_message(crawl: Crawl, tmp_path: Path) -> None:
    folder, config = tmp_path / "state", tmp_path / "settings.toml"
    config.write_text("[ingest]\nworkers = 2\nworkers_from_bytes = 0\nbatch_pages = 2\n")
    child = command(folder, config, "ingest", str(crawl.files[0]), "--sweep", "0")
    deadline = time.monotonic() + 60
    killed: list[int] = []
    while not killed and time.monotonic() < deadline:
        if (folder / "dead-letters.jsonl").exists():
            tasks = Path(f"/proc/{child.pid}/task").glob("*/children")
            children = {int(pid) for task in tasks for pid in task.read_text().split()}
            killed = [p for p in children if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()][:1]
        time.sleep(0.002)
    os.kill(killed[0], signal.SIGKILL)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 2, err
    assert b"a process that sketches pages was killed" in err
    assert b"Traceback" not in err
    assert problems(folder) == []

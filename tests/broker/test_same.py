"""The same answers as the embedded engine's: of real sites, for any number of partitions and workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state.errors import LostfoundError
from state.families import Family
from state.model import SweepState
from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.kafka.rows.worker_client import WorkerClient, token_from_environment
from streams.settings import load
from tests.broker.answers import Answers, answers, differences
from tests.broker.running import of_folders

SETTLED_SECONDS_MAX = 300.0
ASKED_EVERY = 16  # over HTTP, of the missing URLs: each takes some hundred round trips


def sweeps_of(shared_data: Path, site: str) -> dict[str, Path]:
    return {path.name.split(".")[0]: path for path in sorted((shared_data / "moves" / site).glob("sweep-*.zst"))}


@pytest.fixture(scope="session")
def embedded_answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Answers]:
    """What the embedded engine answers, by the settings of a file."""
    known: dict[tuple[str, str, int], Answers] = {}

    def asked(sweeps: dict[str, Path], config: Path, every: int) -> Answers:
        key = (config.read_text(), str(sorted(sweeps.values())), every)
        if key not in known:
            settings = load(config)
            with Store(tmp_path_factory.mktemp("embedded")) as store:
                for name, path in sweeps.items():
                    ingest(store, settings, [str(path)], name, now=1_000)
                known[key] = answers(View(store), settings, every=every)
        return known[key]

    return asked


def settle(url: str, sweeps: int) -> None:
    """Wait until every sweep is committed."""
    until = time.monotonic() + SETTLED_SECONDS_MAX
    while True:
        states: object
        try:
            states = [
                sweep.state for sweep in View(WorkerClient(url, 30.0, token_from_environment()).store()).sweeps()
            ]
        except LostfoundError as error:
            states = error  # partitions are changing hands
        if states == [SweepState.COMMITTED] * sweeps:
            return
        assert time.monotonic() < until, states
        time.sleep(0.3)


@pytest.mark.long
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("partitions", [1, 3, 8])
@pytest.mark.parametrize("site", ["flink", "symfony"])
def test_every_site_partition_and_worker(
    collection: Callable[..., Any],
    embedded_answers: Callable[..., Answers],
    shared_data: Path,
    site: str,
    partitions: int,
    workers: int,
    limits: bool,
) -> None:
    made = collection(partitions, answer_seconds_max=20.0, limits=limits)
    same(made, embedded_answers, sweeps_of(shared_data, site), workers)


def test_the_sweeps_of_a_real_site_give_the_same_answers(
    collection: Callable[..., Any], embedded_answers: Callable[..., Answers], shared_data: Path
) -> None:
    made = collection(8, answer_seconds_max=20.0)
    same(made, embedded_answers, sweeps_of(shared_data, "flink"), 3)


def same(made: Any, embedded_answers: Callable[..., Answers], sweeps: dict[str, Path], workers: int) -> None:
    """Have workers take the sweeps; ask some things over HTTP, then everything of the folders that they leave."""
    names = [f"w{number}" for number in range(workers)]
    urls = made.serve_all(names)
    for name, path in sweeps.items():
        made("publish", path, "--sweep", name)
    settle(urls[-1], len(sweeps))
    settings = load(made.config)
    whole = View(WorkerClient(urls[-1], 60.0, token_from_environment()).store())
    rows = dict(whole.store.scan(Family.SWEEPS, b"s"))
    compare(answers(whole, settings, every=ASKED_EVERY), embedded_answers(sweeps, made.config, ASKED_EVERY))
    made.stop()
    made.check(*names)
    with made.folders(*names) as stores:
        compare(
            answers(View(of_folders(stores, settings.scheme, rows)), settings),
            embedded_answers(sweeps, made.config, 1),
        )


def compare(there: Answers, here: Answers) -> None:
    assert len(here["find"]) > 10
    assert not (found := differences(here, there)), "\n".join(found)

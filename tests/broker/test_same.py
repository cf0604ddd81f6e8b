"""Test that both engines give the same answers on real sites, for any number of partitions and workers."""

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
from tests.broker.running import sharded_store

SETTLED_SECONDS_MAX = 300.0
SAMPLE_EVERY = 16  # of the missing URLs; one of them costs about a hundred round trips over HTTP


def sweeps_of(shared_data: Path, site: str) -> dict[str, Path]:
    return {path.name.split(".")[0]: path for path in sorted((shared_data / "moves" / site).glob("sweep-*.zst"))}


@pytest.fixture(scope="session")
def embedded_answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Answers]:
    """Return the answers of the embedded engine with the settings of a file."""
    cache: dict[tuple[str, str, int], Answers] = {}

    def compute(sweeps: dict[str, Path], config: Path, sample_every: int) -> Answers:
        key = (config.read_text(), str(sorted(sweeps.values())), sample_every)
        if key not in cache:
            settings = load(config)
            with Store(tmp_path_factory.mktemp("embedded")) as store:
                for name, path in sweeps.items():
                    ingest(store, settings, [str(path)], name, now=1_000)
                cache[key] = answers(View(store), settings, sample_every=sample_every)
        return cache[key]

    return compute


def settle(url: str, sweeps: int) -> None:
    """Wait until all sweeps are committed."""
    deadline = time.monotonic() + SETTLED_SECONDS_MAX
    while True:
        states: object
        try:
            states = [
                sweep.state for sweep in View(WorkerClient(url, 30.0, token_from_environment()).store()).sweeps()
            ]
        except LostfoundError as error:
            states = error  # a rebalance is in progress
        if states == [SweepState.COMMITTED] * sweeps:
            return
        assert time.monotonic() < deadline, states
        time.sleep(0.3)


@pytest.mark.long
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("partitions", [1, 3, 8])
@pytest.mark.parametrize("site", ["flink", "symfony"])
def test_every_number_of_partitions_and_workers_gives_the_same_answers(
    make_collection: Callable[..., Any],
    embedded_answers: Callable[..., Answers],
    shared_data: Path,
    site: str,
    partitions: int,
    workers: int,
    limits: bool,
) -> None:
    collection = make_collection(partitions, answer_seconds_max=20.0, limits=limits)
    check_answers(collection, embedded_answers, sweeps_of(shared_data, site), workers)


def test_the_sweeps_of_a_real_site_give_the_same_answers(
    make_collection: Callable[..., Any], embedded_answers: Callable[..., Answers], shared_data: Path
) -> None:
    collection = make_collection(8, answer_seconds_max=20.0)
    check_answers(collection, embedded_answers, sweeps_of(shared_data, "flink"), 3)


def check_answers(
    collection: Any, embedded_answers: Callable[..., Answers], sweeps: dict[str, Path], workers: int
) -> None:
    """Ingest the sweeps with workers; compare sampled answers over HTTP, and all answers from the workers' folders."""
    names = [f"w{number}" for number in range(workers)]
    urls = collection.serve_all(names)
    for name, path in sweeps.items():
        collection("publish", path, "--sweep", name)
    settle(urls[-1], len(sweeps))
    settings = load(collection.config)
    view = View(WorkerClient(urls[-1], 60.0, token_from_environment()).store())
    rows = dict(view.store.scan(Family.SWEEPS, b"s"))
    assert_same_answers(
        answers(view, settings, sample_every=SAMPLE_EVERY), embedded_answers(sweeps, collection.config, SAMPLE_EVERY)
    )
    collection.stop()
    collection.check(*names)
    with collection.folders(*names) as stores:
        assert_same_answers(
            answers(View(sharded_store(stores, settings.scheme, rows)), settings),
            embedded_answers(sweeps, collection.config, 1),
        )


def assert_same_answers(actual: Answers, expected: Answers) -> None:
    assert len(expected["find"]) > 10
    assert not (report := differences(expected, actual)), "\n".join(report)

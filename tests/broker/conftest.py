"""Fixtures on a real broker; what runs on it is in `tests.broker.running`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state.store import Store
from state.view import View
from streams.settings import load
from tests.broker.running import CONFIG, UNLIMITED, Clusters, Collection, broker_on, clusters_of, free_port


@pytest.fixture(scope="session", autouse=True)
def token() -> Iterator[str]:
    """The token of all workers and commands, without which nothing can be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOSTFOUND_TOKEN", "the-token-of-the-tests")
        yield "the-token-of-the-tests"


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The broker that KAFKA_BOOTSTRAP names, or one of our own for this run."""
    if named := os.environ.get("KAFKA_BOOTSTRAP"):
        yield named
        return
    with broker_on(tmp_path_factory.mktemp("broker"), free_port()) as address:
        yield address


@pytest.fixture
def collection(tmp_path: Path, bootstrap: str) -> Iterator[Callable[..., Collection]]:
    """Makes collections; whatever still runs at the end is killed."""
    made: list[Collection] = []

    def make(partitions: int, **more: Any) -> Collection:
        made.append(Collection(tmp_path, bootstrap, partitions, **more))
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Path]], Clusters]:
    """The clusters of the embedded engine for sweeps by name, by the same settings."""
    known: dict[tuple[str, ...], Clusters] = {}
    config = tmp_path_factory.mktemp("settings") / "lostfound.toml"
    config.write_text(CONFIG.format(take_pages=256, answer_seconds_max=2.0) + UNLIMITED)
    settings = load(config)

    def clusters(sweeps: dict[str, Path]) -> Clusters:
        from streams.engine.ingest import ingest

        if (key := tuple(sweeps)) not in known:
            with Store(tmp_path_factory.mktemp("embedded")) as store:
                for name, path in sweeps.items():
                    ingest(store, settings, [str(path)], name, now=1_000)
                known[key] = clusters_of(View(store))
        return known[key]

    return clusters

"""Fixtures of tests with a real broker and real processes (`tests.broker.running`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state.store import Store
from state.view import View
from streams.settings import load
from tests.broker.running import CONFIG, UNLIMITED, Clusters, Collection, clusters_of, free_port, running_broker


@pytest.fixture(scope="session", autouse=True)
def token() -> Iterator[str]:
    """The token of all workers and commands; changes of the state need it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOSTFOUND_TOKEN", "the-token-of-the-tests")
        yield "the-token-of-the-tests"


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker: KAFKA_BOOTSTRAP, or a broker for this run of the tests."""
    if named := os.environ.get("KAFKA_BOOTSTRAP"):
        yield named
        return
    with running_broker(tmp_path_factory.mktemp("broker"), free_port()) as address:
        yield address


@pytest.fixture
def make_collection(tmp_path: Path, bootstrap: str) -> Iterator[Callable[..., Collection]]:
    """Create collections; kill their remaining processes at the end."""
    collections: list[Collection] = []

    def make(partitions: int, **options: Any) -> Collection:
        collections.append(Collection(tmp_path, bootstrap, partitions, **options))
        return collections[-1]

    yield make
    for collection in collections:
        collection.kill()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Path]], Clusters]:
    """Return the embedded engine's clusters of some sweeps, with the same settings."""
    cache: dict[tuple[str, ...], Clusters] = {}
    config = tmp_path_factory.mktemp("settings") / "lostfound.toml"
    config.write_text(CONFIG.format(take_pages=256, answer_seconds_max=2.0) + UNLIMITED)
    settings = load(config)

    def clusters(sweeps: dict[str, Path]) -> Clusters:
        from streams.engine.ingest import ingest

        if (key := tuple(sweeps)) not in cache:
            with Store(tmp_path_factory.mktemp("embedded")) as store:
                for name, path in sweeps.items():
                    ingest(store, settings, [str(path)], name, now=1_000)
                cache[key] = clusters_of(View(store))
        return cache[key]

    return clusters

"""Test that clusters equal those of the embedded engine after faults of workers, broker and folders under load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.chaos import Chaos, corpus, embedded_clusters, run
from tests.broker.running import require_archives

SEED = int(os.environ.get("LOSTFOUND_CHAOS_SEED", "7"))
RANDOM_STEPS = 2


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    require_archives()
    chaos_run = Chaos(tmp_path, SEED)
    yield chaos_run
    chaos_run.close()


def test_clusters_equal_the_embedded_engine_after_any_faults(chaos: Chaos, tmp_path: Path) -> None:
    sweeps = corpus(tmp_path / "corpus", SEED, sweeps=3, pages=150)
    # Every fault once, in a random order, and some more.
    steps: list[str | None] = ["kill", "add", "broker", "stop", "wipe", "twice", *[None] * RANDOM_STEPS]
    chaos.rng.shuffle(steps)
    faults: list[str] = []
    try:
        faults.extend(run(chaos, sweeps, steps))
        chaos.settle()
        assert chaos.clusters() == embedded_clusters(tmp_path / "embedded", chaos.collection.config, sweeps)
    except BaseException:
        print(f"\nto replay: LOSTFOUND_CHAOS_SEED={SEED} pytest {Path(__file__).name}; {faults} in {tmp_path}")
        raise

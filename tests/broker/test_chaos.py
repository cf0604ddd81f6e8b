"""Whatever happens to workers, broker and folders under load: once it settles, all is done and the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.chaos import Chaos, corpus, expected, run
from tests.broker.running import need_archives

SEED = int(os.environ.get("LOSTFOUND_CHAOS_SEED", "7"))
RANDOM_STEPS = 2


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    need_archives()
    made = Chaos(tmp_path, SEED)
    yield made
    made.close()


def test_after_anything_the_clusters_are_the_embedded_engines(chaos: Chaos, tmp_path: Path) -> None:
    sweeps = corpus(tmp_path / "corpus", SEED, sweeps=3, pages=150)
    # Each thing once, in an order of the seed, and some more.
    steps: list[str | None] = ["kill", "add", "broker", "stop", "wipe", "twice", *[None] * RANDOM_STEPS]
    chaos.rng.shuffle(steps)
    happened: list[str] = []
    try:
        happened.extend(run(chaos, sweeps, steps))
        chaos.settle()
        assert chaos.clusters() == expected(tmp_path / "embedded", chaos.made.config, sweeps)
    except BaseException:
        print(f"\nto replay: LOSTFOUND_CHAOS_SEED={SEED} pytest {Path(__file__).name}; {happened} in {tmp_path}")
        raise

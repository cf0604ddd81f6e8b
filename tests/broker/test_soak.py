"""Test a short soak: each fault that the chaos test lacks happens once, and a round is resumed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.answers import differences
from tests.broker.chaos import corpus
from tests.broker.running import require_archives
from tests.broker.soak_faults import MORE_STEPS, SoakChaos

SEED = int(os.environ.get("LOSTFOUND_CHAOS_SEED", "7"))


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[SoakChaos]:
    require_archives()
    soak = SoakChaos(tmp_path, SEED, take_pages=16)
    yield soak
    soak.close()


@pytest.mark.long
def test_rounds_of_faults_leave_the_answers_of_the_embedded_engine(chaos: SoakChaos, tmp_path: Path) -> None:
    sweeps = corpus(tmp_path / "corpus", SEED, sweep_count=2, pages=100)
    steps = chaos.rng.sample(MORE_STEPS, len(MORE_STEPS))
    for (name, path), round_steps in zip(sweeps.items(), (steps[::2], steps[1::2]), strict=True):
        chaos.publish(name, path)
        for step in round_steps:
            print(chaos.step(step))
        chaos.settle()
        expected, actual = chaos.compare(1)
        assert not (report := differences(expected, actual)), f"{round_steps} with seed {SEED}:\n" + "\n".join(report)
        chaos.expire()
        chaos.resume()

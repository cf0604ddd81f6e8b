"""Test that all answers equal those of the embedded engine after faults of workers, broker and folders under load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.answers import differences
from tests.broker.chaos import Chaos, corpus, embedded_answers, run
from tests.broker.running import require_archives

SEED = int(os.environ.get("LOSTFOUND_CHAOS_SEED", "7"))
SNAPSHOT_RECORDS = 2  # between two snapshots of a partition, so that changelogs are trimmed all the time


@pytest.fixture(params=[None, pytest.param(SNAPSHOT_RECORDS, marks=pytest.mark.long)], ids=["changelog", "snapshots"])
def chaos(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Chaos]:
    """A cluster that keeps its changelogs, and one that trims them."""
    require_archives()
    chaos_run = Chaos(tmp_path, SEED, snapshot_records=request.param)
    yield chaos_run
    chaos_run.close()


def test_answers_equal_the_embedded_engine_after_any_faults(chaos: Chaos, tmp_path: Path) -> None:
    sweeps = corpus(tmp_path / "corpus", SEED, sweep_count=3, pages=150)
    # Every fault once, in a random order. `make soak-kafka` repeats them for an hour.
    steps = ["kill", "add", "broker", "stop", "freeze", "wipe", "twice"]
    chaos.rng.shuffle(steps)
    faults: list[str] = []
    try:
        faults.extend(run(chaos, sweeps, steps))
        chaos.settle()
        actual, names = chaos.answers()
        expected = embedded_answers(tmp_path / "embedded", chaos.collection.config, sweeps, names)
        assert not (report := differences(expected, actual)), "\n".join(report)
        if chaos.trims_changelogs:
            assert max(chaos.changelog_starts()) > 0
    except BaseException:
        print(f"\nto replay: LOSTFOUND_CHAOS_SEED={SEED} pytest {Path(__file__).name}; {faults} in {tmp_path}")
        raise

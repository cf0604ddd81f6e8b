"""Operators spread over partitions, with crashes, duplicates and moves, give what the embedded engine gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from state.changes import Changes
from streams.operators import join
from tests import memory
from tests.simulation.histories import joins, limited, pages
from tests.simulation.simulator import Copy, Simulation

SUITE = 200
LONG = 1_000
BATCH = 20


def batches(first: int, last: int) -> list[range]:
    return [range(at, at + BATCH) for at in range(first, last, BATCH)]


def label(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


@pytest.mark.parametrize("seeds", batches(0, SUITE), ids=label)
def test_pages(seeds: range) -> None:
    for seed in seeds:
        pages(seed)


@pytest.mark.parametrize("seeds", batches(0, SUITE), ids=label)
def test_joins(seeds: range) -> None:
    for seed in seeds:
        joins(seed)


def test_limits() -> None:
    for seed in range(BATCH):
        limited(seed)


def changelog_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Simulation, "steps", ("_log", "_write", "_send_next"))


def no_outputs_again(patch: pytest.MonkeyPatch) -> None:
    """A batch is taken for done once its changes are written."""
    patch.setattr(Simulation, "steps", ("_log", "_write"))


def last_write_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory, "merge", lambda _family, _old, new: new)


def transfers_kept_by_former_roots(patch: pytest.MonkeyPatch) -> None:
    step = join.transfer_step
    patch.setattr(join, "transfer_step", lambda message, _parent: step(message, None))


def copies_on_disk_trusted(patch: pytest.MonkeyPatch) -> None:
    def catch_up(copy: Copy, changelog: list[Changes]) -> None:
        for record in changelog if copy.applied == 0 else []:
            copy.rows.merge(record)
        copy.applied = len(changelog)

    patch.setattr(Copy, "catch_up", catch_up)


@pytest.mark.parametrize(
    "broken",
    [
        changelog_first,
        no_outputs_again,
        last_write_wins,
        transfers_kept_by_former_roots,
        copies_on_disk_trusted,
    ],
)
def test_broken_rules_are_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError) as found:
        test_pages(range(SUITE))
    assert "replay: .venv/bin/python -m tests.simulation pages" in "".join(found.value.__notes__)


@pytest.mark.long
@pytest.mark.parametrize("seeds", batches(SUITE, SUITE + LONG), ids=label)
def test_many_more(seeds: range) -> None:
    for seed in seeds:
        pages(seed)
        joins(seed)
        limited(seed)

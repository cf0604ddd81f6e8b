"""The life of a sweep: every phase with every step."""

from __future__ import annotations

from itertools import product

import pytest

from state.errors import LostfoundError
from state.model import Sweep, SweepState
from state.sweep_life import TRANSITIONS, Phase, Step, SweepLife, apply, check_name

NOW = 1_700_000_000_000
TO_PHASE = {
    Phase.OPEN: [],
    Phase.COMMIT_REQUESTED: [Step.REQUEST_COMMIT],
    Phase.COMMITTED: [Step.COMMIT],
    Phase.MOVES_PUBLISHED: [Step.COMMIT, Step.PUBLISH_MOVES],
    Phase.CANCELLING: [Step.CANCEL],
    Phase.CANCELLED: [Step.CANCEL, Step.FINISH_CANCEL],
}


def after(life: SweepLife | None, step: Step, number: int = 0, captures: int = 0) -> SweepLife:
    return apply(life, step, "2026-11", time=NOW, number=number, captures=captures)


def life_in(phase: Phase) -> SweepLife | None:
    if phase is Phase.ABSENT:
        return None
    life = after(None, Step.OPEN, number=1)
    for step in TO_PHASE[phase]:
        life = after(life, step, captures=7 if step is Step.COMMIT else 0)
    return life


@pytest.mark.parametrize(("phase", "step"), list(product(Phase, Step)))
def test_the_table_decides_every_step(phase: Phase, step: Step) -> None:
    life, number = life_in(phase), 2 if step is Step.OPEN else 0
    if (phase, step) in TRANSITIONS:
        assert after(life, step, number).phase is TRANSITIONS[phase, step]
    else:
        with pytest.raises(LostfoundError, match="'2026-11'"):
            after(life, step, number)


def test_opening_records_the_name_the_number_and_the_time() -> None:
    life = after(None, Step.OPEN, number=3)
    assert life.sweep == Sweep(number=3, name="2026-11", state=SweepState.OPEN, opened_time=NOW)


def test_committing_records_the_time_and_the_captures() -> None:
    life = life_in(Phase.COMMITTED)
    assert life is not None
    assert life.sweep.committed_time == NOW
    assert life.sweep.captures == 7


def test_a_requested_commit_is_shown_as_open() -> None:
    life = life_in(Phase.COMMIT_REQUESTED)
    assert life is not None
    assert life.sweep.state is SweepState.OPEN


def test_a_cancelled_sweep_has_no_captures() -> None:
    committed = life_in(Phase.COMMITTED)
    cancelled = after(after(committed, Step.CANCEL), Step.FINISH_CANCEL)
    assert cancelled.sweep.captures == 0


def test_a_cancelled_name_is_free_but_its_number_is_not() -> None:
    cancelled = life_in(Phase.CANCELLED)
    assert after(cancelled, Step.OPEN, number=2).sweep.number == 2
    with pytest.raises(AssertionError, match="never used twice"):
        after(cancelled, Step.OPEN, number=1)


def test_a_late_step_of_another_sweep_with_the_name_is_refused() -> None:
    life = after(None, Step.OPEN, number=2)
    with pytest.raises(LostfoundError, match="has number 2, not 1: the name was opened again"):
        after(life, Step.COMMIT, number=1)


@pytest.mark.parametrize("state", SweepState)
def test_a_stored_sweep_resumes_its_life(state: SweepState) -> None:
    sweep = Sweep(number=1, name="2026-11", state=state, opened_time=NOW)
    assert SweepLife.of(sweep).phase.state is state
    assert SweepLife.of(sweep).phase.value == state.name.lower()


@pytest.mark.parametrize(
    ("phase", "step", "message"),
    [
        (Phase.ABSENT, Step.CANCEL, "sweep '2026-11' does not exist"),
        (Phase.OPEN, Step.OPEN, "there is already a sweep '2026-11'"),
        (Phase.COMMITTED, Step.COMMIT, "sweep '2026-11' is committed and cannot be committed"),
        (Phase.CANCELLED, Step.CANCEL, "sweep '2026-11' is cancelled and cannot be cancelled"),
        (Phase.OPEN, Step.PUBLISH_MOVES, "sweep '2026-11' is open and cannot publish its moves"),
    ],
)
def test_a_refusal_names_the_sweep_and_its_phase(phase: Phase, step: Step, message: str) -> None:
    with pytest.raises(LostfoundError, match=message):
        after(life_in(phase), step, number=1 if step is Step.OPEN else 0)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "tab\t", "\x1b[31m"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(LostfoundError, match="is not a valid sweep name"):
        check_name(name)
    with pytest.raises(LostfoundError, match="is not a valid sweep name"):
        apply(None, Step.OPEN, name, number=1)

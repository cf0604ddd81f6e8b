"""The life cycle of a sweep: its phases, and the steps that lead from one phase to another.

A sweep is one named pass of a crawl: opened, filled with pages, then committed or cancelled. `TRANSITIONS` lists the
allowed steps of both engines, and `apply` refuses all others. No other code chooses the state of a sweep.

- Only a committed sweep can make a URL missing. The embedded engine commits in one step. With Kafka, a commit is
  first requested. It takes effect once every page that was in the topic at that time has passed all stages.
- A sweep is cancelled in two steps, because removing its captures takes many writes. In between, it is hidden from
  all answers. The removal resumes after a crash, so CANCEL can be repeated. REQUEST_COMMIT can be repeated too.
- The name of a cancelled sweep can be used again, but its number cannot: opening the name creates a new sweep.
- A step may contain the number of its sweep. A Kafka worker may write a step late, after the sweep was cancelled and
  a new one was opened under the same name. Because of the number, `apply` refuses this step.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from state.errors import LostfoundError
from state.model import Sweep, SweepState

NAME_CHARACTERS_MAX = 200
_HINT = "`lostfound sweep list` shows all sweeps"


class Phase(Enum):
    """The phase of a sweep."""

    ABSENT = "absent"
    OPEN = "open"
    COMMIT_REQUESTED = "commit requested"  # only with Kafka
    COMMITTED = "committed"
    MOVES_PUBLISHED = "moves published"  # only with Kafka
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def state(self) -> SweepState:
        """The state that is stored for a sweep in this phase."""
        if self is Phase.COMMIT_REQUESTED:
            return SweepState.OPEN
        return SweepState.COMMITTED if self is Phase.MOVES_PUBLISHED else SweepState[self.name]


class Step(Enum):
    OPEN = auto()
    REQUEST_COMMIT = auto()
    COMMIT = auto()
    PUBLISH_MOVES = auto()
    CANCEL = auto()
    FINISH_CANCEL = auto()


TRANSITIONS: dict[tuple[Phase, Step], Phase] = {
    (Phase.ABSENT, Step.OPEN): Phase.OPEN,
    (Phase.OPEN, Step.REQUEST_COMMIT): Phase.COMMIT_REQUESTED,
    (Phase.OPEN, Step.COMMIT): Phase.COMMITTED,
    (Phase.OPEN, Step.CANCEL): Phase.CANCELLING,
    (Phase.COMMIT_REQUESTED, Step.REQUEST_COMMIT): Phase.COMMIT_REQUESTED,
    (Phase.COMMIT_REQUESTED, Step.COMMIT): Phase.COMMITTED,
    (Phase.COMMIT_REQUESTED, Step.CANCEL): Phase.CANCELLING,
    (Phase.COMMITTED, Step.PUBLISH_MOVES): Phase.MOVES_PUBLISHED,
    (Phase.COMMITTED, Step.CANCEL): Phase.CANCELLING,
    (Phase.MOVES_PUBLISHED, Step.CANCEL): Phase.CANCELLING,
    (Phase.CANCELLING, Step.CANCEL): Phase.CANCELLING,
    (Phase.CANCELLING, Step.FINISH_CANCEL): Phase.CANCELLED,
    (Phase.CANCELLED, Step.OPEN): Phase.OPEN,
}
_ACTIONS = {
    Step.REQUEST_COMMIT: "be committed",
    Step.COMMIT: "be committed",
    Step.PUBLISH_MOVES: "publish its moves",
    Step.CANCEL: "be cancelled",
    Step.FINISH_CANCEL: "become cancelled",
}


class SweepLife(msgspec.Struct, frozen=True):
    """A sweep and its phase."""

    sweep: Sweep
    phase: Phase

    @classmethod
    def of(cls, sweep: Sweep) -> SweepLife:
        """Return a stored sweep with its phase."""
        return cls(sweep, Phase[sweep.state.name])


def apply(
    life: SweepLife | None, step: Step, name: str, *, time: int = 0, number: int = 0, captures: int = 0
) -> SweepLife:
    """Return a sweep after a step. `life` is the last sweep with this name, or None.

    OPEN needs the number of the new sweep; in other steps, `number` must be 0 or the number of the sweep. COMMIT
    needs the number of captures. Raise LostfoundError for an invalid name, a forbidden step or a wrong number.
    """
    phase = life.phase if life is not None else Phase.ABSENT
    next_phase = TRANSITIONS.get((phase, step))
    if step is Step.OPEN:
        if next_phase is None:
            raise LostfoundError(f"there is already a sweep {name!r}", _HINT)
        check_name(name)
        assert number > (life.sweep.number if life is not None else 0), "a number is never used twice"
        sweep = Sweep(number=number, name=name, state=SweepState.OPEN, opened_time=time)
        return SweepLife(sweep, next_phase)
    if life is None:
        raise LostfoundError(f"sweep {name!r} does not exist", _HINT)
    if next_phase is None:
        raise LostfoundError(f"sweep {name!r} is {phase.value} and cannot {_ACTIONS[step]}", _HINT)
    sweep = life.sweep
    if number not in (0, sweep.number):
        raise LostfoundError(
            f"sweep {name!r} has number {sweep.number}, not {number}: the name was opened again", _HINT
        )
    changed: dict[str, int] = {}
    if step is Step.COMMIT:
        changed = {"committed_time": time, "captures": captures}
    elif step is Step.FINISH_CANCEL:
        changed = {"captures": 0}
    return SweepLife(msgspec.structs.replace(sweep, state=next_phase.state, **changed), next_phase)


def is_valid_name(name: str) -> bool:
    """Return whether a sweep can have this name: 1 to 200 printable characters."""
    return 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable()


def check_name(name: str) -> None:
    if not is_valid_name(name):
        hint = f"use 1 to {NAME_CHARACTERS_MAX} printable characters, such as 2026-11"
        raise LostfoundError(f"{name!r} is not a valid sweep name", hint)

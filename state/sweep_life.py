"""The life of a sweep: one table of phases and steps that both engines execute.

Theory of operation
===================
A sweep is one named pass of a crawl. It is opened, filled with pages, and then committed or cancelled. Only a
committed sweep can make a URL missing. Everything that decides which step may follow which is in this file; the code
that stores, sends or displays sweeps calls `apply` and never sets a state itself.

A sweep is in one *phase*, and `TABLE` says which *step* leads from it to which other phase:

    absent ─OPEN─▶ open ─REQUEST_COMMIT─▶ commit requested ─COMMIT─▶ committed ─PUBLISH_MOVES─▶ moves published
                    └──────────────COMMIT (embedded engine)────────────▲

    open, commit requested, committed, moves published ──CANCEL──▶ cancelling ──FINISH_CANCEL──▶ cancelled

A step that is not in the table is refused with a LostfoundError.

- The embedded engine commits in one step, from *open*. With Kafka a commit is requested first, and takes effect when
  every page that was in the topic at the request has passed through all stages. Repeating the request is allowed.
- Cancelling takes two steps, because removing a sweep's captures takes many writes. In *cancelling* the sweep is
  hidden from all answers; after a crash the removal resumes, so repeating CANCEL is allowed.
- A cancelled sweep gives its name back, but never its number: opening the name again makes a new sweep.
- A step may carry the number of its sweep. It is refused when another sweep has the name by now: a Kafka worker may
  write a step late, after its sweep was cancelled and the name was opened again.

The phases *commit requested* and *moves published* exist only with Kafka, in the log of sweeps. Stored rows
and answers contain the state (`Phase.state`), which does not tell them from *open* and *committed*.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from state.errors import LostfoundError
from state.model import Sweep, SweepState

NAME_CHARACTERS_MAX = 200


class Phase(Enum):
    """Where a sweep is in its life."""

    ABSENT = "absent"
    OPEN = "open"
    COMMIT_REQUESTED = "commit requested"
    COMMITTED = "committed"
    MOVES_PUBLISHED = "moves published"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def state(self) -> SweepState:
        """The state that is stored and shown."""
        return _STATES[self]


_STATES = {
    Phase.OPEN: SweepState.OPEN,
    Phase.COMMIT_REQUESTED: SweepState.OPEN,
    Phase.COMMITTED: SweepState.COMMITTED,
    Phase.MOVES_PUBLISHED: SweepState.COMMITTED,
    Phase.CANCELLING: SweepState.CANCELLING,
    Phase.CANCELLED: SweepState.CANCELLED,
}
_PHASES = {state: phase for phase, state in reversed(_STATES.items())}


class Step(Enum):
    """What can happen to a sweep."""

    OPEN = auto()
    REQUEST_COMMIT = auto()
    COMMIT = auto()
    PUBLISH_MOVES = auto()
    CANCEL = auto()
    FINISH_CANCEL = auto()


TABLE: dict[tuple[Phase, Step], Phase] = {
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


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the sweep that has a name."""

    step: Step
    name: str
    time: int = 0  # ms since the epoch, UTC
    number: int = 0  # OPEN: of the new sweep; other steps: 0, or the number that the sweep of this name must have
    captures: int = 0  # COMMIT: how many captures the sweep has


class Life(msgspec.Struct, frozen=True):
    """A sweep and its phase."""

    sweep: Sweep
    phase: Phase

    @classmethod
    def of(cls, sweep: Sweep) -> Life:
        """Return the life of a stored sweep."""
        return cls(sweep, _PHASES[sweep.state])


def apply(life: Life | None, event: Event) -> Life:
    """Return the sweep after an event; `life` is the sweep that has the event's name, None when none has.

    Raises LostfoundError for a step that the table does not have, an invalid name, or another sweep's number.
    """
    phase = life.phase if life is not None else Phase.ABSENT
    next_phase = TABLE.get((phase, event.step))
    if next_phase is None:
        raise _refusal(phase, event)
    if event.step is Step.OPEN:
        check_name(event.name)
        assert event.number > (life.sweep.number if life is not None else 0), "a number is never used twice"
        return Life(
            Sweep(number=event.number, name=event.name, state=next_phase.state, opened=event.time), next_phase
        )
    assert life is not None, "the table has no other step for an absent sweep"
    sweep = life.sweep
    if event.number not in (0, sweep.number):
        raise LostfoundError(
            f"sweep {event.name!r} has number {sweep.number}, not {event.number}: the name was opened again",
            "`lostfound sweep list` shows all sweeps",
        )
    if event.step is Step.COMMIT:
        sweep = msgspec.structs.replace(sweep, committed=event.time, captures=event.captures)
    if event.step is Step.FINISH_CANCEL:
        sweep = msgspec.structs.replace(sweep, captures=0)
    return Life(msgspec.structs.replace(sweep, state=next_phase.state), next_phase)


def _refusal(phase: Phase, event: Event) -> LostfoundError:
    hint = "`lostfound sweep list` shows all sweeps"
    if phase is Phase.ABSENT:
        return LostfoundError(f"there is no sweep {event.name!r}", hint)
    if event.step is Step.OPEN:
        return LostfoundError(f"there is already a sweep {event.name!r}", hint)
    actions = {
        Step.REQUEST_COMMIT: "be committed",
        Step.COMMIT: "be committed",
        Step.PUBLISH_MOVES: "publish its moves",
        Step.CANCEL: "be cancelled",
        Step.FINISH_CANCEL: "become cancelled",
    }
    return LostfoundError(f"sweep {event.name!r} is {phase.value} and cannot {actions[event.step]}", hint)


def is_valid_name(name: str) -> bool:
    """Whether a sweep may have this name: 1 to 200 printable characters."""
    return 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable()


def check_name(name: str) -> None:
    """Raise LostfoundError for a name that no sweep may have."""
    if not is_valid_name(name):
        raise LostfoundError(
            f"{name!r} is not a valid sweep name",
            f"use 1 to {NAME_CHARACTERS_MAX} printable characters, such as 2026-11",
        )

"""Sweeps: their life, their number, and how many captures each host gave.

    key    "s" │ number 4                 value  JSON: name, state, opened, committed, captures
    key    "h" │ number 4 │ host key      value  count 8

A sweep is opened, filled, and committed or cancelled. Only a committed sweep can make a URL missing. Cancelling
first marks the sweep, then removes what it brought, so that a crash between finds the mark and goes on.
"""

from __future__ import annotations

import struct
from itertools import islice

import msgspec

from state.changes import Changes
from state.errors import LostfoundError, StateCorrupt
from state.families import Family
from state.model import Sweep, SweepState
from state.rows import RowReader

_KEY = struct.Struct(">cI")
_COUNT = struct.Struct(">Q")

# From a state, the states that may follow: the whole life of a sweep.
TRANSITIONS: dict[SweepState, frozenset[SweepState]] = {
    SweepState.OPEN: frozenset({SweepState.COMMITTED, SweepState.CANCELLING}),
    SweepState.COMMITTED: frozenset({SweepState.CANCELLING}),
    SweepState.CANCELLING: frozenset({SweepState.CANCELLED}),
    SweepState.CANCELLED: frozenset(),
}


class _Row(msgspec.Struct, frozen=True):
    name: str
    state: int
    opened: int
    committed: int = 0
    captures: int = 0


def all_sweeps(store: RowReader) -> list[Sweep]:
    """All sweeps, in order of number; cancelled ones too."""
    return [decode(key, value) for key, value in store.scan(Family.SWEEPS, b"s")]


def named(store: RowReader, name: str) -> Sweep | None:
    """The sweep of this name that is not cancelled; a cancelled name is free again."""
    held = (s for s in all_sweeps(store) if s.name == name and s.state is not SweepState.CANCELLED)
    return next(held, None)


def is_valid_name(name: str) -> bool:
    """Whether a sweep may have this name: 1 to 200 printable characters."""
    return 0 < len(name) <= 200 and name.isprintable()


def check_new(name: str, held: Sweep | None = None) -> None:
    """Raise LostfoundError when no sweep may be called so, or one is held under the name already."""
    if not is_valid_name(name):
        raise LostfoundError(f"{name!r} is no name for a sweep", "use 1 to 200 printable characters, such as 2026-11")
    if held is not None:
        raise LostfoundError(f"there is a sweep {name!r} already", "`lostfound sweep list` shows all")


def new(store: RowReader, name: str, now: int) -> Sweep:
    """The next sweep, not yet written; raises LostfoundError when the name is taken or unusable."""
    check_new(name, named(store, name))
    number = max((s.number for s in all_sweeps(store)), default=0) + 1
    return Sweep(number, name, SweepState.OPEN, opened=now)


def transition(sweep: Sweep, state: SweepState, now: int = 0) -> Sweep:
    """The sweep in its next state; raises LostfoundError for a step that its life does not have."""
    if state not in TRANSITIONS[sweep.state]:
        raise LostfoundError(
            f"sweep {sweep.name!r} is {sweep.state.name.lower()} and cannot become {state.name.lower()}",
            "`lostfound sweep list` shows the state of each",
        )
    committed = now if state is SweepState.COMMITTED else sweep.committed
    return msgspec.structs.replace(sweep, state=state, committed=committed)


def put(changes: Changes, sweep: Sweep) -> None:
    """Write a sweep's row."""
    row = _Row(sweep.name, int(sweep.state), sweep.opened, sweep.committed, sweep.captures)
    changes.put(Family.SWEEPS, _KEY.pack(b"s", sweep.number), msgspec.json.encode(row))


def decode(key: bytes, value: bytes) -> Sweep:
    """Unpack a sweep from its row."""
    try:
        row = msgspec.json.decode(value, type=_Row)
    except msgspec.DecodeError as error:
        raise StateCorrupt(f"not a sweep's row: {error}") from error
    _, number = _KEY.unpack(key)
    return Sweep(number, row.name, SweepState(row.state), row.opened, row.committed, row.captures)


def host_key(number: int, host: bytes) -> bytes:
    """The key of one host's count in one sweep."""
    return _KEY.pack(b"h", number) + host


def hosts(store: RowReader, number: int, start: bytes = b"", limit: int | None = None) -> dict[bytes, int]:
    """Captures a host key of one sweep, ascending, from the host `start` on; all of them or at most `limit`."""
    prefix = _KEY.pack(b"h", number)
    rows = islice(store.scan(Family.SWEEPS, prefix, prefix + start), limit)
    return {key[len(prefix) :]: _COUNT.unpack(value)[0] for key, value in rows}


def counted(store: RowReader) -> set[int]:
    """Numbers of the sweeps of which there are counts of hosts."""
    return {_KEY.unpack_from(key)[1] for key, _ in store.scan(Family.SWEEPS, b"h")}


def add_hosts(store: RowReader, changes: Changes, number: int, counts: dict[bytes, int]) -> None:
    """Add to the counts of hosts."""
    keys = [host_key(number, host) for host in counts]
    for key, held, more in zip(keys, store.get_many(Family.SWEEPS, keys), counts.values(), strict=True):
        count = more + (_COUNT.unpack(held)[0] if held else 0)
        changes.put(Family.SWEEPS, key, _COUNT.pack(count))


def host_count(store: RowReader, number: int, host: bytes) -> int:
    """Captures of one host in one sweep."""
    value = store.get(Family.SWEEPS, host_key(number, host))
    return int(_COUNT.unpack(value)[0]) if value else 0

"""The rows in which sweeps and their per-host capture counts are stored.

    key    "s" │ number, 4 bytes               value  JSON: name, state, opened, committed, captures
    key    "h" │ number, 4 bytes │ host key    value  count, 8 bytes

`state.sweep_life` decides which steps are allowed; this module reads and writes the result.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import Any

import msgspec

from state.changes import Changes
from state.errors import StateCorrupt
from state.families import Family
from state.model import Sweep, SweepState
from state.rows import RowReader, RowStore
from state.sweep_life import Step, SweepLife, apply

_KEY = struct.Struct(">cI")
_COUNT = struct.Struct(">Q")
_SWEEPS_COMPARED_MAX, _HOSTS_COMPARED_MAX = 16, 10_000  # limits of the search for the predecessor of a sweep


def all_sweeps(store: RowReader) -> list[Sweep]:
    """Return all sweeps in order of number, including cancelled ones."""
    return [decode(key, value) for key, value in store.scan(Family.SWEEPS, b"s")]


def named(store: RowReader, name: str) -> Sweep | None:
    """Return the sweep with this name that is not cancelled, or None."""
    sweeps = (s for s in all_sweeps(store) if s.name == name and s.state is not SweepState.CANCELLED)
    return next(sweeps, None)


def open_sweep(store: RowStore, name: str, now: int) -> Sweep:
    """Open a new sweep. Raise LostfoundError if the name is in use or invalid."""
    return _write(store, new_sweep(store, name, now))


def new_sweep(store: RowReader, name: str, now: int) -> Sweep:
    """Return a new open sweep without storing it. Raise LostfoundError if the name is in use or invalid."""
    sweep = named(store, name)
    number = max((s.number for s in all_sweeps(store)), default=0) + 1
    life = SweepLife.of(sweep) if sweep else None
    return apply(life, Step.OPEN, name, time=now, number=number).sweep


def commit(store: RowStore, sweep: Sweep, now: int) -> Sweep:
    """Commit an open sweep, which can then make URLs missing. Raise LostfoundError unless it is open."""
    captures = sum(captures_per_host(store, sweep.number).values())
    return _write(store, apply(SweepLife.of(sweep), Step.COMMIT, sweep.name, time=now, captures=captures).sweep)


def newer_predecessor(store: RowReader, sweep: Sweep) -> Sweep | None:
    """Return a sweep's predecessor if the two were opened in the wrong order; otherwise None.

    The order is wrong if the predecessor's newest capture is later than the sweep's. The predecessor is the most
    recently opened earlier sweep that has a host in common with this one. Sweeps without a common host do not affect
    each other. Sweeps whose newest capture is unknown are ignored. At most _SWEEPS_COMPARED_MAX sweeps, and
    _HOSTS_COMPARED_MAX hosts of each, are compared.
    """
    earlier_sweeps = [
        s
        for s in all_sweeps(store)
        if s.number < sweep.number and s.newest_time and s.state in (SweepState.OPEN, SweepState.COMMITTED)
    ]
    if not sweep.newest_time or not earlier_sweeps:
        return None
    hosts = captures_per_host(store, sweep.number, limit=_HOSTS_COMPARED_MAX).keys()
    for earlier in reversed(earlier_sweeps[-_SWEEPS_COMPARED_MAX:]):
        if hosts & captures_per_host(store, earlier.number, limit=_HOSTS_COMPARED_MAX).keys():
            return earlier if earlier.newest_time > sweep.newest_time else None
    return None


def _write(store: RowStore, sweep: Sweep) -> Sweep:
    changes = Changes()
    put(changes, sweep)
    store.write(changes, sync=True)
    return sweep


def begin_cancel(sweep: Sweep, changes: Changes) -> Sweep:
    """Hide a sweep from all answers before its captures are removed.

    Raise LostfoundError if the sweep is already cancelled.
    """
    cancelling = apply(SweepLife.of(sweep), Step.CANCEL, sweep.name).sweep
    if cancelling != sweep:
        put(changes, cancelling)
    return cancelling


def finish_cancel(store: RowReader, sweep: Sweep, changes: Changes) -> Sweep:
    """Release the name of a sweep once its captures have been removed, and delete its counts per host."""
    hosts = captures_per_host(store, sweep.number)
    changes.delete_all(Family.SWEEPS, [host_row_key(sweep.number, host) for host in hosts])
    cancelled = apply(SweepLife.of(sweep), Step.FINISH_CANCEL, sweep.name).sweep
    put(changes, cancelled)
    return cancelled


def put(changes: Changes, sweep: Sweep) -> None:
    fields = msgspec.to_builtins(sweep)
    changes.put(Family.SWEEPS, _KEY.pack(b"s", fields.pop("number")), msgspec.json.encode(fields))


def decode(key: bytes, value: bytes) -> Sweep:
    """Decode a sweep's row. Raise StateCorrupt if it is invalid."""
    _, number = _KEY.unpack(key)
    try:
        return msgspec.convert(msgspec.json.decode(value, type=dict[str, Any]) | {"number": number}, Sweep)
    except msgspec.DecodeError as error:
        raise StateCorrupt(f"invalid sweep row: {error}") from error


def host_row_key(number: int, host: bytes) -> bytes:
    return _KEY.pack(b"h", number) + host


def captures_per_host(
    store: RowReader, number: int, start: bytes = b"", limit: int | None = None
) -> dict[bytes, int]:
    """Return a dict from host key to the number of captures in a sweep.

    The dict contains at most `limit` hosts, beginning with the first host key that is not less than `start`.
    """
    key_prefix = host_row_key(number, b"")
    rows = islice(store.scan(Family.SWEEPS, key_prefix, key_prefix + start), limit)
    return {key[len(key_prefix) :]: _COUNT.unpack(value)[0] for key, value in rows}


def sweep_numbers_with_host_counts(store: RowReader) -> set[int]:
    """Return the numbers of the sweeps that have counts per host."""
    return {_KEY.unpack_from(key)[1] for key, _ in store.scan(Family.SWEEPS, b"h")}


def add_captures_per_host(store: RowReader, changes: Changes, number: int, counts: dict[bytes, int]) -> None:
    keys = [host_row_key(number, host) for host in counts]
    for key, stored, added in zip(keys, store.get_many(Family.SWEEPS, keys), counts.values(), strict=True):
        changes.put(Family.SWEEPS, key, _COUNT.pack(added + (_COUNT.unpack(stored)[0] if stored else 0)))


def captures_on_host(store: RowReader, number: int, host: bytes) -> int:
    value = store.get(Family.SWEEPS, host_row_key(number, host))
    return int(_COUNT.unpack(value)[0]) if value else 0

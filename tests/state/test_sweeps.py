"""The life of a sweep, as its table says, and the counts of its hosts."""

from __future__ import annotations

from itertools import product

import pytest

from state import sweeps
from state.changes import Changes
from state.errors import LostfoundError
from state.families import Family
from state.model import Sweep, SweepState
from state.store import Store
from tests.memory import MemoryStore

O, C, G, D = SweepState.OPEN, SweepState.COMMITTED, SweepState.CANCELLING, SweepState.CANCELLED  # noqa: E741
ALLOWED = {(O, C), (O, G), (C, G), (G, D)}


def opened(store: Store | MemoryStore, name: str) -> Sweep:
    sweep = sweeps.new(store, name, 7)
    changes = Changes()
    sweeps.put(changes, sweep)
    store.write(changes)
    return sweep


@pytest.mark.parametrize(("state", "after"), list(product(SweepState, SweepState)))
def test_life(state: SweepState, after: SweepState) -> None:
    sweep = Sweep(3, "2026-11", state, opened=7)
    if (state, after) in ALLOWED:
        moved = sweeps.transition(sweep, after, 9)
        assert (moved.state, moved.committed) == (after, 9 if after is C else 0)
    else:
        with pytest.raises(LostfoundError, match=f"'2026-11' is {state.name.lower()} and cannot become"):
            sweeps.transition(sweep, after, 9)


def test_sweeps_are_numbered_and_named(store: Store) -> None:
    one, two = opened(store, "one"), opened(store, "two")
    assert sweeps.all_sweeps(store) == [one, two]
    assert (one.number, two.number) == (1, 2)
    assert sweeps.named(store, "two") == two
    assert sweeps.named(store, "three") is None
    with pytest.raises(LostfoundError, match="there is a sweep 'one' already"):
        sweeps.new(store, "one", 9)


def test_a_cancelled_name_is_free_again_but_its_number_is_not(store: Store) -> None:
    one = opened(store, "one")
    changes = Changes()
    sweeps.put(changes, sweeps.transition(sweeps.transition(one, G), D))
    store.write(changes)
    assert sweeps.named(store, "one") is None
    assert opened(store, "one").number == 2


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "tab\t"])
def test_unusable_names_are_refused(name: str) -> None:
    with pytest.raises(LostfoundError, match="no name for a sweep"):
        sweeps.new(MemoryStore(), name, 1)


def test_rows_come_back_and_rubbish_is_refused() -> None:
    sweep = Sweep(70_000, "é", C, 1_700_000_000_000, 1_700_000_000_001, 12)
    changes = Changes()
    sweeps.put(changes, sweep)
    ((key, value),) = changes.family(Family.SWEEPS).items()
    assert sweeps.decode(key, value) == sweep
    for rubbish in (value[:-1], b"", b"[]", value.replace(b'"state":2', b'"state":9')):
        with pytest.raises(ValueError, match=r"not a sweep's row|9"):
            sweeps.decode(key, rubbish)


def test_hosts_are_counted_apart_by_sweep(store: Store) -> None:
    changes = Changes()
    sweeps.add_hosts(store, changes, 1, {b"org,a)": 2, b"org,b)": 1})
    sweeps.add_hosts(store, changes, 2, {b"org,a)": 5})
    store.write(changes)
    changes = Changes()
    sweeps.add_hosts(store, changes, 1, {b"org,a)": -1})
    store.write(changes)
    assert sweeps.hosts(store, 1) == {b"org,a)": 1, b"org,b)": 1}
    assert sweeps.hosts(store, 2) == {b"org,a)": 5}
    assert sweeps.host_count(store, 2, b"org,a)") == 5
    assert sweeps.host_count(store, 2, b"org,b)") == 0

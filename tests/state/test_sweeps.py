"""The rows of sweeps and their counts per host."""

from __future__ import annotations

import msgspec
import pytest

from state import sweeps
from state.changes import Changes
from state.errors import LostfoundError
from state.families import Family
from state.model import Sweep, SweepState
from tests.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_sweeps_are_numbered_and_named(store: MemoryStore) -> None:
    one, two = sweeps.open_sweep(store, "one", 7), sweeps.open_sweep(store, "two", 7)
    assert sweeps.all_sweeps(store) == [one, two]
    assert one.number == 1
    assert two.number == 2
    assert sweeps.named(store, "two") == two
    assert sweeps.named(store, "three") is None
    with pytest.raises(LostfoundError, match="there is already a sweep 'one'"):
        sweeps.open_sweep(store, "one", 9)


def test_a_commit_counts_the_captures_of_all_hosts(store: MemoryStore) -> None:
    sweep = sweeps.open_sweep(store, "one", 7)
    changes = Changes()
    sweeps.add_captures_per_host(store, changes, sweep.number, {b"org,a)": 2, b"org,b)": 1})
    store.write(changes)
    assert sweeps.commit(store, sweep, 9).captures == 3
    assert [s.state for s in sweeps.all_sweeps(store)] == [SweepState.COMMITTED]


def test_a_cancelled_sweep_keeps_its_number_and_loses_its_name_and_counts(store: MemoryStore) -> None:
    sweep = sweeps.open_sweep(store, "one", 7)
    changes = Changes()
    sweeps.add_captures_per_host(store, changes, sweep.number, {b"org,a)": 2})
    store.write(changes)
    changes = Changes()
    sweeps.finish_cancel(store, sweeps.begin_cancel(sweep, changes), changes)
    store.write(changes)
    assert sweeps.named(store, "one") is None
    assert sweeps.captures_per_host(store, sweep.number) == {}
    assert sweeps.open_sweep(store, "one", 8).number == 2


def test_beginning_to_cancel_can_be_repeated(store: MemoryStore) -> None:
    cancelling = sweeps.begin_cancel(sweeps.open_sweep(store, "one", 7), Changes())
    changes = Changes()
    assert sweeps.begin_cancel(cancelling, changes) == cancelling
    assert not changes


def test_a_row_decodes_to_its_sweep_and_damage_is_refused() -> None:
    sweep = Sweep(
        number=70_000,
        name="é",
        state=SweepState.COMMITTED,
        opened_time=1_700_000_000_000,
        committed_time=1_700_000_000_001,
        captures=12,
    )
    changes = Changes()
    sweeps.put(changes, sweep)
    ((key, value),) = changes.puts_of(Family.SWEEPS).items()
    assert sweeps.decode(key, value) == sweep
    for damaged in (value[:-1], b"", b"[]", value.replace(b'"state":2', b'"state":9')):
        with pytest.raises(ValueError, match="invalid sweep row"):
            sweeps.decode(key, damaged)


def test_hosts_are_counted_separately_by_sweep(store: MemoryStore) -> None:
    changes = Changes()
    sweeps.add_captures_per_host(store, changes, 1, {b"org,a)": 2, b"org,b)": 1})
    sweeps.add_captures_per_host(store, changes, 2, {b"org,a)": 5})
    store.write(changes)
    changes = Changes()
    sweeps.add_captures_per_host(store, changes, 1, {b"org,a)": -1})
    store.write(changes)
    assert sweeps.captures_per_host(store, 1) == {b"org,a)": 1, b"org,b)": 1}
    assert sweeps.captures_per_host(store, 2) == {b"org,a)": 5}
    assert sweeps.captures_on_host(store, 2, b"org,a)") == 5
    assert sweeps.captures_on_host(store, 2, b"org,b)") == 0


def committed(store: MemoryStore, name: str, newest_time: int, hosts: set[bytes]) -> Sweep:
    sweep = msgspec.structs.replace(sweeps.open_sweep(store, name, 7), newest_time=newest_time)
    changes = Changes()
    sweeps.add_captures_per_host(store, changes, sweep.number, dict.fromkeys(hosts, 1))
    store.write(changes)
    return sweeps.commit(store, sweep, 9)


@pytest.mark.parametrize(
    ("earlier", "is_older"),
    [
        ([(5, {b"org,a)"}), (20, {b"org,a)"})], True),
        ([(20, {b"org,a)"}), (5, {b"org,a)"})], False),  # only the sweep before it counts
        ([(20, {b"org,a)"}), (0, {b"org,a)"})], True),  # the times of the sweep before it are unknown
        ([(20, {b"org,b)"})], False),  # no host in common
        ([(10, {b"org,a)"})], False),
        ([], False),
    ],
)
def test_a_sweep_is_older_than_the_one_before_it_on_its_hosts(
    store: MemoryStore, earlier: list[tuple[int, set[bytes]]], is_older: bool
) -> None:
    before = [committed(store, f"before-{n}", *fields) for n, fields in enumerate(earlier)]
    sweep = committed(store, "last", 10, {b"org,a)", b"org,c)"})
    newer = [s for s in before if s.newest_time > 10]
    assert sweeps.newer_predecessor(store, sweep) == (newer[-1] if is_older else None)
    assert sweeps.newer_predecessor(store, msgspec.structs.replace(sweep, newest_time=0)) is None


def test_a_cancelled_sweep_is_not_compared(store: MemoryStore) -> None:
    before = committed(store, "before", 20, {b"org,a)"})
    sweep = committed(store, "last", 10, {b"org,a)"})
    changes = Changes()
    sweeps.begin_cancel(before, changes)
    store.write(changes)
    assert sweeps.newer_predecessor(store, sweep) is None

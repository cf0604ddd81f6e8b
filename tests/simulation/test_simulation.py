"""Test that the operators on many partitions, with crashes, duplicates and moves, equal the embedded engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from state.changes import MERGE_FUNCTIONS, Changes
from state.codecs import capture_row, document_row
from state.families import Family
from state.partition import Partition
from streams.operators import admit, decide, join
from streams.sketch import index_terms
from streams.urls import host_prefix
from tests.simulation.analysed import analysed
from tests.simulation.histories import cancelled, joins, limited, pages
from tests.simulation.simulator import Copy, Record, Simulation

SUITE = 60
LONG = 1_000
ANALYSED, ANALYSED_LONG = 2, 200
DETECTION = 200  # histories that may be needed to detect a broken rule
BATCH = 20


def batches(first: int, last: int) -> list[range]:
    return [range(at, at + BATCH) for at in range(first, last, BATCH)]


def label(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


@pytest.mark.parametrize("seeds", batches(0, SUITE), ids=label)
def test_pages_equal_the_embedded_engine(seeds: range) -> None:
    for seed in seeds:
        pages(seed)


@pytest.mark.parametrize("seeds", batches(0, SUITE), ids=label)
def test_joins_equal_brute_force(seeds: range) -> None:
    for seed in seeds:
        joins(seed)


@pytest.mark.parametrize("seeds", batches(0, SUITE), ids=label)
def test_a_sweep_is_cancelled_while_former_owners_have_batches(seeds: range) -> None:
    for seed in seeds:
        cancelled(seed)


def test_reached_limits_leave_a_consistent_state() -> None:
    for seed in range(BATCH):
        limited(seed)


@pytest.mark.parametrize("seed", range(ANALYSED))
def test_the_analyses_of_all_partitions_equal_those_of_the_embedded_engine(seed: int) -> None:
    analysed(seed)


def append_to_changelog_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Simulation, "steps", ("_log", "_write", "_send_next"))


def never_send_outputs(patch: pytest.MonkeyPatch) -> None:
    """Treat a batch as complete when its changes are written."""
    patch.setattr(Simulation, "steps", ("_log", "_write"))


def keep_transfers_at_former_roots(patch: pytest.MonkeyPatch) -> None:
    step = join.transfer_step
    patch.setattr(join, "transfer_step", lambda message, _parent: step(message, None))


def keep_the_first_decision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "merge", lambda _family, old, new: new if old is None else old)


def trust_copies_on_disk(patch: pytest.MonkeyPatch) -> None:
    def catch_up(copy: Copy, changelog: list[Record]) -> None:
        for offset, record in enumerate(changelog if copy.applied == 0 else []):
            copy.replay(offset, *record)
        copy.offset = len(changelog) - 1

    patch.setattr(Copy, "catch_up", catch_up)


def count_repeated_captures(patch: pytest.MonkeyPatch) -> None:
    def count_puts(_: Partition, changes: Changes) -> dict[int, Counter[bytes]]:
        counts: dict[int, Counter[bytes]] = {}
        for row_key in changes.puts.get(Family.CAPTURES, ()):
            url_key, sweep, _time, _tiebreaker = capture_row.decode_key(row_key)
            counts.setdefault(sweep, Counter())[host_prefix(url_key)] += 1
        return counts

    patch.setattr(Partition, "_capture_increases", count_puts)


def keep_what_arrived_first(family: Family) -> Callable[[pytest.MonkeyPatch], None]:
    """Keep the first row of a family with a key, in a batch and in a changelog."""

    def break_rule(patch: pytest.MonkeyPatch) -> None:
        def put(changes: Changes, family: Family, key: bytes, value: bytes, stored: admit.Rows) -> None:
            if family is not broken_family:
                put_earlier(changes, family, key, value, stored)
            elif key not in stored:
                changes.puts_of(family).setdefault(key, value)

        broken_family, put_earlier = family, admit._put_earlier
        patch.setattr(admit, "_put_earlier", put)
        patch.setitem(MERGE_FUNCTIONS, family, lambda old, _: old)

    return break_rule


def keep_the_last_first_seen_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(document_row, "first_seen", lambda _: 0)


def index_names_as_spelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(index_terms, "unquote", lambda segment: segment)


@pytest.mark.parametrize(
    "break_rule",
    [
        append_to_changelog_first,
        never_send_outputs,
        keep_transfers_at_former_roots,
        keep_the_first_decision,
        trust_copies_on_disk,
        count_repeated_captures,
        keep_what_arrived_first(Family.TEXTS),
        keep_what_arrived_first(Family.LOCATIONS),
        keep_the_last_first_seen_time,
        index_names_as_spelled,
    ],
)
def test_the_simulation_detects_broken_rules(
    break_rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    with pytest.raises(AssertionError) as error:
        test_pages_equal_the_embedded_engine(range(DETECTION))
    assert "replay: .venv/bin/python -m tests.simulation pages" in "".join(error.value.__notes__)


def accept_late_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Simulation, "drops_late_messages", False)


def replay_void_records(patch: pytest.MonkeyPatch) -> None:
    replay = Copy.replay

    def replay_as_owner(copy: Copy, offset: int, epoch: int, record: bytes) -> None:
        replay(copy, offset, max(copy.epoch, epoch), record)

    patch.setattr(Copy, "replay", replay_as_owner)


@pytest.mark.parametrize("break_rule", [accept_late_messages, replay_void_records])
def test_the_simulation_detects_late_writes_of_former_owners(
    break_rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    with pytest.raises(AssertionError) as error:
        test_a_sweep_is_cancelled_while_former_owners_have_batches(range(DETECTION))
    assert "replay: .venv/bin/python -m tests.simulation cancelled" in "".join(error.value.__notes__)


@pytest.mark.long
@pytest.mark.parametrize("seeds", batches(SUITE, SUITE + LONG), ids=label)
def test_many_more_histories(seeds: range) -> None:
    for seed in seeds:
        pages(seed)
        joins(seed)
        limited(seed)
        cancelled(seed)


@pytest.mark.long
@pytest.mark.parametrize("seeds", batches(ANALYSED, ANALYSED_LONG), ids=label)
def test_the_analyses_of_many_more_histories(seeds: range) -> None:
    for seed in seeds:
        analysed(seed)

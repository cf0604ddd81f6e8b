"""Test the sweeps that result from the events of their log."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from state.model import SweepState
from streams.errors import LostfoundError
from streams.kafka.wire.sweep_log import Event, SweepTable


def event(kind: str, name: str, time: int, **fields: Any) -> Event:
    return msgspec.convert({"event": kind, "name": name, "time": time, **fields}, Event)


def test_sweeps_are_numbered_by_the_order_of_their_openings() -> None:
    table = SweepTable()
    for item in (
        event("open", "a", 1), event("open", "b", 2), event("open", "a", 3), event("commit", "a", 4, end_offsets=[5]),
        event("reached", "a", 4, captures=9), event("reached", "a", 5), event("cancel", "b", 6),
        event("cancelled", "b", 7), event("open", "b", 8), event("commit", "unknown", 9),
    ):  # fmt: skip
        table.apply(item)
    assert [(s.number, s.name, s.state) for s in table.sweeps.values()] == [
        (1, "a", SweepState.COMMITTED),
        (2, "b", SweepState.CANCELLED),
        (3, "b", SweepState.OPEN),
    ]
    assert table.sweeps[1].captures == 9
    assert not table.pending_commits


def test_a_late_event_does_not_apply_to_a_new_sweep_with_the_same_name() -> None:
    table = SweepTable()
    for item in (
        event("open", "a", 1), event("commit", "a", 2, end_offsets=[5]), event("reached", "a", 2, number=1, captures=9),
        event("cancel", "a", 3), event("cancelled", "a", 4, number=1), event("open", "a", 5),
        event("reached", "a", 2, number=1, captures=9), event("cancelled", "a", 6, number=1),
        event("moves_published", "a", 7, number=1),
    ):  # fmt: skip
        table.apply(item)
    assert [sweep.state for sweep in table.sweeps.values()] == [SweepState.CANCELLED, SweepState.OPEN]
    assert table.unpublished_sweep is None


@pytest.fixture
def table() -> SweepTable:
    """Sweeps in every phase, named after it; cancelled ones included."""
    table = SweepTable()
    for name, steps in {
        "open": [], "requested": ["commit"], "committed": ["commit", "reached"], "cancelling": ["cancel"],
        "cancelled": ["cancel", "cancelled"],
    }.items():  # fmt: skip
        for step in ["open", *steps]:
            table.apply(event(step, name, 1))
    return table


@pytest.mark.parametrize(
    ("kind", "name"),
    [("open", "new"), ("open", "n" * 200), ("open", "cancelled"), ("commit", "open"), ("commit", "requested")]
    + [("cancel", name) for name in ("open", "requested", "committed", "cancelling")],
)
def test_events_that_may_be_requested(table: SweepTable, kind: str, name: str) -> None:
    table.check(event(kind, name, 2))


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        *(("open", name, "is not a valid sweep name") for name in ("", "n" * 201, "a\nb", "\x1b[31m")),
        *(
            ("open", name, f"there is already a sweep '{name}'")
            for name in ("open", "requested", "committed", "cancelling")
        ),
        ("commit", "committed", "sweep 'committed' is committed and cannot be committed"),
        ("commit", "cancelling", "sweep 'cancelling' is cancelling and cannot be committed"),
        ("commit", "cancelled", "sweep 'cancelled' does not exist"),
        ("cancel", "", "sweep '' does not exist"),
        ("reached", "open", "the event 'reached' cannot be requested"),
    ],
)
def test_events_that_do_not_fit_the_life_of_a_sweep_are_refused(
    table: SweepTable, kind: str, name: str, message: str
) -> None:
    with pytest.raises(LostfoundError, match=re.escape(message)):
        table.check(event(kind, name, 2))


def test_moves_of_the_last_committed_sweep_are_published_once() -> None:
    table = SweepTable()
    unpublished = []
    for item in (
        event("open", "a", 1), event("moves_published", "a", 1), event("open", "b", 2), event("commit", "a", 3),
        event("reached", "a", 3), event("reached", "b", 4), event("moves_published", "a", 5), event("moves_published", "b", 6),
        event("moves_published", "unknown", 7),
    ):  # fmt: skip
        table.apply(item)
        unpublished.append(table.unpublished_sweep.name if table.unpublished_sweep else "")
    assert unpublished == ["", "", "", "", "a", "b", "b", "", ""]


def test_the_first_scheme_and_the_newest_version_are_those_of_the_collection() -> None:
    table = SweepTable()
    for scheme, version in (("", 1), ("aa", 1), ("bb", 3), ("", 2)):
        table.apply(event("format", "", 5, scheme=scheme, version=version))
    assert (table.scheme_id, table.message_version) == ("aa", 3)


def test_expired_messages_are_counted_once_for_each_open_sweep() -> None:
    table = SweepTable()
    table.apply(event("open", "a", 1))
    table.apply(event("open", "b", 1))
    expired = {"topic": "web-pages", "partition": 2}
    table.apply(event("expired", "", 5, **expired, start_offset=3, end_offset=10))
    table.apply(event("reached", "a", 6, number=1, captures=1))
    table.apply(event("expired", "", 7, **expired, start_offset=3, end_offset=10))  # again, by another worker
    table.apply(event("expired", "", 8, **expired, start_offset=8, end_offset=12))
    table.apply(event("expired", "", 9, **(expired | {"partition": 0}), start_offset=0, end_offset=1))
    table.apply(event("expired", "", 9, **expired, start_offset=9, end_offset=3))
    assert [sweep.expired_messages for sweep in table.sweeps.values()] == [7, 7 + 2 + 1]


@pytest.mark.parametrize(
    "fields",
    [{"time": -1}, {"time": 1 << 62}, {"number": -1}, {"number": 1 << 32}, {"captures": -1}, {"end_offsets": [-1]}],
)
def test_events_that_cannot_be_stored_are_invalid(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"event": "open", "name": "a", "time": 1, **fields}, Event)

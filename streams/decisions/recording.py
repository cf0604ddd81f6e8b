"""Compute the rows that store decisions, with a time for each decision that has none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from state.changes import Changes
from state.codecs import decision_row
from state.families import Family
from state.model import Decision, DecisionKind
from state.rows import RowReader
from streams.errors import InputError
from streams.operators import decide
from streams.operators.lookups import read_rows
from streams.urls import url_key

UNDATED = 0  # marks a decision without a time; `compute_changes` replaces it by the current time


class DecisionChanges(msgspec.Struct, frozen=True):
    """The rows to store, and the numbers of decisions that change a row or change nothing."""

    changes: Changes
    changed: int
    unchanged: int


def moved(old_url: str, new_url: str, time: int = UNDATED) -> Decision:
    """Return the decision that a page moved. Raise BadUrl or InputError if it cannot be recorded."""
    key = url_key(old_url)
    if url_key(new_url) == key:
        raise InputError(f"{new_url} is not a new URL of {old_url}: both are one URL", "give two different URLs")
    return Decision(key=key, kind=DecisionKind.MOVED, time=time, old_url=old_url, new_url=new_url)


def gone(old_url: str, time: int = UNDATED) -> Decision:
    """Return the decision that a page is gone. Raise BadUrl for an invalid URL."""
    return Decision(key=url_key(old_url), kind=DecisionKind.GONE, time=time, old_url=old_url)


def removed(old_url: str) -> Decision:
    """Return the removal of the decision about a URL. Raise BadUrl for an invalid URL."""
    return Decision(key=url_key(old_url), kind=DecisionKind.REMOVED, time=UNDATED, old_url=old_url)


def compute_changes(reader: RowReader, decisions: Sequence[Decision], now: int) -> DecisionChanges:
    """Return the rows that these decisions change; `now` is the time of undated decisions (ms).

    An undated decision replaces a stored decision with a different outcome, even if a clock was wrong. A dated
    decision, such as one exported from another state, replaces only an earlier one.
    """
    stored = read_rows(reader, Family.DECISIONS, decide.row_keys(decisions))
    dated_decisions: list[Decision] = []
    for decision in decisions:
        row_key = decision_row.encode_key(decision.key)
        current = decision_row.decode(row_key, stored[row_key]) if row_key in stored else None
        if decision.time != UNDATED:
            dated_decisions.append(decision)
        elif _outcome(decision) != _outcome(current):
            time = max(now, current.time + 1) if current else now
            dated_decisions.append(msgspec.structs.replace(decision, time=time))
    changes = decide.decide(dated_decisions, stored)
    return DecisionChanges(changes, len(changes), len(decisions) - len(changes))


def _outcome(decision: Decision | None) -> tuple[DecisionKind, str | None]:
    return (decision.kind, decision.new_url) if decision else (DecisionKind.REMOVED, None)

"""decide: merge editors' decisions into the stored decisions, so that the latest decision about each URL remains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state.changes import Changes, merge
from state.codecs import decision_row
from state.families import Family
from state.model import Decision


def row_keys(decisions: Iterable[Decision]) -> list[bytes]:
    """Return the sorted keys of the rows that `decide` needs."""
    return sorted({decision_row.encode_key(decision.key) for decision in decisions})


def decide(decisions: Iterable[Decision], stored: Mapping[bytes, bytes]) -> Changes:
    """Return the rows that change. `stored` contains the stored rows of `row_keys`."""
    changes = Changes()
    puts = changes.puts_of(Family.DECISIONS)
    for decision in decisions:
        row_key = decision_row.encode_key(decision.key)
        current = puts.get(row_key, stored.get(row_key))
        merged = merge(Family.DECISIONS, current, decision_row.encode(decision))
        if merged != current:
            puts[row_key] = merged
    return changes

"""Recording decisions: times, and decisions that change nothing."""

from __future__ import annotations

import pytest

from state.model import Decision
from state.view import View
from streams.decisions import compute_changes, gone, moved, removed
from streams.errors import BadUrl, InputError
from tests.memory import MemoryStore

A, B, C = (f"https://a.example/{name}" for name in "abc")


def record(store: MemoryStore, *decisions: Decision, now: int) -> tuple[int, int]:
    result = compute_changes(store, decisions, now)
    store.write(result.changes)
    return result.changed, result.unchanged


def current(store: MemoryStore) -> list[tuple[str, str | None, int]]:
    return [(d.old_url, d.new_url, d.time) for d in View(store).all_decisions()]


def test_a_later_decision_replaces_an_earlier_one() -> None:
    store = MemoryStore()
    assert record(store, moved(A, B), gone(C), now=10) == (2, 0)
    assert record(store, moved(A, C), now=20) == (1, 0)
    assert current(store) == [(A, C, 20), (C, None, 10)]


def test_an_equal_decision_keeps_its_time() -> None:
    store = MemoryStore()
    record(store, moved(A, B), now=10)
    assert record(store, moved(A, B), moved(C, B), now=20) == (1, 1)
    assert current(store) == [(A, B, 10), (C, B, 20)]


def test_a_decision_takes_effect_even_if_the_clock_was_ahead() -> None:
    store = MemoryStore()
    record(store, moved(A, B), now=1_000)
    assert record(store, gone(A), now=20) == (1, 0)
    assert current(store) == [(A, None, 1_001)]


def test_a_dated_decision_replaces_only_an_earlier_one() -> None:
    store = MemoryStore()
    record(store, moved(A, B), now=10)
    assert record(store, moved(A, C, 9), now=20) == (0, 1)
    assert record(store, moved(A, C, 11), now=20) == (1, 0)
    assert current(store) == [(A, C, 11)]


def test_a_removed_decision_can_be_made_again() -> None:
    store = MemoryStore()
    assert record(store, removed(A), now=5) == (0, 1)
    record(store, moved(A, B), now=10)
    assert record(store, removed(A), now=20) == (1, 0)
    assert current(store) == []
    assert record(store, moved(A, C, 15), now=30) == (0, 1)  # decided before the removal
    assert record(store, removed(A), now=30) == (0, 1)
    assert record(store, moved(A, B), now=40) == (1, 0)
    assert current(store) == [(A, B, 40)]


def test_impossible_decisions_are_refused() -> None:
    with pytest.raises(InputError, match="both are one URL"):
        moved(A, A.replace("https", "http"))
    for make in (gone, removed, lambda url: moved(A, url), lambda url: moved(url, A)):
        with pytest.raises(BadUrl):
            make("mailto:someone")

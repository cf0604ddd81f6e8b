"""Pages and helpers of the ingest tests."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from state.check import check
from state.families import Family
from state.store import Store
from tests.samples import NOW, page, variant, words

RNG = random.Random(11)
TEXTS = [words(RNG, 100) for _ in range(6)]
TEXTS.append(variant(RNG, TEXTS[0]))
PAGES = [page(f"https://a.org/{n}", " ".join(text), NOW + n) for n, text in enumerate(TEXTS)]
BAD = {"url": "nowhere", "text": "no scheme"}


def letters(store: Store) -> list[dict[str, Any]]:
    path = store.path / "dead-letters.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def everything(store: Store) -> dict[Family, dict[bytes, bytes]]:
    return {family: dict(store.scan(family)) for family in Family}


def sound(store: Store) -> bool:
    return list(check(store, postings_max=32)) == []


class Stop(Exception):
    """A crash, at a place that the test chose."""


def stop_after(monkeypatch: pytest.MonkeyPatch, writes: int, *, before: bool) -> None:
    """Fail at the n-th batch's write: before it, so that its dead letters are there already, or after it."""
    write = Store.write
    done = 0

    def stopping(self: Store, changes: Any, *, sync: bool = False) -> None:
        nonlocal done
        if any(key.startswith(b"cursor:") for key in changes.puts_of(Family.META)):
            done += 1
            if done == writes and before:
                raise Stop
        write(self, changes, sync=sync)
        if done == writes:
            raise Stop

    monkeypatch.setattr(Store, "write", stopping)

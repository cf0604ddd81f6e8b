"""Fixtures of the tests that compare a collection with a state of the embedded engine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from state import sweeps
from state.store import Store
from streams import forgetting
from tests.samples import take
from tests.streams.export.expected_rows import site
from tests.streams.kafka.workers_with_rows import TOKEN


@pytest.fixture
def access_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSTFOUND_TOKEN", TOKEN)


@pytest.fixture
def embedded(store: Store, tmp_path: Path) -> Store:
    """A state with the sweeps 1 and 3. Sweep 2 is cancelled, as in the runners of the tests."""
    for number, name in enumerate(("live", "gone", "third"), 1):
        take(store, tmp_path / f"{name}.jsonl", site(random.Random(number), number), name)
    cancelled = sweeps.named(store, "gone")
    assert cancelled is not None
    forgetting.commit_removals(forgetting.cancel_sweep(store, cancelled), store.write)
    return store

"""`lostfound sweep`: open, commit, cancel and list."""

from __future__ import annotations

from pathlib import Path

from state import sweeps
from state.store import Store
from tests.samples import begin_cancel
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

FAQ = f"{SITE}/faq.html"


def test_a_sweep_can_be_opened_committed_and_cancelled(lostfound: Lostfound) -> None:
    assert lostfound("sweep", "open", "first").code == 0
    assert lostfound("sweep", "open", "first").code == 2
    assert lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--keep-open").code == 0
    assert "15 captures" in lostfound("sweep", "commit", "first").out
    assert lostfound("sweep", "cancel", "first").code == 0
    assert lostfound("sweep", "list", "--json").rows == []
    assert lostfound("clusters").code == 1
    assert lostfound("captures", FAQ).code == 1
    assert lostfound("sweep", "commit", "second").code == 2


def test_a_name_is_free_after_an_interrupted_cancellation(lostfound: Lostfound, sample_state: Path) -> None:
    with Store(sample_state) as store:
        sweep = sweeps.named(store, "2025-09")
        assert sweep
        begin_cancel(store, sweep)
    assert lostfound("sweep", "open", "2025-09").code == 0
    assert [row["state"] for row in lostfound("sweep", "list", "--json").rows] == ["committed", "committed", "open"]


def test_list_shows_when_sweeps_were_opened_and_committed(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("sweep", "list", "--json").rows
    assert [row["sweep"] for row in rows] == list(SWEEPS)
    assert all(row["committed"] >= row["opened"] > "2026" for row in rows)
    assert all(name in lostfound("sweep", "list").out for name in SWEEPS)

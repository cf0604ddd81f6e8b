"""`lostfound clusters`: order, limits and other policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.cli import command_clusters
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

FAQ, FAQ_MIRROR = f"{SITE}/faq.html", f"{SITE}/mirror/faq.html"


def test_clusters_are_listed_largest_first(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("clusters", "--json").rows
    sizes = [max(len(row["documents"]), len(row["urls"])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert any({FAQ, FAQ_MIRROR} <= set(row["urls"]) for row in rows)
    assert len(lostfound("clusters", "--json", "--limit", "2").rows) == 2
    assert len(lostfound("clusters", "--json", "--min-size", "1").rows) > len(rows)
    assert "Questions" in lostfound("clusters").out


def test_a_truncated_table_says_so(lostfound: Lostfound, sample_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(lostfound("clusters", "--json").rows)
    assert lostfound("clusters").err == ""
    monkeypatch.setattr(command_clusters, "TABLE_ROWS_MAX", count - 1)
    assert f"only the {count - 1} largest clusters are shown" in lostfound("clusters").err
    assert lostfound("clusters", "--limit", count - 1).err == ""


def test_an_empty_answer_has_exit_code_1(lostfound: Lostfound, sample_state: Path) -> None:
    result = lostfound("clusters", "--min-size", "50")
    assert (result.code, result.out) == (1, "")


def test_the_threshold_of_the_ingest_is_the_minimum_whatever_the_settings_say(
    lostfound: Lostfound, tmp_path: Path
) -> None:
    low, high = tmp_path / "low.toml", tmp_path / "high.toml"
    low.write_text("[policy]\nthreshold = 0.5\n")
    high.write_text("[policy]\nthreshold = 0.9\n")
    for n, config in enumerate((low, high, low)):
        ingested = lostfound("ingest", SAMPLE / f"{SWEEPS[n]}.jsonl", "--sweep", SWEEPS[n], "--config", config)
        assert ("different thresholds" in ingested.err) is (n > 0)
        minimum = (0.5, 0.9, 0.9)[n]
        for query_config in (low, high):
            assert lostfound("clusters", "--threshold", minimum, "--config", query_config).code < 2
            refused = lostfound("clusters", "--threshold", minimum - 0.1, "--config", query_config)
            assert refused.code == 2
            assert f"is below {minimum}, the threshold used at ingest" in refused.err


def test_a_policy_that_the_stored_edges_cannot_answer_is_refused(lostfound: Lostfound, sample_state: Path) -> None:
    result = lostfound("clusters", "--threshold", "0.2")
    assert result.code == 2
    assert "below" in result.err
    assert lostfound("clusters", "--sweep", "2030").code == 2
    assert lostfound("cluster", f"{SITE}/radio/packet.html", "--sweep", "2025-09").code == 1

"""Minimum hit rates and precision on real moves, through the real engine; slightly below the measured figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import moves


def report(shared_data: Path, name: str, **options: Any) -> dict[str, dict[str, float]]:
    truth, answers, figures = moves.run(
        shared_data / "moves" / name, **{"opaque": False, "texts": True, "sample_max": None, **options}
    )
    counts = moves.score(truth, answers, figures["reached"], 0.5)
    return {
        kind: {**tally, **{figure: tally.get(figure, 0) / tally["rows"] for figure in ("hit1", "hit5")}}
        for kind, tally in counts.items()
    }


def test_flink(shared_data):
    counts = report(shared_data, "flink")
    assert counts["moved"]["hit1"] == 1.0
    assert counts["moved-n1"]["hit1"] == 1.0


def test_symfony(shared_data):
    counts = report(shared_data, "symfony")
    for kind, minimum in (("moved", 0.95), ("moved-n1", 0.80), ("merged", 0.78)):
        assert counts[kind]["hit1"] >= minimum, kind
        assert counts[kind]["hit5"] >= 0.89, kind
    assert counts["gone"]["hit1"] >= 0.90
    total = counts["all"]
    assert total["right"] / total["claimed"] >= 0.90
    assert total["answered"] / total["has_target"] >= 0.50


@pytest.mark.long
def test_symfony_without_texts(shared_data):
    assert report(shared_data, "symfony", texts=False)["merged"]["hit1"] >= 0.58


@pytest.mark.long
def test_symfony_with_opaque_urls(shared_data):
    assert report(shared_data, "symfony", opaque=True)["moved"]["hit1"] >= 0.92

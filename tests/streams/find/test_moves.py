"""The promises on real moves with known answers, through the real engine; a little below what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import moves


def report(shared_data: Path, name: str, **how: Any) -> dict[str, dict[str, float]]:
    truth, answers, about = moves.run(
        shared_data / "moves" / name, **{"opaque": False, "texts": True, "sample_max": None, **how}
    )
    found = moves.score(truth, answers, about["reached"], 0.5)
    return {
        kind: {**tally, **{figure: tally.get(figure, 0) / tally["rows"] for figure in ("hit1", "hit5")}}
        for kind, tally in found.items()
    }


def test_flink(shared_data):
    found = report(shared_data, "flink")
    assert found["moved"]["hit1"] == 1.0
    assert found["moved-n1"]["hit1"] == 1.0


def test_symfony(shared_data):
    found = report(shared_data, "symfony")
    for kind, least in (("moved", 0.95), ("moved-n1", 0.80), ("merged", 0.78)):
        assert found[kind]["hit1"] >= least, kind
        assert found[kind]["hit5"] >= 0.89, kind
    assert found["gone"]["hit1"] >= 0.90
    every = found["all"]
    assert every["right"] / every["claimed"] >= 0.90
    assert every["answered"] / every["lives"] >= 0.50


@pytest.mark.long
def test_symfony_without_texts(shared_data):
    assert report(shared_data, "symfony", texts=False)["merged"]["hit1"] >= 0.58


@pytest.mark.long
def test_symfony_with_opaque_urls(shared_data):
    assert report(shared_data, "symfony", opaque=True)["moved"]["hit1"] >= 0.92

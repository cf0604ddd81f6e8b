"""Tests of bench/replicas/mirrors.py, on small sites of random words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.replicas import mirror_scale
from bench.replicas.mirror_truth import Pages, Truth, replicate
from bench.replicas.mirrors import MISSING, create_data_set, drop_captures, measure
from streams import settings
from tests.analysis_data import prose

SETTINGS = settings.load()


def site(name: str, pages: int) -> Pages:
    rng = random.Random(name)
    return {
        f"{name}/part{number % 4}/{number}.html": "<html><body>"
        f'<a href="{number + 4}.html">next</a><p>{prose(name, number, words=rng.randrange(60, 400))}</p></body></html>'
        for number in range(pages)
    }


@pytest.fixture(scope="module")
def truth() -> Truth:
    sites = {"copied": site("copied", 45), "first": site("first", 40), "second": site("second", 40)}
    return replicate(sites, [], random.Random(1), unrelated=21)


@pytest.fixture(scope="module")
def data_set(truth: Truth, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_data_set(truth, tmp_path_factory.mktemp("mirrors"), SETTINGS)


def test_all_levels_are_in_the_truth(truth):
    assert sorted(set(truth.levels.values())) == ["1", "2", "3", "4", "5"]
    assert len(truth.levels) == 12
    assert len(truth.copies) == 30


@pytest.mark.parametrize("missing", MISSING)
def test_small_mirrors_are_found(truth, data_set, tmp_path, missing):
    drop_captures(data_set, tmp_path / "incomplete", missing, 1)
    scores = measure(tmp_path / "incomplete", truth, SETTINGS)
    assert list(scores) == ["samples", "paper"]
    assert scores["samples"].precision == 1.0
    assert scores["samples"].recall >= 0.9
    assert scores["samples"].exact >= (0.7 if missing[1] else 0.9)
    assert scores["samples"].connected_copies == 30


def test_generated_hosts(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["mirror_scale", "--hosts", "600"])
    mirror_scale.main()
    assert "600 hosts, 17," in capsys.readouterr().out

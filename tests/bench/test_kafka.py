"""The benchmark of the Kafka engine runs, on little; nothing here says how fast anything is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import kafka
from bench.cluster import RunningBroker, Usage, broker
from bench.engine import write_pages
from bench.run import table
from tests.broker.running import HOME

SAMPLE = Path(__file__).parents[2] / "streams" / "demo" / "sample"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    if "KAFKA_BOOTSTRAP" not in os.environ and not (HOME / "libs" / ".complete").exists():
        assert not os.environ.get("CI"), "CI must have the real broker: `make test` fetches its archives"
        pytest.skip("no Kafka archives in var/broker: `make test` fetches them")
    with broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


def test_pages_go_through_both_engines(tmp_path: Path, running: RunningBroker) -> None:
    path = write_pages(tmp_path / "pages.jsonl", 150)
    measured = kafka.run_both_engines(tmp_path, running, 2, [path], Usage(0.0, 0.0), 1)
    assert measured.pages == measured.embedded["documents"] == 150
    assert measured.kafka.cpu_seconds > 0
    assert table(list(kafka.throughput("few", measured))).row_count == 3


def test_near_duplicates_come_out_under_load(tmp_path: Path, running: RunningBroker) -> None:
    rows = list(kafka.latency(tmp_path, running, 2, 40.0, 5.0))
    assert 0 < rows[0].ratio <= rows[1].ratio


@pytest.mark.long
def test_both_engines_are_asked_the_same(
    tmp_path: Path, running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "CLIENT_SECONDS", 0.5)
    rows = list(kafka.queries(tmp_path, running, 2, sorted(SAMPLE.glob("*.jsonl"))))
    client_counts = [f"{clients} clients" for clients in kafka.CLIENTS]
    assert [row.what for row in rows] == ["find --missing", "clusters", *client_counts]
    assert all(row.ratio > 0 for row in rows)
    assert not [row.note for row in rows if "ANSWERS DIFFER" in row.note or " 0 answers" in row.note]


@pytest.mark.long
def test_the_whole_benchmark(tmp_path: Path) -> None:
    given = kafka.arguments().parse_args(
        ["--documents", "600", "--html", "--rounds", "1", "--recover", "300", "--seconds", "8", "--query-sweeps"]
    )
    rows = list(kafka.measure(given, tmp_path, print))
    assert [row.group for row in rows][-2:] == ["lag after a rebalance"] * 2
    assert all(row.ratio >= 0 for row in rows)

"""Results of analyses of a collection equal those of the embedded engine, and are published once it can export."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import msgspec
import pytest

from state.errors import StateError
from state.model import Sweep, SweepState
from state.store import Store
from streams.analyses.at_commit import default_analysis
from streams.analyses.open_session import open_state
from streams.errors import InputError
from streams.kafka.coordinator import analyses_publisher
from streams.kafka.coordinator.analyses_publisher import find_results, publish_analyses
from streams.kafka.wire.result_messages import AnalysisResult, Result
from tests.samples import settings
from tests.streams.kafka.workers_with_rows import commit_sweeps, workers_with

SCHEMA = Path(__file__).parents[4] / "docs" / "schemas" / "analyses.json"
AT_COMMIT = ["changes", "replicas"]

pytestmark = pytest.mark.usefixtures("access_token")


@contextmanager
def committed_collection(embedded: Store, folder: Path, exports: Path | None) -> Iterator[tuple[Any, Sweep]]:
    """Serve the state by two workers with committed sweeps. Yield the collection of the first, and the last sweep."""
    with workers_with(embedded, folder / "workers", exports) as workers:
        commit_sweeps(workers, "live", "third")
        for worker in workers:
            limits = msgspec.structs.replace(worker.runner.settings.analyses, at_commit=AT_COMMIT)
            worker.runner.settings = msgspec.structs.replace(worker.runner.settings, analyses=limits)
        yield workers[0].collection, workers[0].runner.sweep_log.table.sweeps[3]


def test_results_equal_those_of_the_embedded_engine(embedded: Store, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    with committed_collection(embedded, tmp_path, exports) as (collection, sweep):
        published = list(find_results(collection, sweep))
    assert list(exports.iterdir()) == []  # `forget` does not know the files of this export
    schema = json.loads(SCHEMA.read_text())
    for message in published:
        jsonschema.validate(json.loads(msgspec.json.encode(message)), schema)
    with open_state(embedded.path, settings({"analyses": {"memory_mib": 256}})) as session:
        for name in AT_COMMIT:
            expected = [msgspec.json.encode(result) for result in session.results(default_analysis(name))]
            messages = [message for message in published if message.analysis == name]
            assert [bytes(message.result) for message in messages] == expected
            assert [message.number for message in messages] == list(range(len(expected)))
    assert any(message.analysis == "changes" for message in published)


def test_without_a_folder_for_exports_nothing_is_published(embedded: Store, tmp_path: Path) -> None:
    with (
        committed_collection(embedded, tmp_path, None) as (collection, sweep),
        pytest.raises(InputError, match=r"set kafka.export_folder|needs a folder"),
    ):
        list(find_results(collection, sweep))


class Publisher:
    """The parts of a worker's runner that publish results."""

    def __init__(self) -> None:
        self.sent: list[Result] = []
        self.counts: dict[str, int] = {}
        self.partitions = SimpleNamespace(active_numbers=frozenset({0}))
        self.context = SimpleNamespace(partition_count=4)
        self.producer = SimpleNamespace(send_results=self._send)
        results: Any = SimpleNamespace(labels=lambda _: SimpleNamespace(inc=lambda _: None))
        self.metrics = SimpleNamespace(results=results, add_counts=self.counts.update)

    async def _send(self, results: Iterable[Result]) -> None:
        self.sent += results


SWEEP = Sweep(number=3, name="third", state=SweepState.COMMITTED, opened_time=1)
RESULTS = [
    AnalysisResult(
        sweep="third",
        analysis="mirrors",
        method="samples",
        number=n,
        results=3,
        result=msgspec.Raw(b'{"tests":%d}' % n),
    )
    for n in range(3)
]


def publish(monkeypatch: pytest.MonkeyPatch, publisher: Publisher, *outcomes: Exception | None) -> bool:
    """Publish `RESULTS`, after the failures in `outcomes`."""
    remaining = list(outcomes)

    def find(_collection: Any, _sweep: Sweep) -> Iterator[AnalysisResult]:
        if remaining and (error := remaining.pop(0)) is not None:
            raise error
        return iter(RESULTS)

    monkeypatch.setattr(analyses_publisher, "find_results", find)
    monkeypatch.setattr(analyses_publisher, "RETRY_SECONDS", 0.0)
    collection: Any = SimpleNamespace(runner=publisher)
    return asyncio.run(publish_analyses(collection, SWEEP))


def test_results_of_an_analysis_have_one_partition_and_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = Publisher()
    assert publish(monkeypatch, publisher, StateError("a worker is rebalancing"), None)
    assert [result.key for result in publisher.sent] == [b"mirrors %d third" % n for n in range(3)]
    assert len({result.partition for result in publisher.sent}) == 1
    assert json.loads(msgspec.json.encode(publisher.sent[1].value))["result"] == {"tests": 1}
    assert publisher.counts == {}


def test_results_that_cannot_be_computed_are_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for outcomes in ([InputError("no folder")], [StateError("no worker")] * analyses_publisher.ATTEMPTS_MAX):
        publisher = Publisher()
        assert publish(monkeypatch, publisher, *outcomes)
        assert (publisher.sent, publisher.counts) == ([], {"analyses_failed": 1})


def test_a_former_owner_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = Publisher()
    publisher.partitions.active_numbers = frozenset()
    assert not publish(monkeypatch, publisher)
    assert publisher.sent == []

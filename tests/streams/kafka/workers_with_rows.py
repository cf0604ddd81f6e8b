"""Two workers that serve the rows of an embedded state, for the tests of exports and analyses of a collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from state.changes import Changes
from state.families import Family
from state.model import SweepState
from state.store import Store
from streams.kafka.wire.sweep_log import Event
from tests.streams.kafka.collection_fixture import SETTINGS
from tests.streams.kafka.worker_fixture import write
from tests.streams.kafka.worker_servers import WorkerServer, worker_servers

TOKEN = "secret"


@contextmanager
def workers_with(store: Store, folder: Path, exports: Path | None) -> Iterator[list[WorkerServer]]:
    """Serve the rows of a state by two workers."""
    changes = Changes()
    for family in Family:
        changes.puts_of(family).update(store.scan(family))
    with worker_servers(folder) as workers:
        for worker in workers:
            worker.runner.sweep_log.table.apply(Event(event="open", name="third", time=3))
            kafka = msgspec.structs.replace(SETTINGS.kafka, export_folder=str(exports or ""))
            worker.runner.settings = msgspec.structs.replace(worker.runner.settings, kafka=kafka)
        for number, part in workers[0].collection.sharded_store().divide(changes).items():
            write(workers[number].runner.partitions.by_number[number], part)
        yield workers


def commit_sweeps(workers: Iterable[WorkerServer], *names: str) -> None:
    """Commit open sweeps of a collection."""
    for worker in workers:
        table = worker.runner.sweep_log.table
        for sweep in list(table.sweeps.values()):
            if sweep.name in names and sweep.state is SweepState.OPEN:
                table.apply(Event(event="commit", name=sweep.name, time=4))
                table.apply(Event(event="reached", name=sweep.name, time=4, number=sweep.number))

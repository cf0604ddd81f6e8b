"""Analyse the exports of simulated partitions: the results equal those of the embedded engine."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any, cast

import msgspec

from state import meta, sweeps
from state.changes import Changes
from state.families import Family
from state.model import Sweep, SweepState
from state.rows import RowReader
from streams.analyses.at_commit import default_analysis
from streams.analyses.open_session import open_export
from streams.export.data_set import Part
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from streams.kafka.collection.partition_exports import write_partitions
from streams.kafka.rows.export_client import export_collection
from streams.kafka.rows.export_request import ExportRequest
from tests.memory import MemoryStore
from tests.simulation import mirrored_sites
from tests.simulation.histories import SETTINGS, THRESHOLD, embedded, replayable, sharded_store
from tests.simulation.partition import Rules
from tests.simulation.simulator import Simulation

ANALYSES = ("collections", "mirrors", "replicas")
SWEEPS = [
    Sweep(number=number, name=str(number), state=SweepState.COMMITTED, opened_time=0)
    for number in range(1, mirrored_sites.SWEEPS + 1)
]


class Workers:
    """Export the partitions of a simulation, as workers do for a client."""

    def __init__(self, simulation: Simulation, export_folder: Path) -> None:
        kafka = msgspec.structs.replace(SETTINGS.kafka, export_folder=str(export_folder))
        self._settings = msgspec.structs.replace(SETTINGS, kafka=kafka)
        self._simulation, self._partitions = simulation, range(simulation.rules.partitions)

    def store(self) -> RowReader:
        return sharded_store(self._simulation, _sweep_rows().puts[Family.SWEEPS])

    def export(self, request: ExportRequest) -> list[Part]:
        all_partitions = msgspec.structs.replace(request, partitions=list(self._partitions))
        stores = {number: self._simulation.rows(number) for number in self._partitions}
        return write_partitions(all_partitions, self._settings, lambda: cast(Any, stores))


def _sweep_rows() -> Changes:
    changes = Changes()
    for sweep in SWEEPS:
        sweeps.put(changes, sweep)
    return changes


def export_embedded(store: MemoryStore, folder: Path) -> None:
    """Export the state of the embedded engine, once its sweeps are committed."""
    meta.claim_scheme(store, SETTINGS.scheme)
    store.write(_sweep_rows())
    export_state(store, folder, SqlLimits(SETTINGS.analyses.memory_mib, threads=1))


def results(folder: Path) -> dict[str, list[Any]]:
    """Return the results of all analyses of a data set, as of the last sweep."""
    with open_export(folder, SETTINGS) as session:
        return {name: session.results(default_analysis(name)) for name in ANALYSES}


@replayable
def analysed(seed: int) -> None:
    """Process sites with copies: mirrors, replicas and collections equal those of the embedded engine."""
    rng = random.Random(f"analysed {seed}")
    feed = mirrored_sites.pages(rng)
    state = embedded(feed, rng.choice([7, 1_000]))
    ordered = rng.random() < 0.5
    if not ordered:
        rng.shuffle(feed)
    simulation = Simulation(seed, feed, Rules(SETTINGS.scheme, rng.randint(2, 8), THRESHOLD), ordered=ordered)
    simulation.run()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_embedded(state, folder / "embedded")
        export_collection(Workers(simulation, folder), folder / "partitions")
        expected = results(folder / "embedded")
        assert all(expected.values()), f"an analysis has no result: {expected}"
        assert results(folder / "partitions") == expected

"""Workers write the same rows as the embedded engine, and only to the folder for exports."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from state.errors import StateError
from state.store import Store
from streams.errors import InputError
from streams.export.data_set import Part, read_manifest
from streams.kafka.rows.export_client import export_collection
from streams.kafka.rows.export_request import ExportRequest
from streams.kafka.rows.worker_client import WorkerClient
from tests.streams.export.expected_rows import expected_rows, exported_rows
from tests.streams.kafka.worker_servers import WorkerServer
from tests.streams.kafka.workers_with_rows import TOKEN, workers_with

pytestmark = pytest.mark.usefixtures("access_token")


def client_of(worker: WorkerServer) -> WorkerClient:
    return WorkerClient(worker.url, 60, TOKEN)


def test_the_parts_of_all_workers_are_the_rows_of_the_embedded_engine(embedded: Store, tmp_path: Path) -> None:
    folder = tmp_path / "exports" / "all"
    with workers_with(embedded, tmp_path / "workers", tmp_path / "exports") as workers:
        steps: list[str] = []
        tables = export_collection(client_of(workers[0]), folder, on_step=steps.append)
        assert steps == ["captures", "documents"]
        assert exported_rows(folder) == expected_rows(embedded)
        assert {path.name for path in folder.rglob("*.parquet")} == {"part-00000.parquet", "part-00001.parquet"}
        assert {table.sweep for table in tables} == {"live", "third", None}
        again = export_collection(client_of(workers[1]), folder)
        assert not {table.table for table in again if table.written and table.sweep}
        assert exported_rows(folder) == expected_rows(embedded)


def test_only_the_folder_for_exports_is_written(embedded: Store, tmp_path: Path) -> None:
    with workers_with(embedded, tmp_path / "workers", tmp_path / "exports") as (worker, _):
        for folder in (tmp_path / "elsewhere", tmp_path / "exports" / ".." / "elsewhere"):
            with pytest.raises(InputError, match="is not in"):
                export_collection(client_of(worker), folder)
        assert not list((tmp_path / "elsewhere").rglob("*.parquet"))
        for changed in ({"run": "../x"}, {"previous": [{"table": "../x", "rows": 0, "bytes": 0, "checksum": 0}]}):
            request = ExportRequest(step="captures", folder="/", run="0" * 16, sweeps=[1], previous=[])
            body = msgspec.msgpack.encode(msgspec.to_builtins(request) | changed)
            with pytest.raises(StateError, match=r"Invalid enum value|matching regex"):
                client_of(worker).post("/export", body, list[Part])


def test_workers_without_a_folder_for_exports_refuse(embedded: Store, tmp_path: Path) -> None:
    with (
        workers_with(embedded, tmp_path / "workers", None) as (worker, _),
        pytest.raises(InputError, match="no setting for the folder of exports"),
    ):
        export_collection(client_of(worker), tmp_path / "exports")


def test_a_worker_that_does_not_see_the_folder_is_named(embedded: Store, tmp_path: Path) -> None:
    with workers_with(embedded, tmp_path / "workers", tmp_path) as (worker, _):
        request = ExportRequest(step="captures", folder=str(tmp_path / "x"), run="0" * 16, sweeps=[1], previous=[])
        with pytest.raises(StateError, match="cannot access the files of the export"):
            client_of(worker).export(request)


def test_a_failed_export_leaves_the_old_data_set(
    embedded: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    with workers_with(embedded, tmp_path / "workers", tmp_path) as workers:
        export_collection(client_of(workers[0]), folder, sweep_names=["live"])
        before, manifest = exported_rows(folder), read_manifest(folder)

        def lose_partitions(_: str) -> None:
            workers[1].runner.partitions.active_numbers = frozenset()

        with pytest.raises(StateError, match=r"moved to another worker|no worker serves"):
            export_collection(client_of(workers[0]), folder, on_step=lose_partitions)
        assert (exported_rows(folder), read_manifest(folder)) == (before, manifest)
        assert not list(folder.glob("export.tmp/*"))

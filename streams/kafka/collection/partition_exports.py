"""Export a collection: divide an export step among the workers, or write the partitions of this worker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from state.errors import StateError
from state.store import Store
from streams.errors import InputError
from streams.export.data_set import Part, Workspace
from streams.export.duckdb_connection import SqlLimits, connect
from streams.export.partition_export import PartitionExport, capture_files, parents_file
from streams.kafka.rows.export_request import ExportRequest
from streams.settings import Settings

PartWriter = Callable[[ExportRequest], list[Part]]


def write_on_all_workers(request: ExportRequest, writers: Mapping[int, PartWriter]) -> list[Part]:
    """Have all workers write their partitions at the same time, and return all parts.

    `writers` maps each partition to the function that has its worker write it. A worker's function is called once.
    """
    partitions_by_writer: defaultdict[PartWriter, list[int]] = defaultdict(list)
    for number, writer in sorted(writers.items()):
        partitions_by_writer[writer].append(number)
    requests = [msgspec.structs.replace(request, partitions=numbers) for numbers in partitions_by_writer.values()]
    with ThreadPoolExecutor(len(requests)) as threads:
        results = list(
            threads.map(lambda writer, worker_request: writer(worker_request), partitions_by_writer, requests)
        )
    return [part for parts in results for part in parts]


def write_partitions(
    request: ExportRequest, settings: Settings, local_stores: Callable[[], Mapping[int, Store]]
) -> list[Part]:
    """Write the partitions of a request, one after another, and return their parts.

    `local_stores` returns the stores of this worker's partitions. Raise InputError if the folder is not allowed, and
    StateError if this worker cannot access it, or if a partition moves to another worker during the export.
    """
    workspace = _workspace(request, settings.kafka.export_folder)
    parts: list[Part] = []
    for number in request.partitions or []:
        parts += _write_partition(request, number, workspace, settings, local_stores)
    return parts


def _workspace(request: ExportRequest, export_folder: str) -> Workspace:
    if not export_folder:
        hint = "set kafka.export_folder to a folder that the workers and this command share"
        raise InputError("the workers have no setting for the folder of exports", hint)
    workspace = Workspace(Path(request.folder).resolve(), request.run)
    if not workspace.folder.is_relative_to(Path(export_folder).resolve()):
        raise InputError(
            f"{workspace.folder} is not in {export_folder}, the workers' folder for exports",
            "choose a folder inside that one, or change kafka.export_folder",
        )
    if not workspace.new_files.is_dir():
        hint = "mount the folder under the same path on the machines of all workers and of this command"
        raise StateError(f"this worker cannot access the files of the export in {workspace.folder}", hint)
    return workspace


def _write_partition(
    request: ExportRequest,
    number: int,
    workspace: Workspace,
    settings: Settings,
    local_stores: Callable[[], Mapping[int, Store]],
) -> list[Part]:
    store = _store(number, local_stores)

    def check_ownership(_: int) -> None:
        if local_stores().get(number) is not store:
            raise StateError(f"partition {number} has moved to another worker", "retry after the rebalance")

    export = PartitionExport(
        workspace,
        store,
        sweeps=request.sweeps,
        previous={part.key: part for part in request.previous},
        partition=number,
        on_rows=check_ownership,
    )
    limits = SqlLimits(settings.analyses.memory_mib, settings.analyses.threads)
    with connect(limits, workspace.new_files) as connection:
        if request.step == "captures":  # the tables that need only this partition's rows
            export.write_captures()
            export.write_links(connection)
            export.write_hosts()
            export.write_parents()
        else:
            partitions = sorted({part.partition for part in request.written})
            export.write_documents(connection, capture_files(workspace, request.written))
            export.write_clusters(connection, [parents_file(workspace, other) for other in partitions])
    check_ownership(0)
    return export.parts


def _store(number: int, local_stores: Callable[[], Mapping[int, Store]]) -> Store:
    store = local_stores().get(number)
    if store is None:
        raise StateError(f"partition {number} has moved to another worker", "retry after the rebalance")
    return store

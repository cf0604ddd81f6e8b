"""Export the partitions of a collection: share a step of the export among the workers, or write own partitions."""

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
from streams.export.partition_export import PartitionExport, captures_files, parents_file
from streams.kafka.rows.export_request import ExportRequest
from streams.settings import Settings

Write = Callable[[ExportRequest], list[Part]]


def share_out(request: ExportRequest, writers: Mapping[int, Write]) -> list[Part]:
    """Let all workers write their partitions at the same time, and return all parts. `writers` are by partition."""
    partitions_by_writer: defaultdict[Write, list[int]] = defaultdict(list)
    for number, write in sorted(writers.items()):
        partitions_by_writer[write].append(number)
    requests = [msgspec.structs.replace(request, partitions=numbers) for numbers in partitions_by_writer.values()]
    with ThreadPoolExecutor(len(requests)) as threads:
        results = list(threads.map(lambda write, part: write(part), partitions_by_writer, requests))
    return [part for parts in results for part in parts]


def write_partitions(
    request: ExportRequest, settings: Settings, local_stores: Callable[[], Mapping[int, Store]]
) -> list[Part]:
    """Write the partitions of a request, one after another, and return their parts.

    `local_stores` returns the stores of this worker's partitions. Raise InputError if the folder is not allowed, and
    StateError if this worker does not see it, or if a partition moves to another worker meanwhile.
    """
    workspace = _workspace(request, settings.kafka.export_folder)
    parts: list[Part] = []
    for number in request.partitions or []:
        parts += _write_partition(request, number, workspace, settings, local_stores)
    return parts


def _workspace(request: ExportRequest, export_folder: str) -> Workspace:
    if not export_folder:
        hint = "set kafka.export_folder to a folder that the workers and this command share"
        raise InputError("the workers have no folder for exports", hint)
    workspace = Workspace(Path(request.folder).resolve(), request.run)
    if not workspace.folder.is_relative_to(Path(export_folder).resolve()):
        raise InputError(
            f"{workspace.folder} is not in {export_folder}, the folder for exports",
            "name a folder below it, or change kafka.export_folder",
        )
    if not workspace.new_files.is_dir():
        hint = "mount the folder under the same path on the machines of all workers and of this command"
        raise StateError(f"this worker does not see the files of the export in {workspace.folder}", hint)
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
        if request.step == "captures":
            export.write_captures()
            export.write_links(connection)
            export.write_hosts()
            export.write_parents()
        else:
            partitions = sorted({part.partition for part in request.written})
            export.write_documents(connection, captures_files(workspace, request.written))
            export.write_clusters(connection, [parents_file(workspace, other) for other in partitions])
    check_ownership(0)
    return export.parts


def _store(number: int, local_stores: Callable[[], Mapping[int, Store]]) -> Store:
    store = local_stores().get(number)
    if store is None:
        raise StateError(f"partition {number} has moved to another worker", "retry after the rebalance")
    return store

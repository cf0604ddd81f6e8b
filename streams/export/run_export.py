"""Export the state of the embedded engine to a data set, or bring a data set up to date."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from state.model import Sweep, SweepState
from state.rows import LocalReader
from state.view import View
from streams.errors import InputError
from streams.export import data_set
from streams.export.data_set import ExportedSweep, Manifest, Part
from streams.export.duckdb_connection import SqlLimits, connect
from streams.export.partition_export import PartitionExport, capture_files
from streams.export.schema import TABLES


class ExportedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a data set, or the part of one sweep if the table has a folder per sweep."""

    table: str
    sweep: str | None
    rows: int
    bytes: int  # total size of the files
    written: bool  # whether this export wrote the files; if not, it kept the old files


def export_state(
    rows: LocalReader,
    folder: Path,
    limits: SqlLimits,
    *,
    sweep_names: Collection[str] = (),
    state_version: str = "",
    on_rows: Callable[[int], None] = lambda _: None,
    on_wait: Callable[[], None] = lambda: None,
) -> list[ExportedTable]:
    """Export the named sweeps to a data set, and return its tables. If `sweep_names` is empty, export all sweeps.

    Sweeps that the data set already contains are brought up to date, or removed if they were cancelled.
    `state_version` changes with every write; if it has not changed since the last export, the rows are not read.
    `on_rows` is called with the number of rows read, and `on_wait` before waiting for a program that reads the data
    set.

    Raise InputError if a sweep does not exist, or if the folder cannot be used.
    """
    view = View(rows)
    with data_set.prepare_export(folder) as (workspace, manifest):
        old = previous_manifest(manifest, view.scheme.id)
        sweeps = select_sweeps(view.sweeps(), sweep_names, old)
        new = Manifest(scheme=view.scheme.id, state=state_version, sweeps=sweeps)
        if manifest is not None and state_version and old.state == state_version and old.sweeps == sweeps:
            return summarise(old, old)
        export = PartitionExport(
            workspace,
            rows,
            sweeps=[sweep.number for sweep in sweeps],
            previous={part.key: part for part in old.parts},
            on_rows=on_rows,
        )
        with connect(limits, workspace.new_files) as connection:
            export.write_captures()
            export.write_links(connection)
            export.write_hosts()
            export.write_documents(connection, capture_files(workspace, export.parts))
            export.write_clusters(connection, [export.write_parents()])
        new = msgspec.structs.replace(new, parts=sorted_parts(export.parts))
        data_set.commit(workspace, new, on_wait)
    return summarise(new, old)


def previous_manifest(manifest: Manifest | None, scheme: str) -> Manifest:
    """Return the manifest of the data set to bring up to date, or an empty one if its files cannot be used."""
    return manifest if manifest is not None and manifest.scheme == scheme else Manifest()


def select_sweeps(
    sweeps: Sequence[Sweep], names: Collection[str], old: Manifest | None = None
) -> list[ExportedSweep]:
    """Return the sweeps of the new data set: the named sweeps, and the sweeps of the old data set.

    If `names` is empty, return all sweeps. Raise InputError if a sweep does not exist.
    """
    if unknown := sorted(set(names) - {sweep.name for sweep in sweeps}):
        raise InputError(f"sweep {unknown[0]!r} does not exist", "list all sweeps with `lostfound sweep list`")
    exported = {sweep.number for sweep in old.sweeps} if old is not None else set()
    return [
        ExportedSweep(number=sweep.number, name=sweep.name, committed=sweep.state is SweepState.COMMITTED)
        for sweep in sweeps
        if not names or sweep.name in names or sweep.number in exported
    ]


def sorted_parts(parts: Collection[Part]) -> list[Part]:
    """Return parts in the order of their tables, sweeps and partitions."""
    tables = list(TABLES)
    return sorted(parts, key=lambda part: (tables.index(part.table), part.sweep or 0, part.partition))


def summarise(new: Manifest, old: Manifest) -> list[ExportedTable]:
    """Return one row per table and sweep, with the totals of all partitions."""
    names = {sweep.number: sweep.name for sweep in new.sweeps}
    old_parts = set(old.parts) if new is old else {part for part in old.parts if part.sweep is not None}
    tables: dict[tuple[str, int | None], list[Part]] = {}
    for part in new.parts:
        tables.setdefault((part.table, part.sweep), []).append(part)
    return [
        ExportedTable(
            table=table,
            sweep=None if sweep is None else names[sweep],
            rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            written=not old_parts.issuperset(parts),
        )
        for (table, sweep), parts in tables.items()
    ]

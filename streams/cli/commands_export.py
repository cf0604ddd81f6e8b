"""`lostfound export`: write the state to Parquet files."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli.command_context import Context
from streams.cli.options import json_option, server_options
from streams.cli.output import to_json_object, write_json

if TYPE_CHECKING:
    from streams.export.run_export import ExportedTable


@click.command
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--sweep",
    "sweep_names",
    metavar="NAME",
    multiple=True,
    help="Export only this sweep and the sweeps that FOLDER already contains. Can be repeated.  "
    "[default: all sweeps]",
)
@json_option
@server_options
def export(context: Context, folder: Path, sweep_names: tuple[str, ...], as_json: bool) -> None:
    """Write the state to FOLDER as Parquet files.

    The files contain captures, documents, clusters, links and hosts. Run the command again to bring FOLDER up to
    date: only sweeps that are new or have changed are written. The old files stay in place until all new files are
    complete.

    With --server, each worker writes the files of its partitions. FOLDER must be inside the folder that the workers'
    setting kafka.export_folder names. This command and all workers must be able to access FOLDER at the same path.
    """
    from streams.terminal import layout, tables

    export_all = _export_state if context.server is None else _export_collection
    exported = export_all(context, folder, sweep_names, quiet=as_json and sys.stdout.isatty())
    if as_json:
        for table in exported:
            write_json(to_json_object(table))
    else:
        layout.print_to_stdout(tables.export_table(exported))


def _export_state(
    context: Context, folder: Path, sweep_names: Collection[str], *, quiet: bool
) -> list[ExportedTable]:
    from streams.export.duckdb_connection import SqlLimits
    from streams.export.partition_export import EXPORTED_FAMILIES
    from streams.export.run_export import export_state
    from streams.terminal import progress_bars

    with context.open_local_for_reading() as (store, settings):
        estimated_rows = sum(map(store.estimated_keys, EXPORTED_FAMILIES))
        with progress_bars.export_meter(estimated_rows, quiet=quiet) as meter:
            return export_state(
                store,
                folder,
                SqlLimits(settings.analyses.memory_mib, settings.analyses.threads),
                sweep_names=sweep_names,
                state_version=store.version(),
                on_rows=meter.count_rows,
                on_wait=meter.show_waiting,
            )


def _export_collection(
    context: Context, folder: Path, sweep_names: Collection[str], *, quiet: bool
) -> list[ExportedTable]:
    from streams.kafka.rows.export_client import export_collection
    from streams.terminal import progress_bars

    with progress_bars.export_meter(0, quiet=quiet) as meter:
        return export_collection(
            context.worker_client(),
            folder,
            sweep_names=sweep_names,
            on_step=meter.show_step,
            on_wait=meter.show_waiting,
        )

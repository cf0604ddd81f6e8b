"""Export a collection through its workers.

Each worker writes the files of its partitions to a folder that all workers and the client share. The export has two
steps, because a document's captures are stored in the partitions of their URLs: the sweep of a document is known once
all captures are written. The client then replaces the data set, so a worker that stops leaves the old one intact.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from state.rows import RowReader
from state.view import View
from streams.errors import InputError
from streams.export import data_set
from streams.export.data_set import Manifest, Part
from streams.export.run_export import ExportedTable, previous_manifest, select_sweeps, sorted_parts, summarise
from streams.kafka.rows.export_request import STEPS, ExportRequest


class Exporter(Protocol):
    """Reads and exports a collection, usually through a worker."""

    def store(self) -> RowReader:
        """Return a reader of the collection's rows."""

    def export(self, request: ExportRequest) -> list[Part]:
        """Have the workers perform a step of an export, and return the parts that they wrote."""


def export_collection(
    client: Exporter,
    folder: Path,
    *,
    sweep_names: Collection[str] = (),
    on_step: Callable[[str], None] = lambda _: None,
    on_wait: Callable[[], None] = lambda: None,
) -> list[ExportedTable]:
    """Write sweeps of a collection to a data set, like `export_state`.

    Call `on_step` with the name of each step. Raise the errors of `export_state`, and StateError if a worker fails or
    loses partitions.
    """
    folder = folder.resolve()
    view = View(client.store())
    stored_sweeps = view.sweeps()
    with data_set.prepare_export(folder) as (workspace, manifest):
        old = previous_manifest(manifest, view.scheme.id)
        sweeps = select_sweeps(stored_sweeps, sweep_names, old)
        written: list[Part] = []
        for step in STEPS:
            on_step(step)
            request = ExportRequest(
                step=step,
                folder=str(folder),
                run=workspace.run,
                sweeps=[sweep.number for sweep in sweeps],
                previous=old.parts,
                written=written,
            )
            written = written + client.export(request)
        new = Manifest(scheme=view.scheme.id, sweeps=sweeps, parts=sorted_parts(written))
        data_set.commit(workspace, new, on_wait)
    return summarise(new, old)


@contextmanager
def temporary_export(
    client: Exporter, export_folder: str, on_step: Callable[[str], None] = lambda _: None
) -> Iterator[Path]:
    """Export a collection to a new folder in `export_folder`, and delete this folder when the block ends.

    The folder is not kept, because it contains URLs, which `forget` would not remove from it. Raise the errors of
    `export_collection`, and InputError if `export_folder` is empty.
    """
    if not export_folder:
        hint = "set kafka.export_folder to the folder for exports that this command shares with the workers"
        raise InputError("an analysis with --server needs a folder for exports", hint)
    folder = Path(export_folder) / f"lostfound-analysis-{os.urandom(8).hex()}"
    try:
        export_collection(client, folder, on_step=on_step)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

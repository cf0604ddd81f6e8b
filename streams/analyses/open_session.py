"""Open a state or an export for analyses, and store new results when the session ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from state import meta
from state.errors import StateError, StateLocked
from state.model import Sweep, SweepState
from state.store import Store
from state.view import View
from streams.analyses import export_cache
from streams.analyses.analysis_session import Progress, Session, Source
from streams.analyses.sql_engine import DuckDb, SqlEngine
from streams.errors import InputError
from streams.export import data_set
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from streams.settings import AnalysisSettings, Settings

if TYPE_CHECKING:
    from streams.analyses.spark_engine import Spark

log = structlog.get_logger(__name__)


@contextmanager
def open_export(
    folder: Path,
    settings: Settings,
    sweep_name: str | None = None,
    progress: Progress = Progress(),  # noqa: B008
) -> Iterator[Session]:
    """Open an existing export. New results are not stored. Raise InputError if the folder has no complete export."""
    with ExitStack() as resources:
        resources.enter_context(data_set.read_lock(folder))
        manifest = data_set.read_manifest(folder)
        if manifest is None:
            raise InputError(
                f"the export in {folder} is damaged or was written by a different version",
                "export again with this version",
            )
        states = {True: SweepState.COMMITTED, False: SweepState.OPEN}
        sweeps = [
            Sweep(number=s.number, name=s.name, state=states[s.committed], opened_time=0) for s in manifest.sweeps
        ]
        source = Source(settings, sweeps, lambda _: _open_engine(resources, folder, settings.analyses), progress)
        yield Session(source, source.find_sweep(sweep_name))


@contextmanager
def open_state(
    folder: Path,
    settings: Settings,
    sweep_name: str | None = None,
    progress: Progress = Progress(),  # noqa: B008
) -> Iterator[Session]:
    """Open a state. When the block ends, store new results, unless another process is writing to the state.

    The state is exported just before the first analysis is computed. The export waits for other processes that
    analyse the state.
    """
    with ExitStack() as lock_stack, ExitStack() as resources:  # the lock is released after the results are stored
        store = resources.enter_context(Store(folder, settings.store, writable=False))
        if meta.partition(store) is not None:
            raise StateError(
                f"{folder} contains one partition of a collection",
                "analyse the whole collection through a worker, with --server",
            )
        view = View(store)

        def report_waiting() -> None:
            progress.begin("waiting for another analysis of this state")

        def open_engine(source: Source) -> SqlEngine:
            lock_stack.enter_context(export_cache.lock(folder, report_waiting))
            view.refresh()  # a removal may have just finished
            source.sweeps = view.sweeps()
            keep = not _has_unfinished_removal(view)
            data_folder = resources.enter_context(export_cache.data_set_folder(folder, keep=keep))
            _export(store, data_folder, source)
            return _open_engine(resources, data_folder, settings.analyses, data_folder.parent)

        source = Source(settings, view.sweeps(), open_engine, progress, store)
        yield Session(source, source.find_sweep(sweep_name))
        may_store = not _has_unfinished_removal(view)
        resources.close()
        if source.new_results and may_store:
            _store_results(folder, source)


def _has_unfinished_removal(view: View) -> bool:
    """Return whether a removal has started but not finished. The data that it deletes must not survive in a cache."""
    return view.has_cancelling_sweep or meta.url_to_forget(view.store) is not None


def _export(store: Store, data_folder: Path, source: Source) -> None:
    source.progress.begin("exporting")
    names = [sweep.name for sweep in source.committed()]
    limits = SqlLimits(source.settings.analyses.memory_mib, source.settings.analyses.threads)
    export_state(
        store,
        data_folder,
        limits,
        sweep_names=names,
        state_version=store.version(),
        on_rows=source.progress.count_rows,
    )


def _open_engine(
    resources: ExitStack, data_folder: Path, settings: AnalysisSettings, temporary_folder: Path | None = None
) -> SqlEngine:
    if settings.sql_engine == "spark":
        return resources.enter_context(_open_spark(data_folder, temporary_folder))
    memory_mib, threads = settings.memory_mib, settings.threads
    engine = DuckDb(data_folder, memory_mib=memory_mib, threads=threads, temporary_folder=temporary_folder)
    return resources.enter_context(engine)


def _open_spark(data_folder: Path, temporary_folder: Path | None) -> Spark:
    try:
        from streams.analyses.spark_engine import Spark, start_session
    except ModuleNotFoundError as error:
        hint = "run `pip install 'lostfound[spark]'`, or set analyses.sql_engine to duckdb"
        raise InputError(f"the Spark engine cannot be loaded: {error.name} is not installed", hint) from error
    return Spark(data_folder, start_session(), temporary_folder)


def _store_results(folder: Path, source: Source) -> None:
    if not os.access(folder, os.W_OK):
        return
    try:
        with Store(folder, source.settings.store.for_removals(), create_if_missing=False) as store:
            for key in source.store_new_results(store):
                log.warning("results exceed analyses.results_mib_max and are not stored", analysis=key.analysis)
    except StateLocked:
        log.info("results are not stored, because another process is writing to the state")
    except StateError as error:
        log.warning("results are not stored", reason=str(error))

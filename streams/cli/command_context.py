"""The values of the options that all commands share, and functions that open the state with these values."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state.changes import Changes
    from state.rows import RowReader
    from state.store import Store
    from state.view import View
    from streams.analyses.analysis_session import Progress, Session
    from streams.kafka.rows.worker_client import WorkerClient
    from streams.settings import Settings


@dataclass
class Context:
    """The values of the common options. Options override environment variables."""

    data_dir: Path = Path("var")
    config: Path | None = None
    verbosity: int = 0
    server: str | None = None

    @classmethod
    def from_environment(cls) -> Context:
        data_dir, config = os.environ.get("LOSTFOUND_DATA_DIR"), os.environ.get("LOSTFOUND_CONFIG")
        return cls(Path(data_dir or "var"), Path(config) if config else None)

    def settings(self, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
        """Return the default settings, overridden by the user's file and then by `overrides`.

        Also configure logging, because every command that logs loads its settings first. Raise SettingsError
        if a setting is invalid.
        """
        from streams.cli.log_output import configure

        configure(self.verbosity)
        return self._load_settings(overrides)

    def _load_settings(self, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
        from streams.settings import load

        return load(self.config, overrides)

    def _query_settings(self) -> Settings:
        """Return the settings. Configure logging only with `--verbose`, because queries log nothing without it.

        Importing structlog takes about a third of the time of a query.
        """
        return self.settings() if self.verbosity else self._load_settings()

    @contextmanager
    def open_for_writing(
        self, *, create: bool = False, only_removals: bool = False
    ) -> Iterator[tuple[Store, Settings]]:
        """Open the local state for writing; with `create`, create it if missing. Raise StateError on failure.

        With `only_removals`, limit the memory further, because removals need less of it, and delete the cached
        export, which may contain the removed pages.
        """
        from state import meta
        from state.store import Store

        settings = self.settings()
        limits = settings.store.for_removals() if only_removals else settings.store
        with ExitStack() as resources:
            if only_removals and self.data_dir.is_dir():
                resources.enter_context(_without_cached_export(self.data_dir))
            store = resources.enter_context(Store(self.data_dir, limits, create_if_missing=create))
            if create:
                meta.claim_scheme(store, settings.scheme)
            else:
                meta.read_scheme(store)  # raises StateError if a newer lostfound wrote the state
            yield store, settings

    @contextmanager
    def open_local_for_reading(self) -> Iterator[tuple[Store, Settings]]:
        """Open the local state for reading, even if `--server` is set. Raise StateError on failure."""
        from state import meta
        from state.store import Store

        settings = self._query_settings()
        with Store(self.data_dir, settings.store, writable=False) as store:
            meta.read_scheme(store)  # raises StateError if a newer lostfound wrote the state
            yield store, settings

    @contextmanager
    def open_view(self) -> Iterator[tuple[View, Settings]]:
        """Open the state for queries: the workers' state if `--server` is set, otherwise the local state.

        Raise StateError on failure.
        """
        from state.view import View

        if self.server is None:
            with self.open_local_for_reading() as (store, settings):
                yield View(store), settings
            return
        settings = self._query_settings()
        yield View(self._worker_client(settings).store()), settings

    @contextmanager
    def open_for_deletion(self) -> Iterator[tuple[RowReader, Callable[[Changes], None]]]:
        """Yield the stored rows, and a function that commits deletions: locally, or on Kafka as a retraction."""
        if self.server is None:
            with self.open_for_writing(only_removals=True) as (store, _):
                yield store, partial(store.write, sync=True)
            return
        client = self._worker_client(self.settings())
        yield client.store(), client.retract

    @contextmanager
    def open_for_decisions(self) -> Iterator[tuple[RowReader, Callable[[Changes], None]]]:
        """Yield the stored rows, and a function that stores decisions: locally, or by sending them to the workers."""
        if self.server is None:
            with self.open_for_writing() as (store, _):
                yield store, partial(store.write, sync=True)
            return
        client = self._worker_client(self.settings())
        yield client.store(), client.decide

    @contextmanager
    def analyse(self, title: str, sweep_name: str | None, data_set: Path | None, *, quiet: bool) -> Iterator[Session]:
        """Open a state or the export `data_set` for analyses, as of a sweep, and show the progress.

        With `--server`, analyse an export of the workers' state. Results that are computed from a local state inside
        the block are stored in this state when the block ends. Raise InputError or StateError on failure.
        """
        from streams.analyses.analysis_session import Progress
        from streams.analyses.open_session import open_export, open_state
        from streams.terminal import progress_bars

        settings = self.settings()
        with ExitStack() as resources:
            meter = resources.enter_context(progress_bars.show(progress_bars.AnalysisMeter(title), quiet=quiet))
            progress = Progress(meter.begin, meter.count_rows)
            if data_set is None and self.server is not None:
                data_set = resources.enter_context(self._exported_by_workers(settings, progress))
            opened = (
                open_state(self.data_dir, settings, sweep_name, progress)
                if data_set is None
                else open_export(data_set, settings, sweep_name, progress)
            )
            yield resources.enter_context(opened)

    def _exported_by_workers(self, settings: Settings, progress: Progress) -> AbstractContextManager[Path]:
        from streams.kafka.rows.export_client import temporary_export

        def show(step: str) -> None:
            progress.begin(f"exporting {step}")

        return temporary_export(self._worker_client(settings), settings.kafka.export_folder, show)

    def analyse_committed(self, sweep_name: str, *, quiet: bool = False) -> None:
        """Compute and store the analyses that `analyses.at_commit` lists. The state must not be open for writing."""
        settings = self.settings()
        if not settings.analyses.at_commit:
            return
        from streams.analyses.analysis_session import Progress
        from streams.analyses.at_commit import compute_at_commit
        from streams.terminal import progress_bars

        title = ", ".join(settings.analyses.at_commit)
        with progress_bars.show(progress_bars.AnalysisMeter(title), quiet=quiet) as meter:
            compute_at_commit(self.data_dir, settings, sweep_name, Progress(meter.begin, meter.count_rows))

    def send_sweep_event(self, event: str, name: str, response_type: Any = None) -> Any:
        """Ask the workers to "open", "commit" or "cancel" a sweep. Return the response, or raise StateError."""
        import msgspec

        body = msgspec.json.encode({"event": event, "name": name, "time": now_ms()})
        return self._worker_client(self.settings()).post("/sweeps", body, response_type)

    def worker_client(self) -> WorkerClient:
        """Return the client of the worker at the URL of `--server`."""
        return self._worker_client(self.settings())

    def _worker_client(self, settings: Settings) -> WorkerClient:
        from streams.kafka.rows.worker_client import WorkerClient, token_from_environment

        assert self.server is not None
        # Workers query one another. Use a longer timeout than theirs to receive their error, which names the worker
        # that did not answer.
        return WorkerClient(self.server, 3 * settings.kafka.answer_seconds_max, token_from_environment())


@contextmanager
def _without_cached_export(data_dir: Path) -> Iterator[None]:
    """Delete the cached export once no analysis uses it, and let no analysis begin until the block ends."""
    import click

    from streams.analyses import export_cache

    with export_cache.lock(data_dir, lambda: click.echo("waiting for an analysis of this state", err=True)):
        export_cache.discard(data_dir)
        yield


def now_ms() -> int:
    """Return the time in ms since the epoch. Only commands read the clock; they pass the time to the library."""
    return time.time_ns() // 1_000_000

"""The options that all commands share, and the functions that open the state with these options."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state.changes import Changes
    from state.rows import RowReader
    from state.store import Store
    from state.view import View
    from streams.kafka.rows.worker_client import WorkerClient
    from streams.settings import Settings


@dataclass
class Context:
    """The common options. Options override environment variables; the last value of a repeated option is used."""

    data_dir: Path = Path("var")
    config: Path | None = None
    verbosity: int = 0
    server: str | None = None

    @classmethod
    def from_environment(cls) -> Context:
        data_dir, config = os.environ.get("LOSTFOUND_DATA_DIR"), os.environ.get("LOSTFOUND_CONFIG")
        return cls(Path(data_dir or "var"), Path(config) if config else None)

    def settings(self, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
        """Return the defaults, overridden by the user's file, then by `overrides`. Raise SettingsError if invalid.

        Also configure the log, because every command starts by loading its settings.
        """
        from streams.cli.log_output import configure
        from streams.settings import load

        configure(self.verbosity)
        return load(self.config, overrides)

    @contextmanager
    def writer(self, *, create: bool = False) -> Iterator[tuple[Store, Settings]]:
        """Open the local state for writing, or a new one if `create` is set. Raise StateError if this fails."""
        from state import meta
        from state.store import Store

        settings = self.settings()
        with Store(self.data_dir, settings.store, create_if_missing=create) as store:
            if create:
                meta.claim_scheme(store, settings.scheme)
            else:
                meta.read_scheme(store)  # raises StateError if the format is newer
            yield store, settings

    @contextmanager
    def local_store(self) -> Iterator[tuple[Store, Settings]]:
        """Open the local state for reading, even if a server is set. Raise StateError if this fails."""
        from state import meta
        from state.store import Store

        settings = self.settings()
        with Store(self.data_dir, settings.store, writable=False) as store:
            meta.read_scheme(store)  # raises StateError if the format is newer
            yield store, settings

    @contextmanager
    def reader(self) -> Iterator[tuple[View, Settings]]:
        """Open the local state, or the state of the workers, for queries. Raise StateError if this fails."""
        from state.view import View

        if self.server is None:
            with self.local_store() as (store, settings):
                yield View(store), settings
            return
        settings = self.settings()
        yield View(self._worker_client(settings).store()), settings

    @contextmanager
    def deletion(self) -> Iterator[tuple[RowReader, Callable[[Changes], None]]]:
        """Yield the stored rows and a function that commits deletions, either locally or as a retraction on Kafka."""
        if self.server is None:
            with self.writer() as (store, _):
                yield store, partial(store.write, sync=True)
            return
        client = self._worker_client(self.settings())
        yield client.store(), client.retract

    def send_sweep_event(self, event: str, name: str, response_type: Any = None) -> Any:
        """Ask the workers to "open", "commit" or "cancel" a sweep. Return the response, or raise StateError."""
        import msgspec

        body = msgspec.json.encode({"event": event, "name": name, "time": now_ms()})
        return self._worker_client(self.settings()).post("/sweeps", body, response_type)

    def _worker_client(self, settings: Settings) -> WorkerClient:
        from streams.kafka.rows.worker_client import WorkerClient, token_from_environment

        assert self.server is not None
        # Workers query one another. Wait longer than they do, so that the error names the worker that did not answer.
        return WorkerClient(self.server, 3 * settings.kafka.answer_seconds_max, token_from_environment())


def now_ms() -> int:
    """Return the time in ms since 1970. Only commands read the clock; they pass the time to the library."""
    return time.time_ns() // 1_000_000

"""The options that all commands share, and how a command opens the state with them."""

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

DATA_DIR = Path("var")


@dataclass
class Context:
    """The common options of a command. The environment sets them first, then the group, then the command itself."""

    data_dir: Path = DATA_DIR
    config: Path | None = None
    verbosity: int = 0
    server: str | None = None

    @classmethod
    def from_environment(cls) -> Context:
        context = cls()
        if data_dir := os.environ.get("LOSTFOUND_DATA_DIR"):
            context.data_dir = Path(data_dir)
        if config := os.environ.get("LOSTFOUND_CONFIG"):
            context.config = Path(config)
        return context

    def settings(self, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
        """Return the defaults, overridden by the user's file, then by `overrides`. Raises SettingsError.

        Also configure the log, as every command starts with its settings.
        """
        from streams.cli.log_output import configure
        from streams.settings import load

        configure(self.verbosity)
        return load(self.config, overrides)

    @contextmanager
    def writer(self, *, make: bool = False) -> Iterator[tuple[Store, Settings]]:
        """Open the local folder for writing; with `make`, create it if it does not exist. Raises StateError."""
        from state import meta
        from state.store import Store

        settings = self.settings()
        with Store(self.data_dir, settings.store, create_if_missing=make) as store:
            if make:
                meta.claim_scheme(store, settings.scheme)
            else:
                meta.read_scheme(store)  # refuses a newer format
            yield store, settings

    @contextmanager
    def forgetter(self) -> Iterator[tuple[RowReader, Callable[[Changes], None]]]:
        """Yield the stored rows and a function that commits a removal: a local write, or a retraction on Kafka."""
        if self.server is None:
            with self.writer() as (store, _):
                yield store, partial(store.write, sync=True)
            return
        client = self._worker_client(self.settings())
        yield client.store(), client.retract

    @contextmanager
    def reader(self) -> Iterator[tuple[View, Settings]]:
        """Open the state for reading, which works while another process writes. Raises StateError."""
        from state.view import View

        settings = self.settings()
        if self.server is not None:
            yield View(self._worker_client(settings).store()), settings
            return
        with self.local_store() as (store, settings):
            yield View(store), settings

    @contextmanager
    def local_store(self) -> Iterator[tuple[Store, Settings]]:
        """Open the local folder for reading, even if a server is set. Raises StateError."""
        from state import meta
        from state.store import Store

        settings = self.settings()
        with Store(self.data_dir, settings.store, writable=False) as store:
            meta.read_scheme(store)  # refuses a newer format
            yield store, settings

    def send_sweep_event(self, event: str, name: str, kind: Any = None) -> Any:
        """Send "open", "commit" or "cancel" of a sweep to the workers; return their answer, a `kind`.

        Raises StateError.
        """
        import msgspec

        body = msgspec.json.encode({"event": event, "name": name, "time": now_ms()})
        return self._worker_client(self.settings()).post("/sweeps", body, kind)

    def _worker_client(self, settings: Settings) -> WorkerClient:
        from streams.kafka.rows.worker_client import WorkerClient, token_from_environment

        assert self.server is not None
        # Longer than the workers wait for one another, so that the error names the worker that did not answer.
        return WorkerClient(self.server, 3 * settings.kafka.answer_seconds_max, token_from_environment())


def now_ms() -> int:
    """The current time in ms since 1970. Only commands read the clock; the library takes the time as an argument."""
    return time.time_ns() // 1_000_000

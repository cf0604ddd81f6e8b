"""What commands share: where the state is, which settings hold, and how an answer is written."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streams.terminal.escape import plain

if TYPE_CHECKING:
    from state.changes import Changes
    from state.rows import RowReader
    from state.store import Store
    from state.view import View
    from streams.kafka.rows.worker_client import WorkerClient
    from streams.settings import Settings

DATA_DIR = Path("var")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Place:
    """Where a command works; filled from the group's options, the command's own win."""

    data_dir: Path = DATA_DIR
    config: Path | None = None
    verbosity: int = 0
    server: str | None = None

    def settings(self, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
        """The defaults, the user's file over them, and `overrides` over both; raises SettingsError."""
        from streams.cli.log_output import configure
        from streams.settings import load

        configure(self.verbosity)
        return load(self.config, overrides)

    @contextmanager
    def writer(self, *, make: bool = False) -> Iterator[tuple[Store, Settings]]:
        """The state opened for writing, with `make` also where there is none yet; raises StateError."""
        from state import meta
        from state.store import Store

        settings = self.settings()
        with Store(self.data_dir, settings.store, make=make) as store:
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
        from streams.kafka.rows.worker_client import RemoteStore

        client = self._peer(self.settings())
        yield RemoteStore(client), client.retract

    @contextmanager
    def reader(self) -> Iterator[tuple[View, Settings]]:
        """A reading view of the state; works while another process writes. Raises StateError."""
        from state.view import View

        settings = self.settings()
        if self.server is not None:
            from streams.kafka.rows.worker_client import RemoteStore

            yield View(RemoteStore(self._peer(settings))), settings
            return
        with self.folder() as (store, settings):
            yield View(store), settings

    @contextmanager
    def folder(self) -> Iterator[tuple[Store, Settings]]:
        """The state folder of this machine, opened for reading; raises StateError."""
        from state import meta
        from state.store import Store

        settings = self.settings()
        with Store(self.data_dir, settings.store, writable=False) as store:
            meta.read_scheme(store)  # refuses a newer format
            yield store, settings

    def sweep_event(self, event: str, name: str, kind: Any = None) -> Any:
        """Hand a step in a sweep's life to the workers; returns their answer, a `kind`. Raises StateError."""
        import msgspec

        body = msgspec.json.encode({"event": event, "name": name, "time": now_ms()})
        peer = self._peer(self.settings())
        return peer.decode_response(peer.post("/sweeps", body, seconds_max=3600.0), msgspec.msgpack.Decoder(kind))

    def _peer(self, settings: Settings) -> WorkerClient:
        from streams.kafka.rows.worker_client import WorkerClient, token_from_environment

        assert self.server is not None
        # Longer than the workers wait for one another, so that the one which did not answer is named.
        return WorkerClient(self.server, 3 * settings.kafka.answer_seconds_max, token_from_environment())


class Share(click.FloatRange):
    """A number from 0 to 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; NaN, which compares with nothing, is none."""
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is no number.", param, ctx) if math.isnan(number) else number


def now_ms() -> int:
    """The time, in ms since the epoch: read here, at the edge, and handed down."""
    return time.time_ns() // 1_000_000


def _into_place(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and option.name:
        setattr(context.ensure_object(Place), option.name, value)


def common(command: F) -> F:
    """The options that the group and every command take, so that they may stand before or after its name."""
    for option in (
        click.option(
            "-v",
            "--verbose",
            "verbosity",
            count=True,
            default=None,
            expose_value=False,
            callback=_into_place,
            help="Log more to stderr; -vv for everything.",
        ),
        click.option(
            "--config",
            type=click.Path(dir_okay=False, path_type=Path),
            expose_value=False,
            callback=_into_place,
            help="Settings that differ from the defaults (TOML; LOSTFOUND_CONFIG).",
        ),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            expose_value=False,
            callback=_into_place,
            help="Folder of the state (LOSTFOUND_DATA_DIR; default: var).",
        ),
    ):
        command = option(command)
    return command


def served(command: F) -> F:
    """The common options, and the one that asks workers instead of a folder."""
    option = click.option(
        "--server",
        metavar="URL",
        envvar="LOSTFOUND_SERVER",
        expose_value=False,
        callback=_into_place,
        help="Ask the workers on Kafka, by any one of them, not a folder (LOSTFOUND_SERVER; their LOSTFOUND_TOKEN).",
    )
    return option(common(command))


def as_json(command: F) -> F:
    """The option for machines."""
    return click.option("--json", "json", is_flag=True, help="One JSON object a line, as docs/json.md says.")(command)


def tell(message: str, hint: str) -> None:
    """Say on stderr what is wrong, and what to do next."""
    click.secho(f"lostfound: {plain(message)}", fg="red" if not hint else None, err=True)
    if hint:
        click.secho(f"  {plain(hint)}", dim=True, err=True)

"""`lostfound sweep`: the life of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli.json_output import as_row, write_json
from streams.cli.options import Place, as_json, now_ms, served
from streams.errors import InputError
from streams.terminal.escape import counted

if TYPE_CHECKING:
    from state.model import Sweep
    from state.store import Store


@click.group("sweep")
def command() -> None:
    """Open, commit, cancel and list sweeps.

    A URL is missing only once a sweep that should have held it is committed.
    """


@command.command("open")
@click.argument("name")
@served
@click.pass_obj
def open_(place: Place, name: str) -> None:
    """Open a sweep; `ingest` opens one by itself when there is none of its name."""
    from state.sweeps import open_sweep
    from streams.engine.sweep_commands import finish_cancelling

    if place.server is not None:
        place.sweep_event("open", name)
        click.echo(f"sweep {name} is open")
        return
    with place.writer(make=True) as (store, _):
        finish_cancelling(store)  # one of this name may be left
        open_sweep(store, name, now_ms())
    click.echo(f"sweep {name} is open")


@command.command("commit")
@click.argument("name")
@served
@click.pass_obj
def commit(place: Place, name: str) -> None:
    """Commit an open sweep: what it does not hold counts as missing from now on."""
    from state import sweeps

    if place.server is not None:
        place.sweep_event("commit", name)
        click.echo(f"sweep {name} will be committed once everything published before is done")
        return
    with place.writer() as (store, _):
        done = sweeps.commit(store, _named(store, name), now_ms())
    click.echo(f"sweep {name} is committed with {counted(done.captures, 'capture')}")


@command.command("cancel")
@click.argument("name")
@served
@click.pass_obj
def cancel(place: Place, name: str) -> None:
    """Take back everything that a sweep brought, open or committed."""
    from streams.engine import sweep_commands
    from streams.forgetting import Forgotten

    if place.server is not None:
        gone = place.sweep_event("cancel", name, Forgotten)
    else:
        with place.writer() as (store, _):
            gone = sweep_commands.cancel(store, _named(store, name))
    lost = f"{counted(gone.captures, 'capture')} and {counted(gone.documents, 'document')}"
    click.echo(f"sweep {name} is cancelled, and {lost} with it")


@command.command("list")
@as_json
@served
@click.pass_obj
def list_(place: Place, json: bool) -> None:
    """List all sweeps in their order."""
    with place.reader() as (view, _):
        sweeps = view.sweeps()
    if json:
        write_json(*(_row(sweep) for sweep in sweeps))
    else:
        from streams.terminal import tables

        tables.out(tables.sweeps(sweeps))


def _named(store: Store, name: str) -> Sweep:
    from state.sweeps import named

    sweep = named(store, name)
    if sweep is None:
        raise InputError(f"there is no sweep {name!r}", "`lostfound sweep list` shows all")
    return sweep


def _row(sweep: Sweep) -> dict[str, Any]:
    row = as_row(sweep)
    return {"sweep": row.pop("name"), **row, "state": sweep.state.name.lower()}

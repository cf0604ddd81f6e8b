"""`lostfound sweep`: open, commit, cancel and list sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli.context import Context, now_ms
from streams.cli.json_output import to_json_object, write_json
from streams.cli.options import json_option, server_options
from streams.errors import InputError
from streams.terminal.escape import pluralise

if TYPE_CHECKING:
    from state.model import Sweep
    from state.store import Store


@click.group
def sweep() -> None:
    """Open, commit, cancel and list sweeps.

    A URL counts as missing only after a sweep that should contain it is committed.
    """


@sweep.command("open")
@click.argument("name")
@server_options
@click.pass_obj
def open_(context: Context, name: str) -> None:
    """Open a new sweep.

    `lostfound ingest` opens its sweep itself if it does not exist.
    """
    from state.sweeps import open_sweep
    from streams.engine.sweep_commands import finish_cancelling

    if context.server is not None:
        context.send_sweep_event("open", name)
    else:
        with context.writer(make=True) as (store, _):
            finish_cancelling(store)  # an interrupted cancellation may still occupy the name
            open_sweep(store, name, now_ms())
    click.echo(f"sweep {name} is open")


@sweep.command("commit")
@click.argument("name")
@server_options
@click.pass_obj
def commit(context: Context, name: str) -> None:
    """Commit an open sweep.

    From then on, URLs that the sweep should contain but does not contain count as missing.
    """
    from state import sweeps

    if context.server is not None:
        context.send_sweep_event("commit", name)
        click.echo(f"sweep {name} will be committed when all pages published so far are processed")
        return
    with context.writer() as (store, _):
        committed = sweeps.commit(store, _find_sweep(store, name), now_ms())
    click.echo(f"sweep {name} is committed with {pluralise(committed.captures, 'capture')}")


@sweep.command("cancel")
@click.argument("name")
@server_options
@click.pass_obj
def cancel(context: Context, name: str) -> None:
    """Cancel a sweep, open or committed, and delete its captures."""
    from streams.engine import sweep_commands
    from streams.forgetting import Forgotten

    if context.server is not None:
        forgotten = context.send_sweep_event("cancel", name, Forgotten)
    else:
        with context.writer() as (store, _):
            forgotten = sweep_commands.cancel(store, _find_sweep(store, name))
    counts = f"{pluralise(forgotten.captures, 'capture')} and {pluralise(forgotten.documents, 'document')}"
    click.echo(f"sweep {name} is cancelled; deleted {counts}")


@sweep.command("list")
@json_option
@server_options
@click.pass_obj
def list_(context: Context, json: bool) -> None:
    """List all sweeps in the order in which they were opened."""
    with context.reader() as (view, _):
        sweeps = view.sweeps()
    if json:
        write_json(*(_to_json_object(sweep) for sweep in sweeps))
    else:
        from streams.terminal import layout, tables

        layout.print_to_stdout(tables.sweeps_table(sweeps))


def _find_sweep(store: Store, name: str) -> Sweep:
    from state.sweeps import named

    sweep = named(store, name)
    if sweep is None:
        raise InputError(f"sweep {name!r} does not exist", "list all sweeps with `lostfound sweep list`")
    return sweep


def _to_json_object(sweep: Sweep) -> dict[str, Any]:
    fields = to_json_object(sweep)
    return {"sweep": fields.pop("name"), **fields, "state": sweep.state.name.lower()}

"""`lostfound ingest` and `lostfound sweep`: read crawl files into sweeps; open, commit, cancel and list sweeps."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streams.cli.command_context import Context, now_ms
from streams.cli.options import common_options, json_option, server_options, sweep_input_options
from streams.cli.output import to_json_object, write_json
from streams.errors import InputError, NoPages
from streams.terminal.escape import escape_text, pluralise

if TYPE_CHECKING:
    from state.model import Sweep
    from state.store import Store


@click.command
@sweep_input_options
@click.option(
    "--bad-records",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    help="skip: write bad records to dead-letters.jsonl and continue; fail: stop at the first bad record.",
)
@json_option
@common_options
def ingest(
    context: Context,
    paths: tuple[str, ...],
    sweep_name: str,
    keep_open: bool,
    bad_records: str,
    as_json: bool,
    **input_options: Any,  # parameters of `read_options`
) -> None:
    """Read crawl files into a sweep.

    Paths are WARC, ARC, WET, WACZ, JSONL, JSON or CSV files, folders of such files, or - for stdin. With --base-url,
    the path is a folder of HTML. The command can be stopped at any time; run it again to resume.
    """
    from state.sweep_life import check_name
    from streams.cli.input_options import read_options
    from streams.engine.ingest import ingest as ingest_files
    from streams.engine.ingest import list_input_files
    from streams.sketch.compile_cache import describe_compilation
    from streams.terminal import layout, progress_bars, tables

    # Both calls raise InputError or ReadError for bad arguments before a state is created.
    options = read_options(context.settings({}), paths, **input_options)
    file_names = list_input_files(paths, context.data_dir, options)
    check_name(sweep_name)
    started = time.monotonic()
    progress = progress_bars.ingest_meter(sweep_name, quiet=as_json)
    with (
        _remove_new_state_without_pages(context.data_dir),
        context.open_for_writing(create=True) as (store, settings),
        progress as meter,
    ):
        meter.show_compiling(describe_compilation())
        summary = ingest_files(
            store,
            settings,
            file_names,
            sweep_name,
            now=now_ms(),
            keep_open=keep_open,
            fail_on_rejected=bad_records == "fail",
            report_progress=meter.update,
            report_read=meter.count_read,
            options=options,
        )
        if summary.older_than is not None:
            _warn_of_order(_find_sweep(store, sweep_name), _find_sweep(store, summary.older_than))
    if as_json:
        write_json(summary)
    else:
        layout.print_to_stdout(tables.ingest_summary(summary, time.monotonic() - started))
    if summary.committed:
        context.analyse_committed(sweep_name, quiet=as_json)


def _warn_of_order(sweep: Sweep, predecessor: Sweep) -> None:
    from streams.terminal.layout import format_day

    name, earlier_name = escape_text(sweep.name), escape_text(predecessor.name)
    click.echo(
        f"sweep {name} (newest capture {format_day(sweep.newest_time)}) is older than the previous sweep "
        f"{earlier_name} (newest capture {format_day(predecessor.newest_time)}), but `find` treats {name} as newer; "
        f"to correct the order, cancel sweep {earlier_name} and ingest it again",
        err=True,
    )


@contextmanager
def _remove_new_state_without_pages(folder: Path) -> Iterator[None]:
    """Remove a new state folder if the ingest finds no page."""
    is_new = not folder.exists()
    try:
        yield
    except NoPages:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


@click.group
def sweep() -> None:
    """Open, commit, cancel and list sweeps.

    A sweep is one named pass of a crawl. A URL counts as missing once a committed sweep has visited its host and
    found no page at the URL.
    """


@sweep.command("open")
@click.argument("name")
@server_options
def open_(context: Context, name: str) -> None:
    """Open a new sweep.

    This is optional: `lostfound ingest` opens sweeps that do not exist yet.
    """
    from state.sweeps import open_sweep
    from streams import forgetting

    if context.server is not None:
        context.send_sweep_event("open", name)
    else:
        with context.open_for_writing(create=True) as (store, _):
            # An interrupted cancellation may still occupy the name.
            forgetting.commit_removals(forgetting.finish_interrupted_removals(store), partial(store.write, sync=True))
            open_sweep(store, name, now_ms())
    click.echo(f"sweep {name} is open")


@sweep.command("commit")
@click.argument("name")
@server_options
def commit(context: Context, name: str) -> None:
    """Commit an open sweep.

    From then on, known URLs on the sweep's hosts count as missing if the sweep did not capture them.
    """
    from state import sweeps

    if context.server is not None:
        context.send_sweep_event("commit", name)
        click.echo(f"sweep {name} will be committed once all pages published so far are processed")
        return
    with context.open_for_writing() as (store, _):
        committed = sweeps.commit(store, _find_sweep(store, name), now_ms())
    click.echo(f"sweep {name} is committed with {pluralise(committed.captures, 'capture')}")
    context.analyse_committed(name)


@sweep.command("cancel")
@click.argument("name")
@server_options
def cancel(context: Context, name: str) -> None:
    """Cancel an open or committed sweep and delete its captures."""
    from state.sweeps import captures_per_host
    from streams import forgetting
    from streams.terminal import progress_bars

    if context.server is not None:
        totals = context.send_sweep_event("cancel", name, forgetting.RemovalTotals)
    else:
        with context.open_for_writing(only_removals=True) as (store, _):
            sweep = _find_sweep(store, name)
            removals = forgetting.cancel_sweep(store, sweep)
            captures = sum(captures_per_host(store, sweep.number).values())
            with progress_bars.removal_meter(f"cancel {name}", captures) as meter:
                totals = forgetting.commit_removals(removals, partial(store.write, sync=True), meter.update)
    counts = f"{pluralise(totals.captures, 'capture')} and {pluralise(totals.documents, 'document')}"
    click.echo(f"sweep {name} is cancelled; deleted {counts}")


@sweep.command("list")
@json_option
@server_options
def list_(context: Context, as_json: bool) -> None:
    """List all sweeps in the order in which they were opened."""
    from streams.terminal import layout, tables

    with context.open_view() as (view, _):
        sweeps = view.sweeps()
    if not as_json:
        layout.print_to_stdout(tables.sweeps_table(sweeps))
        return
    for stored_sweep in sweeps:
        fields = to_json_object(stored_sweep)
        write_json({"sweep": fields.pop("name"), **fields, "state": stored_sweep.state.name.lower()})


def _find_sweep(store: Store, name: str) -> Sweep:
    from state.sweeps import named

    sweep = named(store, name)
    if sweep is None:
        raise InputError(f"sweep {name!r} does not exist", "list all sweeps with `lostfound sweep list`")
    return sweep

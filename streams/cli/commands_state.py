"""`lostfound state` and `lostfound forget`: check, measure, back up and dump the state, and delete from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import common_options, json_option, server_options
from streams.cli.output import print_results, write_json
from streams.errors import InputError
from streams.terminal.escape import escape_text, pluralise

if TYPE_CHECKING:
    from state.store import Store


@click.group
def state() -> None:
    """Check, measure, back up and dump the state."""


@state.command
@click.option(
    "--repair",
    is_flag=True,
    help="Before checking: if a write-ahead log is damaged, roll back to the last batch before the damage.",
)
@json_option
@common_options
def check(context: Context, repair: bool, as_json: bool) -> Exit:
    """Check every invariant of the state and list violations.

    The exit code is 1 if there are violations. If --data-dir is a worker's partition (DATA/partitions/N), only
    invariants within that partition are checked.

    --repair rolls the state back to the last batch before the damage in a write-ahead log, and lists what to ingest
    again. The damaged logs are kept.
    """
    from state import meta
    from state.check import check as find_violations
    from state.row_counter import RowCounter
    from streams.terminal import progress_bars

    if repair:
        _repair(context, as_json=as_json)
    violations = 0
    with context.open_local_for_reading() as (store, settings):
        partition = meta.partition(store)
        owns = _ownership_test(*partition) if partition else None
        counter = RowCounter(store)
        problems = find_violations(counter.rows, postings_max=settings.limits.bucket_postings_max, owns=owns)
        meter = progress_bars.row_meter("state check", counter)
        for violation in progress_bars.iterate(problems, meter, quiet=as_json and sys.stdout.isatty()):
            violations += 1
            if as_json:
                write_json(violation)
            else:
                click.echo(f"{violation.family} {violation.key}: {violation.description}")
    click.echo(pluralise(violations, "invariant violation") if violations else "the state is sound", err=True)
    return Exit.NOTHING if violations else Exit.OK


def _repair(context: Context, *, as_json: bool) -> None:
    """Roll back to the last batch before the damage in a write-ahead log, and print what to ingest again."""
    from state import meta
    from state.log_repair import repair
    from streams.engine.lost_batches import lost_inputs

    repaired = repair(context.data_dir)
    if repaired is None:
        click.echo("no write-ahead log is damaged", err=True)
        return
    with context.open_local_for_reading() as (store, _):
        lost = lost_inputs(repaired.removed_cursors, repaired.removed_sweeps, store)
        is_partition = meta.partition(store) is not None
    if as_json:
        kept_logs = [str(file) for file in repaired.kept_logs]
        write_json({"log": str(repaired.log), "kept_logs": kept_logs, "ingest_again": lost})
        return
    click.echo(f"removed all batches after byte {repaired.intact_bytes:,} of {repaired.log}")
    for file in repaired.kept_logs:
        click.echo(f"the damaged log is kept as {file}")
    for lost_input in lost:
        source = escape_text(lost_input.source) or "the first file"
        click.echo(f"sweep {escape_text(lost_input.sweep)}: ingest again the input that contains {source}")
    if is_partition:
        click.echo("start the worker: it reads the removed batches from the changelog")
    else:
        click.echo("also repeat every `forget` and `sweep` command that ran after the last ingest began")


def _ownership_test(partition: int, partition_count: int) -> Callable[[bytes], bool]:
    """Return a function that tells whether a key belongs to the partition."""
    from streams.operators.routing import partition_of

    return lambda key: partition_of(key, partition_count) == partition


@state.command
@json_option
@common_options
def stats(context: Context, as_json: bool) -> None:
    """Show sizes, counts, and how often each limit was reached."""
    from state.stats import stats as collect_stats
    from streams.terminal import layout, tables

    with context.open_local_for_reading() as (store, _):
        result = collect_stats(store)
    if as_json:
        write_json(result)
    else:
        layout.print_to_stdout(tables.stats_tables(result))


@state.command
@click.argument("target", type=click.Path(path_type=Path))
@common_options
def backup(context: Context, target: Path) -> None:
    """Copy the state to TARGET, a new folder.

    The copy is consistent, even during an ingest. To use the copy, pass it as --data-dir.
    """
    from state.backup import backup as copy_state
    from streams.terminal import progress_bars

    with (
        context.open_local_for_reading() as (store, _),
        progress_bars.show(progress_bars.copy_meter(store.path, target)),
    ):
        size_bytes = copy_state(store, target)
    click.echo(f"copied {size_bytes / 1e6:,.1f} MB to {target}")


@state.command
@click.argument("family", required=False)
@click.option("--prefix", "key_prefix", metavar="HEX", help="Write only rows whose keys start with these bytes.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Maximum number of rows per column family.")
@common_options
def dump(context: Context, family: str | None, key_prefix: str | None, limit: int | None) -> None:
    """Write the rows of one column family, or of all families, as JSON."""
    with context.open_local_for_reading() as (store, _):
        for row in _dump_rows(store, family, key_prefix or "", limit):
            write_json(row)


def _dump_rows(store: Store, family: str | None, key_prefix: str, limit: int | None) -> Iterator[dict[str, Any]]:
    from state.dump import dump as dump_family
    from state.families import Family

    families = {member.value: member for member in Family}
    if family is not None and family not in families:
        raise InputError(f"column family {family!r} does not exist", f"use one of {', '.join(families)}")
    try:
        prefix_bytes = bytes.fromhex(key_prefix)
    except ValueError:
        raise InputError(f"--prefix {key_prefix!r} is not hex", "use pairs of hex digits, such as 6f7267") from None
    for name in families if family is None else [family]:
        for row in islice(dump_family(store, families[name], prefix_bytes), limit):
            yield {"family": name, **row}


@state.command
@json_option
@common_options
def hot(context: Context, as_json: bool) -> Exit:
    """List buckets and sampled shingles that have reached their limit.

    The usual cause is boilerplate that many documents share, or a very large cluster.
    """
    from state.stats import hot_keys
    from streams.terminal import tables

    with context.open_local_for_reading() as (store, settings):
        postings_max, sample_postings_max = settings.limits.bucket_postings_max, settings.limits.sample_postings_max
        results = list(hot_keys(store, postings_max=postings_max, sample_postings_max=sample_postings_max))
    return print_results(
        results, tables.hot_table, "no bucket or sampled shingle has reached its limit", as_json=as_json
    )


@click.command
@click.argument("url_or_id", metavar="URL|DOC")
@json_option
@server_options
def forget(context: Context, url_or_id: str, as_json: bool) -> Exit:
    """Delete a URL or a document, with all its captures.

    Any decision recorded for the URL with `moved` or `gone` is deleted too. Only the affected clusters are rebuilt.
    To restore the pages, ingest them again in a new sweep.
    """
    from state.view import View
    from streams import forgetting, query
    from streams.terminal import progress_bars
    from streams.urls import url_key

    only_writer = context.server is None
    with context.open_for_deletion() as (rows, commit):
        if "://" in url_or_id:
            removals = forgetting.forget_url(rows, url_key(url_or_id), only_writer=only_writer)
        else:
            removals = forgetting.forget_document(rows, query.resolve(View(rows), url_or_id), only_writer=only_writer)
        with progress_bars.removal_meter("forget", quiet=as_json) as meter:
            totals = forgetting.commit_removals(removals, commit, meter.update)
    if as_json:
        write_json(totals)
    if not totals.captures and not totals.documents and not totals.decisions:
        click.echo(f"the state has no capture of {escape_text(url_or_id)}", err=True)
        return Exit.NOTHING
    if not as_json:
        decision = " and the decision about the URL" if totals.decisions else ""
        click.echo(
            f"deleted {pluralise(totals.captures, 'capture')} and {pluralise(totals.documents, 'document')}"
            f"{decision}; "
            f"rebuilt the clusters of {pluralise(totals.rejoined, 'other document')}"
        )
    return Exit.OK

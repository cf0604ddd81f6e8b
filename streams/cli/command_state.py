"""`lostfound state`: check, measure, back up and dump the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streams.cli.context import Context
from streams.cli.exit_codes import Exit
from streams.cli.json_output import write_json
from streams.cli.options import common_options, json_option
from streams.errors import InputError
from streams.terminal.escape import pluralise

if TYPE_CHECKING:
    from state.store import Store


@click.group
def state() -> None:
    """Check, measure, back up and dump the state."""


@state.command
@json_option
@common_options
@click.pass_obj
def check(context: Context, json: bool) -> Exit | None:
    """Check every invariant of the state and list violations.

    The exit code is 1 if there are any. For a worker's partition (DATA/partitions/N), only invariants that concern
    this partition alone are checked.
    """
    from state import meta
    from state.check import check as find_violations

    violations = 0
    with context.local_store() as (store, settings):
        owns = _partition_owner(meta.partition(store))
        for violation in find_violations(store, postings_max=settings.limits.bucket_postings_max, owns=owns):
            violations += 1
            if json:
                write_json(violation)
            else:
                click.echo(f"{violation.family} {violation.key}: {violation.what}")
    click.echo(pluralise(violations, "invariant violation") if violations else "the state is sound", err=True)
    return Exit.NOTHING if violations else None


def _partition_owner(partition: tuple[int, int] | None) -> Callable[[bytes], bool] | None:
    """Return whether a key belongs to the partition (its number, of how many); None for an unpartitioned state."""
    from streams.operators.routing import partition_of

    if partition is None:
        return None
    number, count = partition
    return lambda key: partition_of(key, count) == number


@state.command
@json_option
@common_options
@click.pass_obj
def stats(context: Context, json: bool) -> None:
    """Show sizes, counts and how often each limit was reached."""
    from state.stats import stats as collect_stats
    from streams.terminal import layout, tables

    with context.local_store() as (store, _):
        result = collect_stats(store)
    if json:
        write_json(result)
    else:
        layout.print_to_stdout(tables.stats_tables(result))


@state.command
@click.argument("target", type=click.Path(path_type=Path))
@common_options
@click.pass_obj
def backup(context: Context, target: Path) -> None:
    """Copy the state into the new folder TARGET.

    The copy is consistent, even while an ingest runs. To restore it, use it as --data-dir.
    """
    from state.backup import backup as copy_state

    with context.local_store() as (store, _):
        size_bytes = copy_state(store, target)
    click.echo(f"copied {size_bytes / 1e6:,.1f} MB to {target}")


@state.command
@click.argument("family", required=False)
@click.option("--prefix", "key_prefix", metavar="HEX", default="", help="Only keys that start with these bytes.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of rows per column family.")
@common_options
@click.pass_obj
def dump(context: Context, family: str | None, key_prefix: str, limit: int | None) -> None:
    """Write the rows of one column family, or of all, as JSON."""
    with context.local_store() as (store, _):
        for row in _dump_rows(store, family, key_prefix, limit):
            write_json(row)


@state.command
@json_option
@common_options
@click.pass_obj
def hot(context: Context, json: bool) -> Exit | None:
    """List buckets and sampled shingles that reached their limit.

    They come from boilerplate text that many documents share, or from very large clusters.
    """
    from state.stats import hot as find_hot
    from streams.terminal import layout, tables

    with context.local_store() as (store, settings):
        limits = settings.limits
        results = list(
            find_hot(
                store,
                postings_max=limits.bucket_postings_max,
                sample_postings_max=limits.sample_postings_max,
            )
        )
    if json:
        write_json(*results)
    elif results:
        layout.print_to_stdout(tables.hot_table(results))
    if not results:
        click.echo("no bucket or sampled shingle has reached its limit", err=True)
        return Exit.NOTHING
    return None


def _dump_rows(store: Store, family: str | None, key_prefix: str, limit: int | None) -> Iterator[dict[str, Any]]:
    from state.dump import dump as dump_family
    from state.families import Family

    names = [known.value for known in Family]
    if family is not None and family not in names:
        raise InputError(f"column family {family!r} does not exist", f"use one of {', '.join(names)}")
    try:
        prefix_bytes = bytes.fromhex(key_prefix)
    except ValueError:
        raise InputError(f"--prefix {key_prefix!r} is not hex", "use pairs of hex digits, such as 6f7267") from None
    for selected in [Family(family)] if family else Family:
        for row in islice(dump_family(store, selected, prefix_bytes), limit):
            yield {"family": selected.value, **row}

"""`lostfound state`: what the state holds, whether it is sound, and copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streams.cli.exit_codes import Exit
from streams.cli.json_output import write_json
from streams.cli.options import Place, as_json, common
from streams.errors import InputError

if TYPE_CHECKING:
    from state.store import Store


@click.group("state")
def command() -> None:
    """Check, measure, copy and show the state."""


@command.command("check")
@as_json
@common
@click.pass_obj
def check(place: Place, json: bool) -> Exit | None:
    """Walk every invariant of the state and name what breaks one; exit code 1 when something does.

    Of a worker's partition (DATA/partitions/N), those that one partition alone can show.
    """
    from state import meta
    from state.check import check as problems_of

    found = 0
    with place.folder() as (store, settings):
        owns = _owns(meta.partition(store))
        for problem in problems_of(store, postings_max=settings.limits.bucket_postings_max, owns=owns):
            found += 1
            if json:
                write_json(problem)
            else:
                click.echo(f"{problem.family} {problem.key}: {problem.what}")
    click.echo(f"{found:,} invariants are broken" if found else "the state is sound", err=True)
    return Exit.NOTHING if found else None


def _owns(place: tuple[int, int] | None) -> Callable[[bytes], bool] | None:
    """Which keys are a partition's own; None for a state that is whole."""
    from streams.operators.routing import partition_of

    if place is None:
        return None
    number, count = place
    return lambda key: partition_of(key, count) == number


@command.command("stats")
@as_json
@common
@click.pass_obj
def stats(place: Place, json: bool) -> None:
    """Show sizes, counts, and which limits bit."""
    from state.stats import stats as stats_of
    from streams.terminal import tables

    with place.folder() as (store, _):
        found = stats_of(store)
    if json:
        write_json(found)
    else:
        tables.out(tables.stats(found))


@command.command("backup")
@click.argument("target", type=click.Path(path_type=Path))
@common
@click.pass_obj
def backup(place: Place, target: Path) -> None:
    """Copy the state into a new folder TARGET, whole and consistent; works while an ingest runs.

    To restore, use the copy as --data-dir.
    """
    from state.backup import backup as copy

    with place.folder() as (store, _):
        copied = copy(store, target)
    click.echo(f"{target} holds a copy of {copied / 1e6:,.1f} MB")


@command.command("dump")
@click.argument("family", required=False)
@click.option("--prefix", metavar="HEX", default="", help="Only rows whose key begins so.")
@click.option("--limit", type=click.IntRange(1), help="Only so many rows of a family.")
@common
@click.pass_obj
def dump(place: Place, family: str | None, prefix: str, limit: int | None) -> None:
    """Write the rows of a column family, or of all, as JSON lines."""
    with place.folder() as (store, _):
        for row in _rows(store, family, prefix, limit):
            write_json(row)


@command.command("hot")
@as_json
@common
@click.pass_obj
def hot(place: Place, json: bool) -> Exit | None:
    """List full buckets and sampled shingles past their limit: mechanical text, or crowded clusters."""
    from state.stats import hot as hot_of
    from streams.terminal import tables

    with place.folder() as (store, settings):
        limits = settings.limits
        found = list(
            hot_of(
                store,
                postings_max=limits.bucket_postings_max,
                sample_postings_max=limits.sample_postings_max,
            )
        )
    if json:
        write_json(*found)
    elif found:
        tables.out(tables.hot(found))
    if not found:
        click.echo("no bucket and no sampled shingle is at its limit", err=True)
        return Exit.NOTHING
    return None


def _rows(store: Store, family: str | None, prefix: str, limit: int | None) -> Iterator[dict[str, Any]]:
    from state.dump import dump as rows_of
    from state.families import Family

    names = [each.value for each in Family]
    if family is not None and family not in names:
        raise InputError(f"there is no column family {family!r}", f"it is one of {', '.join(names)}")
    try:
        start = bytes.fromhex(prefix)
    except ValueError:
        raise InputError(f"--prefix {prefix!r} is not in hex", "give pairs of hex digits, such as 6f7267") from None
    for each in [Family(family)] if family else Family:
        for row in islice(rows_of(store, each, start), limit):
            yield {"family": each.value, **row}

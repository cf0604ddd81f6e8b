"""`lostfound moved`, `gone` and `decisions`: record, list and remove the decisions of editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO, cast

import click

from streams.cli.command_context import Context, now_ms
from streams.cli.exit_codes import Exit
from streams.cli.options import json_option, server_options
from streams.cli.output import print_results, write_json
from streams.errors import InputError
from streams.terminal.escape import escape_text, pluralise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.model import Decision
    from streams.decisions import DecisionChanges

_from_file_option = click.option(
    "--from-file", metavar="FILE|-", help="Read the decisions from a file or from stdin, one per line."
)


@click.command
@click.argument("urls", metavar="[OLD NEW]", nargs=-1)
@_from_file_option
@json_option
@server_options
def moved(context: Context, urls: tuple[str, ...], from_file: str | None, as_json: bool) -> Exit:
    """Record that the page at OLD moved to NEW.

    `find` and redirect maps then use NEW, regardless of the ranking. In a file, each line contains OLD and NEW,
    or only OLD for a page that is gone.
    """
    from streams import decisions

    if len(urls) != (0 if from_file else 2):
        raise click.UsageError("specify OLD and NEW, or --from-file")
    new_decisions = _read_file(from_file) if from_file else [decisions.moved(urls[0], urls[1])]
    return _record(context, new_decisions, as_json=as_json)


@click.command
@click.argument("urls", metavar="[OLD]...", nargs=-1)
@_from_file_option
@json_option
@server_options
def gone(context: Context, urls: tuple[str, ...], from_file: str | None, as_json: bool) -> Exit:
    """Record that the pages at these URLs are gone.

    `find` and redirect maps then give no new URL for these pages, regardless of the ranking.
    """
    from streams import decisions

    if not urls and not from_file:
        raise click.UsageError("specify one or more URLs, or --from-file")
    by_key = {decision.key: decision for decision in map(decisions.gone, urls)}
    if from_file:
        by_key |= {decision.key: decision for decision in _read_file(from_file, only_gone=True)}
    return _record(context, list(by_key.values()), as_json=as_json)


@click.command(name="decisions")
@click.option(
    "--remove",
    "removed_urls",
    metavar="URL",
    multiple=True,
    help="Remove the decision about this URL; can be repeated.",
)
@click.option(
    "--with-rank", is_flag=True, help="Also show how `find` would rank each new URL if there were no decision."
)
@json_option
@server_options
def decisions_command(context: Context, removed_urls: tuple[str, ...], with_rank: bool, as_json: bool) -> Exit:
    """List or remove decisions recorded by `moved` and `gone`.

    `moved --from-file` can read the output of --json.
    """
    from streams import decisions
    from streams.find import Finder
    from streams.terminal import tables

    if removed_urls:
        if with_rank:
            raise click.UsageError("--remove and --with-rank cannot be combined")
        return _remove(context, removed_urls, as_json=as_json)
    with context.open_view() as (view, settings):
        finder = Finder(view, settings) if with_rank else None
        listed_decisions = decisions.list_decisions(view, finder)
        return print_results(listed_decisions, tables.decisions_table, "no decision is recorded", as_json=as_json)


def _read_file(name: str, *, only_gone: bool = False) -> Sequence[Decision]:
    from streams import decisions

    try:
        with click.open_file(name, encoding="utf-8-sig", errors="replace") as file:
            return decisions.read_decisions(cast(TextIO, file), name, now_ms(), only_gone=only_gone)
    except OSError as error:
        hint = "pass a file with one decision per line, or - for stdin"
        raise InputError(f"{name}: {error.strerror}", hint) from error


def _store(context: Context, new_decisions: Sequence[Decision]) -> DecisionChanges:
    from streams import decisions

    with context.open_for_decisions() as (rows, commit):
        result = decisions.compute_changes(rows, new_decisions, now_ms())
        if result.changed:
            commit(result.changes)
    return result


def _record(context: Context, new_decisions: Sequence[Decision], *, as_json: bool) -> Exit:
    result = _store(context, new_decisions)
    if as_json:
        write_json({"recorded": result.changed, "unchanged": result.unchanged})
        return Exit.OK
    skipped = f"; skipped {result.unchanged:,}, because the same or a later decision is already recorded"
    click.echo(f"recorded {pluralise(result.changed, 'decision')}{skipped if result.unchanged else ''}")
    return Exit.OK


def _remove(context: Context, urls: Sequence[str], *, as_json: bool) -> Exit:
    from streams import decisions

    by_key = {decision.key: decision for decision in map(decisions.removed, urls)}
    removed_count = _store(context, list(by_key.values())).changed
    if as_json:
        write_json({"removed": removed_count})
    elif removed_count:
        click.echo(f"removed {pluralise(removed_count, 'decision')}")
    if not removed_count:
        click.echo(f"no decision is recorded for {escape_text(', '.join(urls))}", err=True)
    return Exit.OK if removed_count else Exit.NOTHING

"""`lostfound collections`, `avoid` and `group`: replicated collections, and their use in crawls and searches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli.command_context import Context
from streams.cli.commands_find import read_urls
from streams.cli.exit_codes import Exit
from streams.cli.options import analysis_options, json_option, plot_option, server_options
from streams.cli.output import print_results
from streams.errors import InputError

if TYPE_CHECKING:
    from streams.analyses.analysis_session import Session
    from streams.analyses.avoid.avoid_list import Entry
    from streams.analyses.avoid.check_avoid import CheckedEntry
    from streams.analyses.collections.collection_results import Collection, Rule

TABLE_ROWS_MAX = 1_000
_RULES = ("regions", "paper", "extended")
_FORMATS = ("surt", "heritrix", "scrapy", "browsertrix", "robots")


@click.command
@click.option(
    "--rule",
    type=click.Choice(_RULES),
    default="regions",
    help="Rule that finds collections. regions: replicated regions of linked pages; paper, extended: the two rules "
    "of Cho, Shivakumar and Garcia-Molina (2000).",
)
@plot_option
@analysis_options
def collections(
    context: Context, rule: Rule, plot_file: Path | None, sweep_name: str | None, data_set: Path | None, as_json: bool
) -> Exit:
    """List replicated collections, such as copies of a manual.

    A collection is a group of linked pages on one host that also occurs elsewhere, on the same host or on others.
    Collections with similar pages form a class. One collection of each class is its representative.
    """
    from streams.analyses.collections.compute_collections import analysis, compute_in
    from streams.terminal import collection_tables

    with context.analyse("collections", sweep_name, data_set, quiet=as_json and sys.stdout.isatty()) as session:
        results: Sequence[Collection]
        if plot_file is not None:
            from streams.analyses.collections.class_plot import plot_classes

            computed = compute_in(session, rule)
            results = computed.collections
            plot_classes(computed.classes, plot_file)
        else:
            results = session.results(analysis(rule))
    _print_links(session)
    return print_results(
        results if as_json else results[:TABLE_ROWS_MAX],
        lambda rows: collection_tables.collections_table(rows, omitted=len(results) - len(rows)),
        "no collection occurs twice",
        as_json=as_json,
    )


def _print_links(session: Session) -> None:
    """Print how many links lead to crawled pages. If few links do, collections are incomplete."""
    total, resolved = session.counters["links"], session.counters["links_resolved"]
    if total:
        message = f"{resolved:,} of {total:,} links within hosts ({resolved / total:.0%}) lead to crawled pages"
        click.echo(message, err=True)


@click.command
@click.option(
    "--format", "format_name", type=click.Choice(_FORMATS), help="Write the list in the format of a crawler."
)
@click.option("--host", metavar="HOST", help="List only entries of this host, such as docs.example.org.")
@click.option(
    "--check",
    "checked_sweep",
    is_flag=False,
    flag_value="",
    metavar="[SWEEP]",
    help="List the entries of SWEEP's list that the newest sweep shows to be outdated. SWEEP is the previous sweep "
    "by default.",
)
@analysis_options
def avoid(
    context: Context,
    format_name: str | None,
    host: str | None,
    checked_sweep: str | None,
    sweep_name: str | None,
    data_set: Path | None,
    as_json: bool,
) -> Exit:
    """List redundant copies that the next crawl can skip.

    Whether a URL is skipped is decided by the entry with the longest prefix that matches it. One collection of each
    class and a sample of each copy are still crawled.
    """
    from streams.analyses.avoid.compute_avoid import ANALYSIS
    from streams.terminal import collection_tables

    if format_name is not None and (checked_sweep is not None or as_json):
        raise InputError("--format cannot be combined with --check or --json", "use one of them")
    with context.analyse("avoid", sweep_name, data_set, quiet=as_json and sys.stdout.isatty()) as session:
        if checked_sweep is not None:
            checked = _check(session, checked_sweep)
        else:
            entries = _on_host(session.results(ANALYSIS), host)
    if checked_sweep is not None:
        return _print_checked(checked, as_json=as_json)
    _print_summary(entries)
    if format_name is not None and entries:
        from streams.analyses.avoid.avoid_formats import FORMATS

        for line in FORMATS[format_name](entries):
            click.echo(line)
        return Exit.OK
    return print_results(
        entries if as_json else entries[:TABLE_ROWS_MAX],
        lambda rows: collection_tables.avoid_table(rows, omitted=len(entries) - len(rows)),
        "nothing can be skipped",
        as_json=as_json,
    )


def _on_host(entries: list[Entry], host: str | None) -> list[Entry]:
    from streams.urls import key_host, url_key

    if host is None:
        return entries
    name = key_host(url_key(f"http://{host}/"), with_port=True)
    return [entry for entry in entries if key_host(url_key(entry.prefix), with_port=True) == name]


def _print_summary(entries: Sequence[Entry]) -> None:
    pages, lost, unconfirmed = (
        sum(getattr(entry, name) for entry in entries if not entry.keep) for name in ("pages", "lost", "unconfirmed")
    )
    if pages:
        uncertain = (
            f"{lost:,} of them have no copy, and {unconfirmed:,} have copies only in other skipped collections"
        )
        click.echo(f"{pages:,} pages can be skipped; {uncertain}", err=True)


def _check(session: Session, sweep_name: str) -> list[CheckedEntry]:
    """Check the list of a sweep against the session's sweep. Without a name, check the list of the previous sweep."""
    from streams.analyses.avoid.check_avoid import check_avoid
    from streams.analyses.avoid.compute_avoid import ANALYSIS

    if not sweep_name:
        earlier = [name for number, name in sorted(session.sweep_names().items()) if number < session.sweep.number]
        if not earlier:
            raise InputError(
                f"no sweep before {session.sweep.name!r} is committed", "check the list after the next sweep"
            )
        sweep_name = earlier[-1]
    entries = session.at(sweep_name).results(ANALYSIS)
    return check_avoid(session.engine, entries, copied_share_min=session.settings.avoid_pure)


def _print_checked(checked: Sequence[CheckedEntry], *, as_json: bool) -> Exit:
    from streams.terminal import collection_tables

    failed = [entry for entry in checked if entry.holds is False]
    unknown = sum(entry.holds is None for entry in checked)
    click.echo(
        f"{len(failed):,} of {len(checked):,} entries are outdated; {unknown:,} match no crawled page",
        err=True,
    )
    if not failed:
        return Exit.OK
    print_results(failed, collection_tables.avoid_check_table, "", as_json=as_json)
    return Exit.NOTHING


@click.command
@click.argument("source", metavar="[FILE|-]", default="-")
@json_option
@server_options
def group(context: Context, source: str, as_json: bool) -> Exit:
    """Collapse a list of URLs by cluster and by collection.

    Use it to show each page and each manual only once in search results. The URLs are read from FILE or stdin, one
    per line. The first URL of a cluster or of a class of collections is listed, with the other URLs below it.
    """
    from streams.analyses.collections.compute_collections import analysis
    from streams.query.group import ClassRoots
    from streams.query.group import group as group_urls
    from streams.terminal import collection_tables

    urls = list(read_urls(source))
    with context.analyse("group", None, None, quiet=as_json and sys.stdout.isatty()) as session:
        results = session.results(analysis("regions"))
    roots = ClassRoots((collection.root, collection.class_) for collection in results)
    with context.open_view() as (view, _):
        groups = group_urls(view, urls, roots)
    return print_results(groups, collection_tables.groups_list, "the list contains no URLs", as_json=as_json)

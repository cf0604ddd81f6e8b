"""`lostfound mirrors`: find hosts that are mirrors of each other."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import analysis_options
from streams.cli.output import print_results


@click.command
@click.option(
    "--method",
    type=click.Choice(["samples", "paper"]),
    default="samples",
    help="How to choose the pairs of hosts to compare. samples: by the paths and documents that samples of their "
    "pages share; paper: by the words of their paths, as Bharat and Broder (1999) do.",
)
@click.option(
    "--since", metavar="SWEEP", help="Show which mirrors have appeared, diverged, converged or vanished since SWEEP."
)
@click.option("--all", "all_pairs", is_flag=True, help="Also show pairs that were not tested or do not match.")
@analysis_options
def mirrors(
    context: Context,
    method: str,
    since: str | None,
    all_pairs: bool,
    sweep_name: str | None,
    data_set: Path | None,
    as_json: bool,
) -> Exit:
    """Find hosts that are mirrors of each other, at levels 1 to 5.

    Hosts at levels 1 to 3 have the same paths with the same bytes (1), the same text (2) or similar text (3). They
    form groups. At level 4, one host has only some of the other's pages. At level 5, the paths, links and text
    lengths correspond, but the words differ, as in a translation. Pages that were not captured count as unknown, not
    as missing.
    """
    from streams.analyses.mirrors import analysis, compare
    from streams.terminal import mirror_tables

    with context.analyse("mirrors", sweep_name, data_set, quiet=as_json and sys.stdout.isatty()) as session:
        results = session.results(analysis(method))
        earlier = session.at(since).results(analysis(method)) if since is not None else None
    if earlier is not None:
        changes = compare(earlier, results)
        message = f"no mirror has changed since sweep {since}"
        return print_results(changes, mirror_tables.mirror_changes_table, message, as_json=as_json)
    return print_results(
        results,
        lambda rows: mirror_tables.mirrors_table(rows, all_pairs=all_pairs),
        "no two hosts have paths and documents in common",
        as_json=as_json,
    )

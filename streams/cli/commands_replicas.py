"""`lostfound replicas`: find directories that are replicas of each other."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import analysis_options
from streams.cli.output import print_results

TABLE_ROWS_MAX = 1_000


@click.command
@click.option(
    "--method",
    type=click.Choice(["names", "zhang"]),
    default="names",
    help="How to choose the pairs of directories to compare. names: by pages with the same name and similar text; "
    "zhang: by similar index pages, as Zhang, Jia and Li (2006) do.",
)
@analysis_options
def replicas(context: Context, method: str, sweep_name: str | None, data_set: Path | None, as_json: bool) -> Exit:
    """Find directories that are replicas of each other.

    Two directories are replicas if most pages at the same paths below them resemble each other. They may be on the
    same host. A replica may have a different name, and the crawl may lack some of its pages. Only the topmost pairs
    are listed: those whose parent directories are not replicas themselves. The last two columns show what share of
    each directory's pages the other directory also has.
    """
    from streams.analyses.replicas import analysis
    from streams.terminal import analysis_tables

    with context.analyse("replicas", sweep_name, data_set, quiet=as_json and sys.stdout.isatty()) as session:
        results = session.results(analysis(method))
        if context.verbosity and session.counters:
            import structlog

            structlog.get_logger(__name__).info("limits reached", **+session.counters)
    return print_results(
        results if as_json else results[:TABLE_ROWS_MAX],
        lambda rows: analysis_tables.replicas_table(rows, omitted=len(results) - len(rows)),
        "no directory is a replica of another",
        as_json=as_json,
    )

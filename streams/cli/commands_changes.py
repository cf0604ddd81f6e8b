"""`lostfound changes`: show how many pages change from sweep to sweep, and by how much."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import analysis_options, plot_option
from streams.cli.output import print_results
from streams.errors import InputError

if TYPE_CHECKING:
    from streams.analyses.analysis_session import Session
    from streams.analyses.changes.compute_changes import Change

TABLE_ROWS_MAX = 1_000


@click.command
@click.option("--host", metavar="HOST", help="Show only this host, such as docs.example.org.")
@click.option("--url", metavar="URL", help="Show only this page.")
@plot_option
@analysis_options
def changes(
    context: Context,
    host: str | None,
    url: str | None,
    plot_file: Path | None,
    sweep_name: str | None,
    data_set: Path | None,
    as_json: bool,
) -> Exit:
    """Show how many pages change between sweeps, and by how much.

    Each sweep of a host is compared with the previous sweep that visited the host. Only pages that both sweeps
    captured are compared. The table shows the resemblance of changed pages to their previous captures, and the
    half-life: the time after which half of the pages have changed. With --sweep, later sweeps are ignored.
    """
    from streams.analyses.changes.plot import plot_changes
    from streams.terminal import analysis_tables

    if host is not None and url is not None:
        raise InputError("--host and --url cannot be combined", "use one of them")
    with context.analyse("changes", sweep_name, data_set, quiet=as_json and sys.stdout.isatty()) as session:
        results = _page_changes(session, url) if url is not None else _host_changes(session, host)
    if plot_file is not None and results:
        plot_changes(results, plot_file)
    return print_results(
        results if as_json else results[:TABLE_ROWS_MAX],
        lambda rows: analysis_tables.changes_table(rows, omitted=len(results) - len(rows)),
        "no page was captured in two consecutive sweeps of its host",
        as_json=as_json,
    )


def _host_changes(session: Session, host: str | None) -> Sequence[Change]:
    from streams.analyses.changes.compute_changes import analysis
    from streams.urls import key_host, url_key

    name = None if host is None else key_host(url_key(f"http://{host}/"), with_port=True)
    return [change for change in session.results(analysis()) if name in (None, change.host)]


def _page_changes(session: Session, url: str) -> Sequence[Change]:
    from streams.analyses.changes.compute_changes import compute_page_changes
    from streams.export.hashes import page_hash
    from streams.urls import url_key

    page = page_hash(url_key(url))
    return compute_page_changes(session.engine, session.sweep_names(), page, url)

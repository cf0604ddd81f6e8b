"""`lostfound clusters`: list all clusters."""

from __future__ import annotations

from itertools import islice

import click

from streams.cli.context import Context
from streams.cli.exit_codes import Exit
from streams.cli.json_output import write_json
from streams.cli.options import json_option, server_options
from streams.cli.policy_options import parse_policy, policy_options

TABLE_ROWS_MAX = 1_000


@click.command
@click.option(
    "--min-size", type=click.IntRange(1), default=2, show_default=True, help="Minimum documents or URLs per cluster."
)
@click.option("--limit", type=click.IntRange(1), help="Maximum number of clusters to list.")
@policy_options
@json_option
@server_options
@click.pass_obj
def clusters(
    context: Context,
    min_size: int,
    limit: int | None,
    threshold: float | None,
    containment: bool,
    sweep_name: str | None,
    json: bool,
) -> Exit | None:
    """List all clusters, largest first.

    With --json, list all documents and URLs of each cluster.
    """
    from streams import query
    from streams.terminal import layout, tables

    count, truncated = 0, False
    with context.reader() as (view, settings):
        policy = parse_policy(view, settings, threshold, containment, sweep_name)
        if policy is None:
            results = query.clusters(view, min_size=min_size)
        else:
            results = query.clusters_by_policy(view, **policy, min_size=min_size)
        if json:
            for count, cluster in enumerate(islice(results, limit), start=1):  # noqa: B007 - `count` is used below
                write_json(cluster)
        else:
            rows = list(islice(results, limit or TABLE_ROWS_MAX + 1))
            truncated = limit is None and len(rows) > TABLE_ROWS_MAX
            del rows[limit or TABLE_ROWS_MAX :]
            count = len(rows)
            if rows:
                layout.print_to_stdout(
                    tables.clusters_table(rows, lambda document: view.title(bytes.fromhex(document)))
                )
    if not count:
        click.echo(f"no cluster has {min_size} or more documents or URLs", err=True)
        return Exit.NOTHING
    if truncated:
        click.echo(f"only the {count:,} largest clusters are shown; use --limit or --json to get more", err=True)
    return None

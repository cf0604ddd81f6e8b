"""`lostfound cluster`: show one cluster."""

from __future__ import annotations

import click

from streams.cli.context import Context
from streams.cli.json_output import to_json_object, write_json
from streams.cli.options import json_option, server_options
from streams.cli.policy_options import parse_policy, policy_options
from streams.errors import NotFound


@click.command
@click.argument("url_or_id", metavar="URL|DOC")
@policy_options
@json_option
@server_options
@click.pass_obj
def cluster(
    context: Context, url_or_id: str, threshold: float | None, containment: bool, sweep_name: str | None, json: bool
) -> None:
    """Show the cluster of a URL or a document.

    A URL stands for the last document captured at it. DOC is a document id or its first digits, at least ten.
    """
    from streams import query
    from streams.terminal import layout, tables

    with context.reader() as (view, settings):
        document = query.resolve(view, url_or_id)
        limit = settings.limits.members_shown_max
        policy = parse_policy(view, settings, threshold, containment, sweep_name)
        if policy is None:
            result = query.cluster(view, document, limit)
        else:
            restricted = query.cluster_by_policy(view, document, **policy, limit=limit)
            if restricted is None:
                raise NotFound(
                    f"sweep {sweep_name} did not capture document {document.hex()}",
                    "leave out --sweep to use all sweeps",
                )
            result = restricted
        cluster_members = query.members(view, result, document, limit)
    if json:
        member_objects = [to_json_object(member) for member in cluster_members]
        write_json({**to_json_object(result), "asked": document.hex(), "members": member_objects})
    else:
        layout.print_to_stdout(tables.cluster_table(result, cluster_members))

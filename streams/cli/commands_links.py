"""`lostfound links`: list the links to or from a page."""

from __future__ import annotations

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import json_option, server_options
from streams.cli.output import print_results
from streams.errors import InputError
from streams.terminal.escape import escape_text


@click.command
@click.argument("url")
@click.option(
    "--in",
    "direction",
    flag_value="in",
    default="in",
    show_default=False,
    help="List the links to the URL (the default).",
)
@click.option("--out", "direction", flag_value="out", help="List the links from the URL to other URLs.")
@click.option("--sweep", "sweep_name", metavar="NAME", help="List only links found in this sweep.")
@json_option
@server_options
def links(context: Context, url: str, direction: str, sweep_name: str | None, as_json: bool) -> Exit:
    """List the links to or from a URL, with anchor text and dates.

    Each link is listed with the times of the first and last captures that contain it. It is absent from any later
    capture of the linking page.
    """
    from streams import query
    from streams.terminal import tables
    from streams.urls import url_key

    key = url_key(url)
    with context.open_view() as (view, _):
        numbers = {sweep.name: sweep.number for sweep in view.sweeps()}
        if sweep_name is not None and sweep_name not in numbers:
            raise InputError(f"sweep {sweep_name!r} does not exist", "list all sweeps with `lostfound sweep list`")
        sweep_number = numbers[sweep_name] if sweep_name is not None else None
        find_links = query.links_to if direction == "in" else query.links_from
        results = find_links(view, key, sweep_number, with_context=as_json)
        message = f"no links {'to' if direction == 'in' else 'from'} {escape_text(url)} are stored"
        return print_results(
            results, lambda rows: tables.links_table(rows, incoming=direction == "in"), message, as_json=as_json
        )

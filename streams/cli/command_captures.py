"""`lostfound captures`: list the captures of a URL."""

from __future__ import annotations

import click

from streams.cli.context import Context
from streams.cli.exit_codes import Exit
from streams.cli.json_output import to_json_object, write_json
from streams.cli.options import json_option, server_options
from streams.terminal.escape import escape_text


@click.command
@click.argument("url")
@json_option
@server_options
@click.pass_obj
def captures(context: Context, url: str, json: bool) -> Exit | None:
    """List the captures of a URL in the order of the sweeps.

    The answer gives the resemblance of each capture to the one before it.
    """
    from streams import query
    from streams.terminal import layout, tables

    with context.reader() as (view, _):
        results = query.captures(view, url)
    if json:
        write_json(*(to_json_object(capture) for capture in results))
    elif results:
        layout.print_to_stdout(tables.captures_table(results))
    if not results:
        click.echo(f"no sweep has captured {escape_text(url)}", err=True)
        return Exit.NOTHING
    return None

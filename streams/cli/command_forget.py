"""`lostfound forget`: delete a URL or a document."""

from __future__ import annotations

import click

from streams.cli.context import Context
from streams.cli.exit_codes import Exit
from streams.cli.json_output import write_json
from streams.cli.options import json_option, server_options
from streams.terminal.escape import escape_text, pluralise


@click.command
@click.argument("url_or_id", metavar="URL|DOC")
@json_option
@server_options
@click.pass_obj
def forget(context: Context, url_or_id: str, json: bool) -> Exit | None:
    """Delete a URL or a document with all its captures.

    Only affected clusters are rebuilt. Cannot be undone except by ingesting the pages again in another sweep.
    """
    from state.view import View
    from streams import forgetting, query
    from streams.urls import url_key

    with context.forgetter() as (rows, commit):
        if "://" in url_or_id:
            removals = forgetting.forget_url(rows, url_key(url_or_id))
        else:
            removals = forgetting.forget_document(rows, query.resolve(View(rows), url_or_id))
        forgotten = forgetting.apply(removals, commit)
    if json:
        write_json(forgotten)
    elif forgotten.captures or forgotten.documents:
        click.echo(
            f"deleted {pluralise(forgotten.captures, 'capture')} and {pluralise(forgotten.documents, 'document')}; "
            f"rebuilt the clusters of {pluralise(forgotten.rejoined, 'other document')}"
        )
    if forgotten.captures or forgotten.documents:
        return None
    click.echo(f"the state has no capture of {escape_text(url_or_id)}", err=True)
    return Exit.NOTHING

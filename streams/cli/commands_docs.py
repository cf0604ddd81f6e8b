"""`lostfound config` and `lostfound docs`: print the default settings and the documents."""

from __future__ import annotations

import click

from streams.documents import DOCUMENTS, document_file


@click.command
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file instead of its content.")
def config(as_path: bool) -> None:
    """Print all settings with their defaults, units and limits.

    To change some of them, write a TOML file that contains only these settings, and pass it with --config.
    """
    from streams.settings import default_file

    click.echo(default_file() if as_path else default_file().read_bytes(), nl=as_path)


@click.command
@click.argument("name", metavar="NAME", type=click.Choice(DOCUMENTS))
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file instead of its content.")
def docs(name: str, as_path: bool) -> None:
    """Print a document: cli, formats-input, json or operations.

    These are a description of every command, the input formats, the JSON output, and how to run workers on Kafka.
    """
    click.echo(document_file(name) if as_path else document_file(name).read_bytes(), nl=as_path)

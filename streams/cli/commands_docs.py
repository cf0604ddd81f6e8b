"""`lostfound config` and `lostfound docs`: print the default settings and the documentation."""

from __future__ import annotations

from pathlib import Path

import click

from streams.manual import MANUAL_PAGES, manual_page_path


@click.command
@click.option(
    "--path", "as_path", is_flag=True, help="Print the path of the default settings file instead of its contents."
)
def config(as_path: bool) -> None:
    """Print all settings with their defaults, units and limits.

    To change some settings, write a TOML file that contains only those settings, and pass it with --config.
    """
    from streams.settings import default_file

    _print_file(default_file(), as_path=as_path)


@click.command
@click.argument("name", metavar="NAME", type=click.Choice(MANUAL_PAGES))
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file instead of its contents.")
def docs(name: str, as_path: bool) -> None:
    """Print a page of the documentation.

    `cli` describes every command, `formats-input` the input formats, `formats-export` the exported files, `json` the
    JSON output, and `operations` how to run workers on Kafka.
    """
    _print_file(manual_page_path(name), as_path=as_path)


def _print_file(path: Path, *, as_path: bool) -> None:
    click.echo(path if as_path else path.read_bytes(), nl=as_path)

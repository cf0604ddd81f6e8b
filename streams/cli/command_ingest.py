"""`lostfound ingest`: crawl files into a sweep."""

from __future__ import annotations

import time

import click

from streams.cli.json_output import write_json
from streams.cli.options import Place, as_json, common, now_ms


@click.command("ingest")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--sweep", "name", metavar="NAME", required=True, help="The sweep these pages belong to, such as 2026-11."
)
@click.option("--keep-open", is_flag=True, help="Leave the sweep open for more input; else it is committed.")
@click.option(
    "--bad-records",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    show_default=True,
    help="Put bad records into dead-letters.jsonl and go on, or stop at the first.",
)
@as_json
@common
@click.pass_obj
def command(place: Place, paths: tuple[str, ...], name: str, keep_open: bool, bad_records: str, json: bool) -> None:
    """Read crawl files into the state: WARC, ARC, WET, WACZ and JSONL, folders of these, and - for stdin.

    May be stopped at any instant: the same command again goes on where it was.
    """
    from state.sweep_life import check_name
    from streams.engine.ingest import ingest, names_of
    from streams.terminal import tables

    names = names_of(paths, place.data_dir)  # what is not there, or no name, is said before a state is made
    check_name(name)
    started = time.monotonic()
    with place.writer(make=True) as (store, settings), tables.ingest_bar(name, json) as report:
        summary = ingest(
            store,
            settings,
            names,
            name,
            now=now_ms(),
            keep_open=keep_open,
            fail_on_rejected=bad_records == "fail",
            report=report,
        )
    if json:
        write_json(summary)
    else:
        tables.out(tables.ingested(summary, time.monotonic() - started))

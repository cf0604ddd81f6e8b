"""`lostfound ingest`: read crawl files into a sweep."""

from __future__ import annotations

import time

import click

from streams.cli.context import Context, now_ms
from streams.cli.json_output import write_json
from streams.cli.options import common_options, json_option, sweep_input_options


@click.command
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@sweep_input_options
@click.option(
    "--bad-records",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    show_default=True,
    help="Write bad records to dead-letters.jsonl and continue, or stop at the first.",
)
@json_option
@common_options
@click.pass_obj
def ingest(
    context: Context, paths: tuple[str, ...], sweep_name: str, keep_open: bool, bad_records: str, json: bool
) -> None:
    """Read crawl files into a sweep.

    Paths are WARC, ARC, WET, WACZ or JSONL files, folders of these, or - for stdin. Can be stopped at any time: rerun
    the same command to resume.
    """
    from state.sweep_life import check_name
    from streams.engine.ingest import ingest as ingest_files
    from streams.engine.ingest import input_names
    from streams.terminal import layout, progress_bars, tables

    names = input_names(paths, context.data_dir)  # fails for a missing path before a state is created
    check_name(sweep_name)
    started = time.monotonic()
    with context.writer(make=True) as (store, settings), progress_bars.ingest_bar(sweep_name, quiet=json) as report:
        summary = ingest_files(
            store,
            settings,
            names,
            sweep_name,
            now=now_ms(),
            keep_open=keep_open,
            fail_on_rejected=bad_records == "fail",
            report=report,
        )
    if json:
        write_json(summary)
    else:
        layout.print_to_stdout(tables.ingest_summary(summary, time.monotonic() - started))

"""`lostfound publish`: send crawl files to Kafka."""

from __future__ import annotations

import click

from streams.cli.context import Context, now_ms
from streams.cli.json_output import write_json
from streams.cli.kafka_options import kafka_options, kafka_settings
from streams.cli.options import common_options, json_option, sweep_input_options
from streams.terminal.escape import pluralise


@click.command
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@sweep_input_options
@kafka_options
@json_option
@common_options
@click.pass_obj
def publish(
    context: Context,
    paths: tuple[str, ...],
    sweep_name: str,
    keep_open: bool,
    bootstrap: str | None,
    topic_prefix: str | None,
    json: bool,
) -> None:
    """Send crawl files to the Kafka topic of pages.

    Reads the same formats as `lostfound ingest`. Publishing the same files again changes nothing.
    """
    import asyncio

    settings, broker = kafka_settings(context, bootstrap, topic_prefix)
    from streams.kafka.publish import publish as publish_files
    from streams.terminal import progress_bars

    with progress_bars.publish_bar(sweep_name, quiet=json) as report:
        published = asyncio.run(
            publish_files(settings, broker, paths, sweep_name, now=now_ms(), keep_open=keep_open, report=report)
        )
    if json:
        write_json(published)
        return
    rejected = sum(published.rejected.values())
    suffix = f"; rejected {pluralise(rejected, 'record')}" if rejected else ""
    click.echo(f"published {pluralise(published.pages, 'page')} of sweep {sweep_name}{suffix}")

"""`lostfound worker`, `topics` and `publish`: the same work on Kafka, shared by any number of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli.exit_codes import of_error
from streams.cli.json_output import write_json
from streams.cli.options import F, Place, as_json, common, now_ms, tell
from streams.errors import InputError, LostfoundError

if TYPE_CHECKING:
    from streams.kafka.wire.broker import Broker
    from streams.settings import Settings


def _broker_options(command: F) -> F:
    for option in (
        click.option("--prefix", metavar="NAME", help="What the names of topics begin with (kafka.prefix)."),
        click.option("--bootstrap", metavar="HOST:PORT", help="The broker (KAFKA_BOOTSTRAP; 127.0.0.1:9092)."),
    ):
        command = option(command)
    return command


def _reached(place: Place, bootstrap: str | None, prefix: str | None) -> tuple[Settings, Broker]:
    """The settings with another prefix, and the broker; raises InputError where Kafka's client is not installed."""
    try:
        import aiokafka  # noqa: F401
    except ImportError as error:
        raise InputError("Kafka's client is not installed", "pip install 'lostfound[kafka]'") from error
    from streams.kafka.wire.broker import from_environment

    overrides: dict[str, dict[str, Any]] = {"kafka": {"prefix": prefix}} if prefix else {}
    return place.settings(overrides), from_environment(bootstrap)


@click.command("worker")
@_broker_options
@click.option(
    "--operators", default="sketch,state", show_default=True, help="Some of sketch,state: what to run here."
)
@click.option("--partitions", type=click.IntRange(1, 1024), help="Of topics that are made now (kafka.partitions).")
@click.option("--until-idle", is_flag=True, help="End once everything that the topics hold is done.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to answer queries on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Its port; 0: any free.")
@click.option("--url", help="Where other workers reach this one; default: http://HOST:PORT.")
@common
@click.pass_obj
def worker(
    place: Place,
    bootstrap: str | None,
    prefix: str | None,
    operators: str,
    partitions: int | None,
    until_idle: bool,
    host: str,
    port: int,
    url: str | None,
) -> None:
    """Take pages from Kafka and keep the state of some of the partitions; start as many as you like.

    Each needs a --data-dir of its own. May be killed at any instant. Ends with code 75 when something unexpected
    happened before a message was acknowledged: start it again.
    """
    place.verbosity = max(place.verbosity, 1)  # nobody watches it: its log says what it did
    settings, broker = _reached(place, bootstrap, prefix)
    from streams.kafka.process_exit import end_process
    from streams.kafka.run_worker import WorkerOptions, run

    try:
        run(
            settings,
            broker,
            WorkerOptions(
                data_dir=place.data_dir,
                operators=[name.strip() for name in operators.split(",") if name.strip()],
                partitions=partitions,
                host=host,
                port=port,
                url=url,
                until_idle=until_idle,
            ),
        )
    except LostfoundError as error:
        tell(str(error), error.hint)
        end_process(of_error(error))


@click.group("topics")
def topics() -> None:
    """The topics of a collection."""


@topics.command("create")
@_broker_options
@click.option("--partitions", type=click.IntRange(1, 1024), help="Of those that are missing (kafka.partitions).")
@common
@click.pass_obj
def create(place: Place, bootstrap: str | None, prefix: str | None, partitions: int | None) -> None:
    """Make the topics that are missing, with the right partitions and settings; the count is fixed from then on."""
    import asyncio

    settings, broker = _reached(place, bootstrap, prefix)
    from streams.kafka.wire import topics as kept

    counts = asyncio.run(kept.ensure(broker, settings.kafka, partitions=partitions, create=True))
    click.echo(f"the topics of {settings.kafka.prefix} are there, with {counts.partitions} partitions")


@click.command("publish")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--sweep", "name", metavar="NAME", required=True, help="The sweep these pages belong to, such as 2026-11."
)
@click.option("--keep-open", is_flag=True, help="Leave the sweep open for more input; else it is committed.")
@_broker_options
@as_json
@common
@click.pass_obj
def publish(
    place: Place,
    paths: tuple[str, ...],
    name: str,
    keep_open: bool,
    bootstrap: str | None,
    prefix: str | None,
    json: bool,
) -> None:
    """Send crawl files to the topic of pages: the formats of `ingest`. May be repeated, which changes nothing."""
    settings, broker = _reached(place, bootstrap, prefix)
    from streams.kafka.publish import publish as send
    from streams.terminal import tables

    with tables.bytes_bar(f"publish {name}", json) as report:
        done = send(settings, broker, paths, name, now=now_ms(), keep_open=keep_open, report=report)
    if json:
        write_json(done)
        return
    refused = sum(done.rejected.values())
    click.echo(
        f"sent {done.pages:,} pages of sweep {name}" + (f"; {refused:,} records were refused" if refused else "")
    )

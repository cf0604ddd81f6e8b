"""`lostfound worker`, `topics` and `publish`: the commands that connect to Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli.command_context import Context, now_ms
from streams.cli.exit_codes import exit_code_of
from streams.cli.options import combine, common_options, json_option, sweep_input_options
from streams.cli.output import print_error, write_json
from streams.errors import InputError, LostfoundError
from streams.terminal.escape import pluralise

if TYPE_CHECKING:
    from streams.kafka.wire.broker import Broker
    from streams.settings import Settings

_kafka_options = combine(
    click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Address of the broker.  [env: KAFKA_BOOTSTRAP; default: 127.0.0.1:9092]",
    ),
    click.option(
        "--prefix",
        "topic_prefix",
        metavar="NAME",
        help="Prefix of all topic names.  [default: the setting kafka.prefix]",
    ),
)
_partitions_option = click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Number of partitions of new topics.  [default: the setting kafka.partitions]",
)


def _load_settings_and_broker(
    context: Context, bootstrap: str | None, topic_prefix: str | None
) -> tuple[Settings, Broker]:
    """Return the settings, and the broker's address with its credentials.

    Raise InputError if the Kafka client is not installed.
    """
    try:
        import aiokafka  # noqa: F401 - imported only to check that it is installed
    except ImportError as error:
        raise InputError("the Kafka client is not installed", "run `pip install 'lostfound[kafka]'`") from error
    from streams.kafka.wire.broker import from_environment

    return context.settings({"kafka": {"prefix": topic_prefix}} if topic_prefix else {}), from_environment(bootstrap)


@click.command
@_kafka_options
@click.option(
    "--operators",
    metavar="LIST",
    default="sketch,state",
    help="Operators to run: `sketch`, `state` (all other operators), or both, separated by a comma.",
)
@_partitions_option
@click.option("--until-idle", is_flag=True, help="Exit once all messages in the topics have been processed.")
@click.option("--host", metavar="HOST", default="127.0.0.1", help="Address to listen on for queries.")
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=8080,
    help="Port to listen on; with 0, the system chooses a free port.",
)
@click.option(
    "--url", metavar="URL", help="URL at which other workers reach this worker.  [default: http://HOST:PORT]"
)
@common_options
def worker(
    context: Context,
    bootstrap: str | None,
    topic_prefix: str | None,
    operators: str,
    **options: Any,  # fields of WorkerOptions
) -> None:
    """Run a worker that processes pages from Kafka.

    Any number of workers can share the work. Each worker keeps the state of some partitions and needs a separate
    --data-dir. Workers can be killed at any time. Exit code 75 means that the worker stopped on an error before it
    had acknowledged all messages. After a restart, these messages are processed again.
    """
    context.verbosity = max(context.verbosity, 1)  # a worker runs unattended, so it logs its progress
    settings, broker = _load_settings_and_broker(context, bootstrap, topic_prefix)
    from streams.kafka.process_exit import end_process
    from streams.kafka.run_worker import WorkerOptions, run

    operator_names = [name.strip() for name in operators.split(",") if name.strip()]
    try:
        run(settings, broker, WorkerOptions(data_dir=context.data_dir, operators=operator_names, **options))
    except LostfoundError as error:
        print_error(str(error), error.hint)
        end_process(exit_code_of(error))


@click.group
def topics() -> None:
    """Manage lostfound's Kafka topics."""


@topics.command
@_kafka_options
@_partitions_option
@common_options
def create(context: Context, bootstrap: str | None, topic_prefix: str | None, partitions: int | None) -> None:
    """Create any of lostfound's Kafka topics that are missing.

    The number of partitions cannot be changed later.
    """
    import asyncio

    settings, broker = _load_settings_and_broker(context, bootstrap, topic_prefix)
    from streams.kafka.wire.topics import ensure

    partition_counts = asyncio.run(ensure(broker, settings.kafka, partitions=partitions, create=True))
    click.echo(f"all topics of {settings.kafka.prefix} exist, with {partition_counts.partitions} partitions")


@click.command
@sweep_input_options
@_kafka_options
@json_option
@common_options
def publish(
    context: Context,
    paths: tuple[str, ...],
    sweep_name: str,
    keep_open: bool,
    bootstrap: str | None,
    topic_prefix: str | None,
    as_json: bool,
    **input_options: Any,  # parameters of `read_options`
) -> None:
    """Send the pages of crawl files to Kafka.

    Accepts the same input formats as `lostfound ingest`. Publishing the same files again changes nothing.
    """
    import asyncio

    settings, broker = _load_settings_and_broker(context, bootstrap, topic_prefix)
    from streams.cli.input_options import read_options
    from streams.kafka.publish import publish as publish_files
    from streams.terminal import progress_bars

    options = read_options(settings, paths, **input_options)
    with progress_bars.publish_meter(sweep_name, quiet=as_json) as meter:
        sending = publish_files(
            settings,
            broker,
            paths,
            sweep_name,
            now=now_ms(),
            keep_open=keep_open,
            on_progress=meter.update,
            options=options,
        )
        published = asyncio.run(sending)
    if as_json:
        write_json(published)
        return
    rejected = sum(published.rejected.values())
    suffix = f"; rejected {pluralise(rejected, 'record')}" if rejected else ""
    click.echo(f"published {pluralise(published.pages, 'page')} of sweep {sweep_name}{suffix}")

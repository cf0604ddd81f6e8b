"""`lostfound worker`: run a Kafka worker."""

from __future__ import annotations

import click

from streams.cli.context import Context
from streams.cli.exit_codes import exit_code_of
from streams.cli.kafka_options import kafka_options, kafka_settings, partitions_option
from streams.cli.options import common_options, print_error
from streams.errors import LostfoundError


@click.command
@kafka_options
@click.option(
    "--operators", default="sketch,state", show_default=True, help="Operators to run: sketch, state or both."
)
@partitions_option
@click.option("--until-idle", is_flag=True, help="Exit when all messages in the topics are processed.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on for queries.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--url", help="URL at which other workers reach this one.  [default: http://HOST:PORT]")
@common_options
@click.pass_obj
def worker(
    context: Context,
    bootstrap: str | None,
    topic_prefix: str | None,
    operators: str,
    partitions: int | None,
    until_idle: bool,
    host: str,
    port: int,
    url: str | None,
) -> None:
    """Process pages from Kafka as one of any number of workers.

    Each worker keeps the state of some partitions and needs its own --data-dir. It can be killed at any time. Exit
    code 75 means that something unexpected happened before a message was acknowledged: restart the worker.
    """
    context.verbosity = max(context.verbosity, 1)  # a worker runs unattended, so it logs its progress
    settings, broker = kafka_settings(context, bootstrap, topic_prefix)
    from streams.kafka.process_exit import end_process
    from streams.kafka.run_worker import WorkerOptions, run

    try:
        run(
            settings,
            broker,
            WorkerOptions(
                data_dir=context.data_dir,
                operators=[name.strip() for name in operators.split(",") if name.strip()],
                partitions=partitions,
                host=host,
                port=port,
                url=url,
                until_idle=until_idle,
            ),
        )
    except LostfoundError as error:
        print_error(str(error), error.hint)
        end_process(exit_code_of(error))

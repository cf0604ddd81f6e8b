"""The --bootstrap and --prefix options of the commands that talk to Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli.options import add_options
from streams.errors import InputError

if TYPE_CHECKING:
    from streams.cli.context import Context
    from streams.kafka.wire.broker import Broker
    from streams.settings import Settings

kafka_options = add_options(
    click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Address of the broker.  [env: KAFKA_BOOTSTRAP; default: 127.0.0.1:9092]",
    ),
    click.option(
        "--prefix", "topic_prefix", metavar="NAME", help="Prefix of all topic names.  [default: kafka.prefix]"
    ),
)

partitions_option = add_options(
    click.option(
        "--partitions",
        type=click.IntRange(1, 1024),
        help="Number of partitions of new topics.  [default: kafka.partitions]",
    )
)


def kafka_settings(context: Context, bootstrap: str | None, topic_prefix: str | None) -> tuple[Settings, Broker]:
    """Return the settings, with the topic prefix of the command line, and the broker's address and credentials.

    Raises InputError if the Kafka client is not installed.
    """
    try:
        import aiokafka  # noqa: F401 - only whether it is installed matters here
    except ImportError as error:
        raise InputError("the Kafka client is not installed", "run `pip install 'lostfound[kafka]'`") from error
    from streams.kafka.wire.broker import from_environment

    overrides: dict[str, dict[str, Any]] = {"kafka": {"prefix": topic_prefix}} if topic_prefix else {}
    return context.settings(overrides), from_environment(bootstrap)

"""`lostfound topics`: create the Kafka topics of a collection."""

from __future__ import annotations

import click

from streams.cli.context import Context
from streams.cli.kafka_options import kafka_options, kafka_settings, partitions_option
from streams.cli.options import common_options


@click.group
def topics() -> None:
    """Manage the Kafka topics of a collection."""


@topics.command
@kafka_options
@partitions_option
@common_options
@click.pass_obj
def create(context: Context, bootstrap: str | None, topic_prefix: str | None, partitions: int | None) -> None:
    """Create the missing topics of a collection.

    The number of partitions cannot be changed later.
    """
    import asyncio

    settings, broker = kafka_settings(context, bootstrap, topic_prefix)
    from streams.kafka.wire.topics import ensure

    counts = asyncio.run(ensure(broker, settings.kafka, partitions=partitions, create=True))
    click.echo(f"all topics of {settings.kafka.prefix} exist, with {counts.partitions} partitions")

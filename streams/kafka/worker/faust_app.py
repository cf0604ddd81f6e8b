"""Builds the Faust app of a worker: one agent per topic and one table for the state.

Faust acknowledges a batch even if its agent raises an exception, which would lose the batch. Any error in an agent
therefore ends the process before the batch is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import Any, cast

import faust
import structlog
from faust.auth import SASLCredentials, SSLCredentials

from state.errors import StateIncompatible
from streams.kafka.process_exit import end_process
from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import VALUE_TYPES, Topic
from streams.kafka.worker.faust_consumer import Consumer, FlowControl, Transport
from streams.kafka.worker.faust_table import StateTable, TableManager
from streams.kafka.worker.page_processor import PageProcessor
from streams.kafka.worker.partition_snapshots import Snapshots
from streams.kafka.worker.runner import Message
from streams.kafka.worker.session import Session

log = structlog.get_logger(__name__)
ProcessBatch = Callable[[list[Message]], Awaitable[None]]
OPERATORS = ("sketch", "state")  # the groups of operators that a worker can run
HEARTBEATS_PER_SESSION = 4
METADATA_SECONDS_MAX = 10  # partitions added to `pages` are read after at most this time
CHANGELOG_RECORDS_BUFFERED = 32  # per recovering partition; a record has at most `pack_bytes`


class App(faust.App):
    """A Faust app that starts and stops the resources of its agents."""

    def __init__(self, page_processor: PageProcessor, snapshots: Snapshots, name: str, **settings: Any) -> None:
        self.page_processor, self.runner, self.snapshots = page_processor, page_processor.runner, snapshots
        self.session = Session(self.runner.settings.kafka.session_seconds)
        super().__init__(name, **settings)
        page_processor.membership = self.membership
        self._refusal: StateIncompatible | None = None
        self._refused = asyncio.Event()

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    @cached_property
    def flow_control(self) -> FlowControl:
        """The gate that holds back messages during a rebalance."""
        return FlowControl(loop=self.loop)

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned and recovered."""
        return not self.rebalancing and self.runner.partitions.recovered

    def membership(self) -> int | None:
        """Return the generation of the consumer group, or None if this worker may no longer be a member."""
        return self.consumer_generation_id if self.session.is_alive else None

    def waiting_messages(self) -> dict[str, int]:
        """Count the assigned partitions' unacknowledged messages by topic; return {} before the consumer starts."""
        consumer = self._consumer
        return consumer.waiting_messages() if isinstance(consumer, Consumer) and consumer.started else {}

    async def report_expired(self, topic: str, partition: int, start: int, end: int) -> None:
        """Report messages that were deleted from a topic before any worker read them."""
        await self.runner.report_expired(topic, partition, start, end)

    def on_rebalance_start(self) -> None:
        """Record that partitions may be behind their changelogs."""
        self.runner.partitions.recovered = False
        super().on_rebalance_start()

    def on_rebalance_end(self) -> None:
        """Record that the active partitions have caught up with their changelogs.

        If partitions have been assigned again meanwhile, they have to catch up first.
        """
        super().on_rebalance_end()
        recovery = cast(TableManager, self.tables).recovery
        is_newest = recovery._generation_id == self.consumer_generation_id  # noqa: SLF001 - has no public interface
        self.runner.partitions.recovered = is_newest and not recovery.signal_recovery_start.is_set()

    async def on_start(self) -> None:
        """Connect the producer and the sweep log before the worker joins the consumer group.

        Raise StateIncompatible if the collection has a different scheme or a newer version of messages.
        """
        await self.runner.producer.start()
        await self.runner.sweep_log.start()
        await self.runner.sweep_log.join(self.runner.settings.scheme.id)
        await super().on_start()

    async def refuse(self, error: StateIncompatible) -> None:
        """Make `wait_until_refused` raise the error. Never return, so that the batch is not acknowledged."""
        self._refusal = error
        self._refused.set()
        await asyncio.Event().wait()

    async def wait_until_refused(self) -> None:
        """Raise StateIncompatible once this worker has received messages that only a newer version can read."""
        await self._refused.wait()
        assert self._refusal is not None
        raise self._refusal

    async def on_shutdown(self) -> None:
        """Disconnect the producer and the sweep log, and stop sketching, after the last message is processed."""
        await super().on_shutdown()
        await self.runner.sweep_log.stop()
        await self.runner.producer.stop()
        self.page_processor.close()


def build_app(
    page_processor: PageProcessor, snapshots: Snapshots, broker: Broker, url: str, operators: Sequence[str]
) -> App:
    """Return the app of a worker that other workers reach at `url`. `operators` is a subset of OPERATORS."""
    runner = page_processor.runner
    kafka, partition_count = runner.settings.kafka, runner.context.partition_count
    app = App(
        page_processor,
        snapshots,
        kafka.prefix,
        broker=[f"kafka://{address.strip()}" for address in broker.bootstrap.split(",")],
        broker_credentials=_credentials(broker),
        datadir=str(runner.partitions.folder / "faust"),
        canonical_url=url,
        Table=StateTable,
        TableManager=TableManager,
        web_enabled=False,
        autodiscover=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        # A worker needs a table or standbys; otherwise its assignment protocol differs from the other workers'.
        table_standby_replicas=max(kafka.standby_replicas, 0 if "state" in operators else 1),
        consumer_auto_offset_reset="earliest",
        broker_commit_interval=kafka.commit_seconds,
        broker_session_timeout=kafka.session_seconds,
        broker_heartbeat_interval=kafka.session_seconds / HEARTBEATS_PER_SESSION,
        broker_request_timeout=max(90.0, kafka.session_seconds + 1),
        broker_max_poll_records=500,
        consumer_metadata_max_age_ms=METADATA_SECONDS_MAX * 1000,
        consumer_max_fetch_size=4 << 20,
        stream_buffer_maxsize=max(kafka.take_messages, kafka.take_pages),
        stream_recovery_delay=0.0,
    )

    def faust_topic(topic: Topic) -> Any:
        serializers: dict[str, Any] = {"key_serializer": "raw", "value_serializer": "raw", "value_type": bytes}
        return app.topic(topics.full_name(kafka, topic), partitions=partition_count, **serializers)

    def add_agent(topic: Topic, process_batch: ProcessBatch, messages_max: int) -> None:
        async def process_stream(stream: Any) -> None:
            async for events in stream.take_events(messages_max, within=kafka.take_seconds):
                await _process_or_end(app, process_batch, [_to_message(event.message) for event in events])

        app.agent(faust_topic(topic), name=topic.value, concurrency=1)(process_stream)

    if "state" in operators:
        app.Table(
            "state",
            partitions=partition_count,
            key_type=bytes,
            value_type=bytes,
            changelog_topic=faust_topic(Topic.CHANGELOG),
            recovery_buffer_size=CHANGELOG_RECORDS_BUFFERED,
        )
        for topic in VALUE_TYPES:
            add_agent(topic, partial(runner.process, topic), kafka.take_messages)
    if "sketch" in operators:
        add_agent(Topic.PAGES, page_processor.process, kafka.take_pages)
    return app


async def _process_or_end(app: App, process_batch: ProcessBatch, batch: list[Message]) -> None:
    """Process a batch. If this fails, never return, because Faust would acknowledge the batch."""
    try:
        await process_batch(batch)
    except StateIncompatible as error:
        await app.refuse(error)
    except BaseException:
        log.exception("a batch failed; the process ends before acknowledging it")
        end_process()


def _to_message(message: Any) -> Message:
    return Message(
        partition=message.partition,
        offset=message.offset,
        time=round((message.timestamp or 0) * 1000),
        value=message.value,
        headers=list(message.headers or ()),
    )


def _credentials(broker: Broker) -> Any:
    context = broker.tls_context()
    if broker.protocol.startswith("SASL"):
        return SASLCredentials(
            username=broker.username, password=broker.password, mechanism=broker.mechanism, ssl_context=context
        )
    return SSLCredentials(context) if context else None

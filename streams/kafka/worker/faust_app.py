"""The Faust app: one agent a topic, one table for the state. All that is Faust's way of doing things is in here.

An agent never raises: Faust acknowledges a batch whose body raised, and the messages would be lost. Whatever goes
wrong in a batch ends the process before that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import faust
import structlog
from faust.auth import SASLCredentials, SSLCredentials

from streams.kafka.process_exit import end_process
from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import MESSAGE_TYPES, Topic
from streams.kafka.worker.faust_consumer import Consumer, FlowControl, Transport
from streams.kafka.worker.faust_table import URL, TableStore
from streams.kafka.worker.runner import Message, Runner
from streams.settings import KafkaSettings

log = structlog.get_logger(__name__)
Take = Callable[[Sequence[Message]], Awaitable[None]]
OPERATORS = ("sketch", "state")
HEARTBEATS_A_SESSION = 4
CHANGELOG_RECORDS_BUFFERED = 32  # of up to `pack_bytes` each, while a partition is recovered


class App(faust.App):
    """A Faust app that starts and stops what its agents need."""

    runner: Runner

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    @cached_property
    def flow_control(self) -> FlowControl:
        """Holds messages back from the agents while partitions change hands."""
        return FlowControl(loop=self.loop)

    def waiting(self) -> dict[str, int]:
        """Messages of the partitions held that are not acknowledged, by topic; nothing before the start."""
        consumer = self._consumer
        return consumer.waiting() if isinstance(consumer, Consumer) and consumer.started else {}

    async def on_start(self) -> None:
        """Connect before the first message can come."""
        await self.runner.producer.start()
        await self.runner.sweep_log.start()
        await super().on_start()

    async def on_shutdown(self) -> None:
        """Let go after the last message is done."""
        await super().on_shutdown()
        await self.runner.sweep_log.stop()
        await self.runner.producer.stop()
        self.runner.close()


def build(runner: Runner, broker: Broker, data_dir: Path, url: str, operators: Sequence[str]) -> App:
    """The app of a worker that answers others at `url` and runs `operators`, some of OPERATORS."""
    kafka = runner.settings.kafka
    count = runner.context.partitions
    app = App(
        kafka.prefix,
        broker=[f"kafka://{address.strip()}" for address in broker.bootstrap.split(",")],
        broker_credentials=_credentials(broker),
        datadir=str(data_dir / "faust"),
        canonical_url=url,
        web_enabled=False,
        autodiscover=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        # With neither a table nor a standby Faust would assign by another protocol than the other workers.
        table_standby_replicas=max(kafka.standby_replicas, 0 if "state" in operators else 1),
        consumer_auto_offset_reset="earliest",
        **_times(kafka),
    )
    app.runner = runner

    def topic(which: Topic) -> Any:
        full = topics.full_name(kafka, which)
        return app.topic(full, partitions=count, key_serializer="raw", value_serializer="raw", value_type=bytes)

    if "state" in operators:
        _state_table(app, topic(Topic.CHANGELOG), count)
        for which in MESSAGE_TYPES:
            app.agent(topic(which), name=which.value, concurrency=1)(
                _agent(_taker(runner, which), kafka.take_messages, kafka.take_seconds)
            )
    if "sketch" in operators:
        app.agent(topic(Topic.PAGES), name="pages", concurrency=1)(
            _agent(runner.take_pages, kafka.take_pages, kafka.take_seconds)
        )
    return app


def _times(kafka: KafkaSettings) -> dict[str, Any]:
    return {
        "broker_commit_interval": kafka.commit_seconds,
        "broker_session_timeout": kafka.session_seconds,
        "broker_heartbeat_interval": kafka.session_seconds / HEARTBEATS_A_SESSION,
        "broker_request_timeout": max(90.0, kafka.session_seconds + 1),
        "broker_max_poll_records": 500,
        "consumer_max_fetch_size": 4 << 20,
        "stream_buffer_maxsize": max(kafka.take_messages, kafka.take_pages),
        "stream_recovery_delay": 0.0,
    }


def _state_table(app: App, changelog: Any, count: int) -> None:
    table = app.Table(
        "state",
        store=URL,
        partitions=count,
        key_type=bytes,
        value_type=bytes,
        changelog_topic=changelog,
        recovery_buffer_size=CHANGELOG_RECORDS_BUFFERED,
    )
    store = table.data
    assert isinstance(store, TableStore)
    store.partitions = app.runner.partitions


def _taker(runner: Runner, topic: Topic) -> Take:
    async def take(batch: Sequence[Message]) -> None:
        await runner.take(topic, batch)

    return take


def _agent(take: Take, most: int, seconds: float) -> Callable[[Any], Awaitable[None]]:
    async def agent(stream: Any) -> None:
        batches: AsyncIterator[Sequence[Any]] = stream.take_events(most, within=seconds)
        async for events in batches:
            try:
                await take([_message(event.message) for event in events])
            except BaseException:
                log.exception("a batch failed; this process ends before it is acknowledged")
                end_process()

    return agent


def _message(given: Any) -> Message:
    headers = given.headers or ()
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    return Message(given.partition, given.offset, int((given.timestamp or 0) * 1000), given.value, pairs)


def _credentials(broker: Broker) -> Any:
    context = broker.tls()
    if broker.protocol.startswith("SASL"):
        return SASLCredentials(
            username=broker.username, password=broker.password, mechanism=broker.mechanism, ssl_context=context
        )
    return SSLCredentials(context) if context else None

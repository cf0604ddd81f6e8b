"""The sweep log: a topic with one partition, from which every worker derives the same sweeps.

    {"event": "open",      "name": "2026-11", "time": ms}
    {"event": "commit",    "name": ..., "time": ..., "end_offsets": [one per partition of `pages`]}
    {"event": "reached",   "name": ..., "time": ..., "number": n, "captures": n}
    {"event": "cancel",    "name": ..., "time": ...}
    {"event": "drained",   "name": ..., "time": ..., "number": n}
    {"event": "cancelled", "name": ..., "time": ..., "number": n}
    {"event": "moves_published", "name": ..., "time": ..., "number": n}
    {"event": "format",    "scheme": id or "", "version": n, "time": ms}
    {"event": "expired",   "topic": ..., "partition": p, "start_offset": n, "end_offset": n, "time": ...}

Sweeps are numbered in the order of their `open` events, so all workers agree on the numbers without communicating.
`commit` requests a commit and records the end offsets of `pages`. A worker appends `reached` once all messages before
these offsets have passed all stages: the sweep is now committed. After `moves_published`, the moves of the commit are
not published again. `cancel` hides a sweep. `drained` is appended once the messages in flight are processed; pages of
the sweep that a suspended worker sends after that are ignored. `cancelled` frees the sweep's name once its captures
are removed. `expired` reports messages that were deleted before a worker read them. They are counted for each sweep
that is open at this position of the log, because their own sweep is unknown.

`format` records the scheme of the collection's sketches and the version of its messages. Every worker appends it
before it joins the consumer group, unless the log already contains the same values. The first scheme in the log is
the collection's: a worker with a different scheme exits. If the version in the log is newer than a worker's own, the
worker does not start; if it is already running, it exits when it receives a message of a newer version, but only if
the log announces that version. A message newer than the log's version is rejected: any client could have sent it, so
it proves nothing.

Events that `state.sweep_life` does not allow are ignored, because two workers may append the same event. Events that
only workers append contain the sweep's number, because by then a new sweep may have the same name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from msgspec import Meta

from state import sweep_life, sweeps
from state.changes import Changes
from state.errors import LostfoundError, StateIncompatible
from state.families import Family
from state.model import Sweep, SweepState
from state.sweep_life import Phase, Step, SweepLife
from streams.errors import InputError
from streams.kafka.process_exit import end_process
from streams.kafka.wire import record_batches, topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import SCHEMA_VERSION, Topic, schema
from streams.kafka.wire.producer import Producer
from streams.settings import KafkaSettings
from streams.timestamps import MILLIS_MAX

log = structlog.get_logger(__name__)
CATCH_UP_POLL_SECONDS = 0.05
_NonNegative = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event in the log."""

    event: Literal[
        "open", "commit", "reached", "cancel", "drained", "cancelled", "moves_published", "expired", "format"
    ]
    name: str = ""
    time: Annotated[int, Meta(ge=0, le=MILLIS_MAX)]  # ms since the epoch, UTC
    end_offsets: list[_NonNegative] = []  # one per partition of `pages`
    captures: _NonNegative = 0
    number: Annotated[int, Meta(ge=0, lt=1 << 32)] = 0  # 0: the sweep that has this name at this position of the log
    scheme: Annotated[str, Meta(max_length=100)] = ""  # only in "format", like `version`
    version: _NonNegative = 0
    # The fields of "expired". `topic` is the full name.
    topic: Annotated[str, Meta(max_length=249)] = ""
    partition: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    start_offset: _NonNegative = 0
    end_offset: _NonNegative = 0


STEPS = {
    "open": Step.OPEN,
    "commit": Step.REQUEST_COMMIT,
    "reached": Step.COMMIT,  # all pages before the requested commit are processed: the sweep is now committed
    "cancel": Step.CANCEL,
    "cancelled": Step.FINISH_CANCEL,
    "moves_published": Step.PUBLISH_MOVES,
}
"""The step of `state.sweep_life` that each event performs."""


def newer_version_error(source: str, version: int) -> StateIncompatible:
    """Return the error for messages of a version that this process cannot read."""
    return StateIncompatible(
        f"{source} has messages of version {version}, but this version of lostfound reads only versions up to"
        f" {SCHEMA_VERSION}",
        "use the newer version of lostfound; unread messages stay in the topic",
    )


class SweepTable:
    """The sweeps that result from the events of the log."""

    def __init__(self) -> None:
        self.sweeps: dict[int, Sweep] = {}
        self.pending_commits: dict[int, Event] = {}  # commits that are not yet in effect, by sweep number
        self._drained: set[int] = set()  # the numbers of sweeps that were cancelled and drained
        self._phases: dict[int, Phase] = {}
        self.scheme_id = ""  # of the collection; empty until the first worker has started
        self.message_version = 0  # the newest version of messages between workers and from `publish`
        # The end offset of the last expired range that was counted, by (topic, partition).
        self._expired_ends: dict[tuple[str, int], int] = {}
        self._rows: dict[bytes, bytes] | None = None  # cached by `rows()`; reset by each event

    def find(self, name: str) -> Sweep | None:
        """Return the sweep with this name, or None. Cancelled sweeps are ignored."""
        matches = (s for s in self.sweeps.values() if s.name == name and s.state is not SweepState.CANCELLED)
        return next(matches, None)

    def is_released(self, name: str) -> bool:
        """Return whether sweeps with this name exist, and all of them are cancelled."""
        return self.find(name) is None and any(sweep.name == name for sweep in self.sweeps.values())

    @property
    def unpublished_sweep(self) -> Sweep | None:
        """The last committed sweep if its moves are not published yet, or None. Older moves are outdated."""
        committed = [number for number, sweep in self.sweeps.items() if sweep.state is SweepState.COMMITTED]
        last_number = max(committed, default=0)  # 0: no sweep is committed
        unpublished = last_number and self._phases[last_number] is Phase.COMMITTED
        return self.sweeps[last_number] if unpublished else None

    def apply(self, event: Event) -> None:
        """Apply an event. Ignore an event that `state.sweep_life` does not allow."""
        self._rows = None
        if event.event == "expired":
            self._count_expired(event)
            return
        if event.event == "format":
            self.scheme_id = self.scheme_id or event.scheme
            self.message_version = max(self.message_version, event.version)
            return
        if event.event == "drained":
            self._drained.add(event.number)
            return
        try:
            life = self._life_after(event)
        except LostfoundError:
            return
        number = life.sweep.number
        self.sweeps[number], self._phases[number] = life.sweep, life.phase
        if life.phase is Phase.COMMIT_REQUESTED:
            self.pending_commits[number] = event
        else:
            self.pending_commits.pop(number, None)

    def _count_expired(self, event: Event) -> None:
        # Two workers may report the same messages, if the first one stopped before it committed its position.
        source = (event.topic, event.partition)
        count = event.end_offset - max(event.start_offset, self._expired_ends.get(source, 0))
        self._expired_ends[source] = max(event.end_offset, self._expired_ends.get(source, 0))
        for number, sweep in self.sweeps.items():
            if sweep.state is SweepState.OPEN and count > 0:
                expired_messages = sweep.expired_messages + count
                self.sweeps[number] = msgspec.structs.replace(sweep, expired_messages=expired_messages)

    def ignores_pages(self, number: int) -> bool:
        """Return whether sketched pages of a sweep arrive too late, because the sweep was cancelled and drained.

        Until it is drained, its pages must pass all stages: pages of other sweeps may refer to a document whose text
        was sent only with a page of this sweep.
        """
        sweep = self.sweeps.get(number)
        return sweep is not None and (number in self._drained or sweep.state is SweepState.CANCELLED)

    def check(self, event: Event) -> None:
        """Raise LostfoundError if clients cannot request this event, or `state.sweep_life` does not allow it."""
        if event.event not in ("open", "commit", "cancel"):
            raise InputError(f"the event {event.event!r} cannot be requested", "only workers append this event")
        self._life_after(event)

    def _life_after(self, event: Event) -> SweepLife:
        sweep = self.find(event.name)
        life = SweepLife(sweep, self._phases[sweep.number]) if sweep is not None else None
        number = len(self.sweeps) + 1 if event.event == "open" else event.number
        return sweep_life.apply(
            life, STEPS[event.event], event.name, time=event.time, number=number, captures=event.captures
        )

    def rows(self) -> dict[bytes, bytes]:
        """Return the sweeps as rows of the family SWEEPS."""
        if self._rows is None:
            changes = Changes()
            for sweep in self.sweeps.values():
                sweeps.put(changes, sweep)
            self._rows = changes.puts_of(Family.SWEEPS)
        return self._rows


class SweepLog:
    """The log on the broker, and the sweeps that result from the events applied so far."""

    def __init__(self, broker: Broker, settings: KafkaSettings, producer: Producer) -> None:
        self.table = SweepTable()
        self.producer = producer
        self._prefix = settings.prefix
        self._broker, self._topic = broker, topics.full_name(settings, Topic.SWEEPS)
        self._batch_bytes_max = settings.batch_bytes_max
        self._consumer: AIOKafkaConsumer | None = None
        self._follower: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Apply all events up to the current end of the log, then keep applying new events in the background."""
        record_batches.install(self._batch_bytes_max)  # for all consumers of this process
        arguments = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        self._consumer = AIOKafkaConsumer(**self._broker.client_arguments(), **arguments)
        await self._consumer.start()
        partition = TopicPartition(self._topic, 0)
        self._consumer.assign([partition])
        end = (await self._consumer.end_offsets([partition]))[partition]
        while await self._consumer.position(partition) < end:
            await self._apply_next_events()
        self._follower = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop applying events and disconnect."""
        if self._follower is not None:
            self._follower.cancel()
        if self._consumer is not None:
            await self._consumer.stop()

    async def _follow(self) -> None:
        try:
            while True:
                await self._apply_next_events()
        except asyncio.CancelledError:
            raise
        except BaseException:
            log.exception("cannot follow the sweep log; exiting")
            end_process()

    async def _apply_next_events(self) -> None:
        assert self._consumer is not None
        batches = await self._consumer.getmany(timeout_ms=1000)
        records = [record for batch in batches.values() for record in batch]
        for record in records:
            try:
                self.table.apply(msgspec.json.decode(record.value or b"", type=Event))
            except (msgspec.DecodeError, ValueError) as error:
                log.warning("ignoring an invalid record in the sweep log", offset=record.offset, error=str(error))
        if records:
            async with self._changed:
                self._changed.notify_all()

    async def join(self, scheme_id: str = "") -> None:
        """Record the scheme, if there is one, and the version of this process's messages.

        Raise StateIncompatible if the collection has a different scheme or a newer version.
        """
        table = self.table
        if (scheme_id and not table.scheme_id) or table.message_version < SCHEMA_VERSION:
            now = time.time_ns() // 1_000_000
            await self.append(Event(event="format", scheme=scheme_id, version=SCHEMA_VERSION, time=now))
            await self.catch_up()
        if scheme_id and table.scheme_id != scheme_id:
            raise StateIncompatible(
                f"the collection {self._prefix!r} has scheme {table.scheme_id}, but the settings have {scheme_id}",
                "use the [scheme] settings of its first worker, or a different --prefix",
            )
        if table.message_version > SCHEMA_VERSION:
            raise newer_version_error(f"the collection {self._prefix!r}", table.message_version)

    async def catch_up(self) -> None:
        """Wait until every event currently in the log has been applied."""
        assert self._consumer is not None
        partition = TopicPartition(self._topic, 0)
        end = (await self._consumer.end_offsets([partition]))[partition]
        while await self._consumer.position(partition) < end:  # noqa: ASYNC110 - transaction markers trigger no event
            await asyncio.sleep(CATCH_UP_POLL_SECONDS)  # `_follow` applies the events

    async def append(self, event: Event) -> None:
        """Append an event to the log."""
        headers = [("schema", schema(Topic.SWEEPS).encode())]
        await self.producer.send_encoded(Topic.SWEEPS, 0, msgspec.json.encode(event), headers)

    async def get_or_open(self, name: str, now: int | None = None) -> int:
        """Return the number of the sweep with this name. Open it at the time `now` (ms) if it does not exist."""
        sweep = self.table.find(name)
        if sweep is None:
            now = time.time_ns() // 1_000_000 if now is None else now
            await self.append(Event(event="open", name=name, time=now))
            await self.wait_until(lambda table: table.find(name) is not None)
            sweep = self.table.find(name)
            assert sweep is not None
        return sweep.number

    async def wait_until(self, condition: Callable[[SweepTable], bool]) -> None:
        """Wait until the sweeps meet the condition, which is checked after each batch of events."""
        async with self._changed:
            while not condition(self.table):
                await self._changed.wait()

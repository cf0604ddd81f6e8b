"""Sweeps as a log: one partition whose order is the same for all, folded by every worker from its beginning.

    {"event": "open",      "name": "2026-11", "time": ms}
    {"event": "commit",    "name": ..., "time": ..., "until": [end offset of each partition of `pages`]}
    {"event": "reached",   "name": ..., "time": ..., "number": n, "captures": n}
    {"event": "cancel",    "name": ..., "time": ...}
    {"event": "cancelled", "name": ..., "time": ..., "number": n}
    {"event": "told",      "name": ..., "time": ..., "number": n}

A sweep's number is its place among the openings, so that workers agree on it without asking one another. A commit
is asked for with where `pages` ended then; it takes effect with `reached`, which a worker writes once every partition
has got that far, through all stages; and `told` says that the moves which the commit brought are in their
topic. `cancel` hides a sweep; `cancelled` frees its name, once all that was under way of it has come and is taken
back. Records that do not fit the life of a sweep change nothing: two workers may write the same one. What a worker
writes by itself says the number: the name may be another sweep's by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from state import sweeps
from state.changes import Changes
from state.families import Family
from state.model import Sweep, SweepState
from streams.errors import InputError
from streams.kafka.process_exit import end_process
from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import Topic, schema
from streams.kafka.wire.producer import Producer
from streams.settings import KafkaSettings

log = structlog.get_logger(__name__)


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of the log."""

    event: Literal["open", "commit", "reached", "cancel", "cancelled", "told"]
    name: str
    time: int  # ms since the epoch, UTC
    until: list[int] = []
    captures: int = 0
    number: int = 0  # of the sweep; 0: the one that has the name there


class SweepTable:
    """What the log comes to."""

    def __init__(self) -> None:
        self.sweeps: dict[int, Sweep] = {}
        self.pending_commits: dict[int, Event] = {}  # commits that were asked for and have not taken effect
        self.published: set[int] = set()
        self._rows: dict[bytes, bytes] | None = None  # as asked for last; None: the log has gone on since

    def find(self, name: str) -> Sweep | None:
        """The sweep of this name that is not cancelled; a cancelled name is free again."""
        held = (s for s in self.sweeps.values() if s.name == name and s.state is not SweepState.CANCELLED)
        return next(held, None)

    @property
    def unpublished(self) -> Sweep | None:
        """The last committed sweep, while its moves are not sent; one before it has been overtaken."""
        committed = (s for s in self.sweeps.values() if s.state is SweepState.COMMITTED)
        last = max(committed, key=lambda sweep: sweep.number, default=None)
        return last if last is not None and last.number not in self.published else None

    def apply(self, event: Event) -> None:
        """Take one record."""
        self._rows = None
        held = self.find(event.name)
        if event.event == "open":
            if held is None:
                number = len(self.sweeps) + 1
                self.sweeps[number] = Sweep(number, event.name, SweepState.OPEN, opened=event.time)
            return
        if held is None or event.number not in (0, held.number):
            return
        if event.event == "told":
            if held.state is SweepState.COMMITTED:
                self.published.add(held.number)
            return
        wanted = {"reached": SweepState.COMMITTED, "cancel": SweepState.CANCELLING, "cancelled": SweepState.CANCELLED}
        if event.event == "commit":
            if held.state is SweepState.OPEN:
                self.pending_commits[held.number] = event
            return
        state = wanted[event.event]
        if state in sweeps.TRANSITIONS[held.state]:
            asked = self.pending_commits.pop(held.number, event)
            moved = sweeps.transition(held, state, asked.time)
            if state is SweepState.COMMITTED:
                moved = msgspec.structs.replace(moved, captures=event.captures)
            self.sweeps[held.number] = moved

    def check(self, event: Event) -> None:
        """Refuse what is asked for and does not fit the life of a sweep; raises LostfoundError."""
        held = self.find(event.name)
        if event.event == "open":
            sweeps.check_new(event.name, held)
            return
        if event.event not in ("commit", "cancel"):
            raise InputError(f"{event.event!r} is not asked for", "a worker writes it by itself")
        if held is None:
            raise InputError(f"there is no sweep {event.name!r}", "`lostfound sweep list` shows all")
        if event.event == "commit":
            sweeps.transition(held, SweepState.COMMITTED)

    def rows(self) -> dict[bytes, bytes]:
        """The sweeps as rows of the family `sweeps`."""
        if self._rows is None:
            changes = Changes()
            for sweep in self.sweeps.values():
                sweeps.put(changes, sweep)
            self._rows = changes.family(Family.SWEEPS)
        return self._rows


class SweepLog:
    """The log, followed while the process lives."""

    def __init__(self, broker: Broker, settings: KafkaSettings, producer: Producer) -> None:
        self.table = SweepTable()
        self.producer = producer
        self._broker, self._topic = broker, topics.full_name(settings, Topic.SWEEPS)
        self._consumer: AIOKafkaConsumer | None = None
        self._following: asyncio.Task[None] | None = None
        self._more = asyncio.Condition()

    async def start(self) -> None:
        """Read what is there, then follow."""
        self._consumer = AIOKafkaConsumer(**self._broker.client(), auto_offset_reset="earliest")
        await self._consumer.start()
        place = TopicPartition(self._topic, 0)
        self._consumer.assign([place])
        end = (await self._consumer.end_offsets([place]))[place]
        while await self._consumer.position(place) < end:
            await self._take_some()
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop following."""
        if self._following is not None:
            self._following.cancel()
        if self._consumer is not None:
            await self._consumer.stop()

    async def _follow(self) -> None:
        try:
            while True:
                await self._take_some()
        except asyncio.CancelledError:
            raise
        except BaseException:
            log.exception("the log of sweeps cannot be followed")
            end_process()

    async def _take_some(self) -> None:
        assert self._consumer is not None
        found = await self._consumer.getmany(timeout_ms=1000)
        records = [record for each in found.values() for record in each]
        for record in records:
            try:
                self.table.apply(msgspec.json.decode(record.value or b"", type=Event))
            except (msgspec.DecodeError, ValueError) as error:
                log.warning("a record of sweeps is passed over", offset=record.offset, error=str(error))
        if records:
            async with self._more:
                self._more.notify_all()

    async def append(self, event: Event) -> None:
        """Append a record."""
        await append_event(self.producer, event)

    async def get_or_open(self, name: str) -> int:
        """The number of a sweep, opened when there is none of this name."""
        held = self.table.find(name)
        if held is None:
            await self.append(Event("open", name, time.time_ns() // 1_000_000))
            await self.wait_until(lambda table: table.find(name) is not None)
            held = self.table.find(name)
            assert held is not None
        return held.number

    async def wait_until(self, happened: Callable[[SweepTable], bool]) -> None:
        """Wait until the log says so."""
        async with self._more:
            while not happened(self.table):
                await self._more.wait()


async def append_event(producer: Producer, event: Event) -> None:
    """Append a record to the log."""
    await producer.send_message(
        Topic.SWEEPS, 0, msgspec.json.encode(event), [("schema", schema(Topic.SWEEPS).encode())]
    )

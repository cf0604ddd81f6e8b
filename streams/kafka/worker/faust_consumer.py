"""Corrects Faust's consumer so that no message is lost silently, and only committed transactions are read.

After a rebalance, Faust seeks to the changelog offsets from which it recovers, and later to the committed offsets. It
seeks in one partition after another while messages arrive. In five cases, Faust then fails to deliver messages until
the next rebalance:

- At the end of the rebalance, Faust calls `flow_control.resume` a second time, which empties the agents' queues: see
  FlowControl.
- If a message was waiting for room in a full queue when the rebalance began, its offset remains recorded as the last
  offset read. Earlier messages are then dropped as already read: see `on_partitions_assigned`.
- A batch fetched before a seek is delivered after the seek. Its offsets are ahead of the new position, so Faust
  treats the messages between the new position and the batch as processed: see `getmany`.
- If all partitions become paused during a fetch, Faust's set of active partitions is empty, which means *all*: the
  fetch reads every partition, advances the positions and discards the messages: see `_getmany`, and `_seeking`, which
  waits for the fetch.
- A stream skips a message that arrived between two rebalances, but may still acknowledge it: see `ack`.

Faust commits the offset after the last message that it delivered. Some offsets have no message to deliver: the
markers that end transactions, the messages of aborted transactions, and messages that retention has deleted. The
consumer therefore also commits its own position, once all messages before it are acknowledged: see
`_filter_committable_offsets`. Otherwise, these offsets would count as waiting messages forever. Messages in the queue
of an agent count as not acknowledged, although Faust does not track them yet.

If messages expire before they are read, aiokafka would silently move to the first remaining message. It is configured
to raise an error instead: see `_skip_expired`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast
from weakref import WeakSet

import structlog
from aiokafka.errors import IllegalStateError, NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.transport.drivers import aiokafka
from faust.types import TP
from mode.utils.futures import notify
from mode.utils.queues import FlowControlEvent

# Limits how long a seek waits for a fetch. It also limits how long the broker waits for messages before it answers a
# fetch: until then, it answers no other request on the same connection, such as those that look up offsets during a
# rebalance. Faust would let it wait for 1.5 seconds.
FETCH_SECONDS_MAX = 0.25
# Share of the request timeout; below 1, so that our TimeoutError comes before Faust gives up and continues without
# the seek.
SEEK_TIMEOUT_FACTOR = 0.9
log = structlog.get_logger(__name__)


class FlowControl(FlowControlEvent):
    """A gate that either passes messages to the agents or holds them back."""

    def resume(self) -> None:
        """Empty the queues and open the gate, unless it is already open."""
        if not self.is_active():
            super().resume()


class ConsumerThread(aiokafka.AIOKafkaConsumerThread):
    """The thread that runs aiokafka's consumer, with three options that Faust does not offer."""

    async def on_start(self) -> None:
        """Connect to the broker, and observe the requests to the group's coordinator."""
        await super().on_start()
        cast(Any, self.app).session.watch(self._ensure_consumer()._coordinator)  # noqa: SLF001 - see `Session.watch`

    def _create_worker_consumer(self, transport: aiokafka.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001
        consumer._fetch_max_wait_ms = round(FETCH_SECONDS_MAX * 1000)  # noqa: SLF001
        consumer._auto_offset_reset = "none"  # noqa: SLF001 - raise an error instead of skipping expired messages
        return consumer

    def highwater(self, tp: TP) -> int:
        """Return the last stable offset: messages of open transactions cannot be read yet."""
        return cast(int, self._ensure_consumer().last_stable_offset(tp))

    def positions(self, tps: Collection[TP]) -> dict[TP, int]:
        """Return the offset of the next fetch for each of these partitions that is assigned and has a position."""
        subscription = self._ensure_consumer()._subscription.subscription  # noqa: SLF001
        if subscription is None or subscription.assignment is None:
            return {}
        states = ((tp, subscription.assignment.state_value(tp)) for tp in tps)
        return {tp: state.position for tp, state in states if state is not None and state.has_valid_position}


class Consumer(aiokafka.Consumer):
    """Faust's consumer, corrected as described above: for example, fetches and seeks never overlap."""

    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._position_lock = asyncio.Lock()  # held during a fetch or a seek
        self._seek_count = 0
        self._seek_count_at_fetch = 0
        self._are_positions_valid = False  # whether all messages before the positions were delivered or committed
        self._positions: dict[TP, int] = {}  # at the start of the last fetch; all messages before them were delivered
        # Faust tracks a message only when a stream takes it from its queue, and a commit before that
        # would lose it. Messages that are dropped from a queue also disappear from this set.
        self._delivered_messages: WeakSet[Any] = WeakSet()

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def stop_flow(self) -> None:
        """Stop delivering messages. Those that are fetched but not delivered are fetched again after a seek."""
        self._forget_positions()
        super().stop_flow()

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Forget the offset last read from each newly assigned partition."""
        self._forget_positions()
        for tp in assigned:
            self._read_offset.pop(tp, None)
        await super().on_partitions_assigned(assigned, generation_id)

    def ack(self, message: Any) -> bool:
        """Acknowledge a message, unless a stream skipped it or it was delivered before the last rebalance.

        Faust's Python streams, unlike its C streams, acknowledge messages that they skip while the gate is closed.
        """
        if message.tracked and message.generation_id == self.app.consumer_generation_id:
            return super().ack(message)
        if message.generation_id == self.app.consumer_generation_id:
            self._forget_positions()  # a message before the position was skipped
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return False

    def _forget_positions(self) -> None:
        self._are_positions_valid = False
        self._positions = {}

    def _filter_committable_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:
        """Return the offsets to commit: those of acknowledged messages, and positions after acknowledged messages."""
        offsets: dict[TP, int] = super()._filter_committable_offsets(tps)
        first_unacked: dict[TP, int] = {}
        for message in self._delivered_messages:
            if not message.acked and message.generation_id == self.app.consumer_generation_id:
                first_unacked[message.tp] = min(message.offset, first_unacked.get(message.tp, message.offset))
        for tp, position in self._positions.items():
            committed = self._committed_offset.get(tp)
            last = max(-1 if committed is None else committed, offsets.get(tp, -1))
            if last < position <= first_unacked.get(tp, position):
                offsets[tp] = position
        return offsets

    def waiting_messages(self) -> Counter[str]:
        """Count unacknowledged messages of the assigned partitions by topic, up to the last known end offsets."""
        counts: Counter[str] = Counter()
        for tp in self.assignment():
            with suppress(IllegalStateError):  # the partition has just been revoked
                if not self._is_changelog_tp(tp) and (end := self.highwater(tp)) is not None:
                    counts[tp.topic] += max(0, end - (self._committed_offset.get(tp) or 0))
        return counts

    async def perform_seek(self) -> None:
        """Seek to the committed offsets. If the broker does not answer, raise TimeoutError to end the process."""
        async with self._seeking():
            await super().perform_seek()
            self._are_positions_valid = True

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seek to the given offsets. Raise TimeoutError if the broker does not answer."""
        async with self._seeking():
            await super().seek_wait(partitions)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the committed offset of each partition, or to the beginning if no offset is committed.

        Otherwise, in a partition without a committed offset, the position would stay past messages that Faust has
        dropped.
        """
        offsets = await super().seek_to_committed()
        uncommitted = {tp for tp, offset in offsets.items() if not offset and not self._is_changelog_tp(tp)}
        if uncommitted:
            earliest_offsets = await self.earliest_offsets(*uncommitted)
            for tp, earliest_offset in earliest_offsets.items():
                if earliest_offset:
                    await self._report_unread(tp, offsets[tp], earliest_offset)
            await super().seek_wait(earliest_offsets)
        return offsets

    async def _report_unread(self, tp: TP, committed: int | None, earliest_offset: int) -> None:
        """Report that a partition without read messages does not start at offset 0."""
        changelogs = [changelog for changelog in self.assignment() if self._is_changelog_tp(changelog)]
        if committed is None and any((await self.highwaters(*changelogs)).values()):
            # The broker deletes the offsets of a group that is stopped for longer than offsets.retention.minutes.
            fields = {"topic": tp.topic, "partition": tp.partition, "offset": earliest_offset}
            log.warning("no offset is committed; reading from the first remaining message", **fields)
            return
        await self._expire(tp, 0, earliest_offset)

    async def _expire(self, tp: TP, start: int, end: int) -> None:
        await self.app.report_expired(tp.topic, tp.partition, start, end)  # type: ignore[attr-defined]
        # Faust commits only offsets that follow the committed offset without a gap.
        self._committed_offset[tp] = end - 1

    @asynccontextmanager
    async def _seeking(self) -> AsyncIterator[None]:
        async with asyncio.timeout(SEEK_TIMEOUT_FACTOR * self.app.conf.broker_request_timeout), self._position_lock:
            self._seek_count += 1
            self._positions = {}
            yield

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109
        async with self._position_lock:
            self._seek_count_at_fetch = self._seek_count
            # A copy, because pausing all partitions empties the original, and an empty set means all partitions.
            active = set(active_partitions) if active_partitions else active_partitions
            # Faust fetches again only when it has delivered all messages of the last fetch.
            if self._are_positions_valid and active:
                self._positions = self._thread.positions([tp for tp in active if not self._is_changelog_tp(tp)])
            with suppress(IllegalStateError):  # the partition has just been revoked
                try:
                    return await super()._getmany(active, min(timeout, FETCH_SECONDS_MAX))
                except OffsetOutOfRangeError as error:
                    await self._skip_expired(error.args[0])
                except NoOffsetForPartitionError as error:
                    await super().seek_wait(await self.earliest_offsets(error.args[0]))
            return {}

    async def _skip_expired(self, positions: Mapping[TP, int]) -> None:
        """Report messages that were deleted before they were read, and seek to the first remaining messages."""
        earliest_offsets = await self.earliest_offsets(*positions)  # ends the process if changelog records are lost
        for tp, earliest_offset in earliest_offsets.items():
            if positions[tp] < earliest_offset:
                await self._expire(tp, positions[tp], earliest_offset)
            else:  # the position is after the end: the topic was created again, or the broker lost messages
                log.error("messages that were read are missing", topic=tp.topic, partition=tp.partition)
                self._committed_offset[tp] = None
        self._positions = {}
        await super().seek_wait(earliest_offsets)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:  # noqa: ASYNC109
        """Fetch messages and yield them until a seek changes the positions."""
        async with aclosing(cast(AsyncGenerator[Any, None], super().getmany(timeout))) as messages:
            async for tp, message in messages:
                if self._seek_count != self._seek_count_at_fetch:
                    return
                if not self._is_changelog_tp(tp):
                    self._delivered_messages.add(message)
                yield tp, message

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the offset of the first message of each partition, which Faust requests before a recovery."""
        offsets: Mapping[TP, int] = await super().earliest_offsets(*partitions)
        for tp, offset in offsets.items():
            if self._is_changelog_tp(tp):
                self.app.snapshots.ensure_complete(tp.partition, offset)  # type: ignore[attr-defined]
        return offsets

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Warn about stalled streams, except for changelogs, which no stream reads after recovery."""
        if not self._is_changelog_tp(tp):
            super().verify_event_path(now, tp)


class Transport(aiokafka.Transport):
    """Faust's Kafka transport with the corrected consumer."""

    Consumer = Consumer

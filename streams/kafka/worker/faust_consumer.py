"""Corrects Faust's consumer so that a rebalance loses no messages.

After a rebalance Faust seeks to the changelog offsets that it recovers from, and later back to the committed offsets,
one partition after another and while messages arrive. There are five ways in which messages are then not delivered
before the next rebalance:

- `flow_control.resume` is called a second time at the end, and empties the agents' queues: see FlowControl.
- A message that waited for a full queue when the rebalance began leaves its offset behind as the last one read, and
  earlier messages are dropped as already read: see `on_partitions_assigned`.
- A batch that was fetched before a seek is delivered after it. Its offsets are ahead of the new position, and Faust
  considers the messages in between as processed: see `getmany`.
- A fetch that is in flight while its partitions are paused returns messages of all partitions, advances their
  positions, and discards the messages: see `_getmany`, and seeks, which wait for it.
- A message that a stream skips, because it arrived between two rebalances, may be acknowledged: see `ack`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

from aiokafka.errors import IllegalStateError
from faust.transport.drivers import aiokafka
from faust.types import TP
from mode.utils.futures import notify
from mode.utils.queues import FlowControlEvent

FETCH_SECONDS = 0.25  # the longest that a seek waits for a fetch
SEEK_SHARE = 0.9  # of the request timeout, after which Faust would continue without the seek


class FlowControl(FlowControlEvent):
    """Passes messages to the agents, or holds them back."""

    def resume(self) -> None:
        """Empty the queues and pass messages on; do nothing if they are passed on already."""
        if not self.is_active():
            super().resume()


class Consumer(aiokafka.Consumer):
    """A consumer in which fetches and seeks exclude each other."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._position = asyncio.Lock()
        self._seeks = 0
        self._seeks_at_fetch = 0

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Forget the last offsets read of newly assigned partitions."""
        for tp in assigned:
            self._read_offset.pop(tp, None)
        await super().on_partitions_assigned(assigned, generation_id)

    def ack(self, message: Any) -> bool:
        """Acknowledge a message, unless a stream skipped it or it was delivered before the last rebalance.

        Faust's Python streams, unlike its C streams, acknowledge messages that they skip while flow is suspended.
        """
        if message.tracked and message.generation_id == self.app.consumer_generation_id:
            return super().ack(message)
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return False

    def waiting_messages(self) -> Counter[str]:
        """Count unacknowledged messages of the assigned partitions by topic, up to the last known end offsets."""
        counts: Counter[str] = Counter()
        for tp in self.assignment():
            with suppress(IllegalStateError):  # the partition has just been revoked
                if not self._is_changelog_tp(tp) and (end := self.highwater(tp)) is not None:
                    counts[tp.topic] += max(0, end - (self._committed_offset.get(tp) or 0))
        return counts

    async def perform_seek(self) -> None:
        """Seek to the committed offsets. Raise TimeoutError if the broker does not answer, to end the process."""
        async with self._seeking():
            await super().perform_seek()

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Seek to these offsets. Raise TimeoutError if the broker does not answer."""
        async with self._seeking():
            await super().seek_wait(partitions)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the committed offsets, or to the beginning of partitions without one.

        Faust would leave a partition without a committed offset where it is, after the messages that it dropped.
        """
        offsets = await super().seek_to_committed()
        uncommitted = {tp for tp, offset in offsets.items() if not offset and not self._is_changelog_tp(tp)}
        if uncommitted:
            await super().seek_wait(await self.earliest_offsets(*uncommitted))
        return offsets

    @asynccontextmanager
    async def _seeking(self) -> AsyncIterator[None]:
        async with asyncio.timeout(SEEK_SHARE * self.app.conf.broker_request_timeout), self._position:
            self._seeks += 1
            yield

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109
        async with self._position:
            self._seeks_at_fetch = self._seeks
            # A copy: if all are paused during the call, the set becomes empty, which means all partitions.
            active = set(active_partitions) if active_partitions else active_partitions
            return await super()._getmany(active, min(timeout, FETCH_SECONDS))

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:  # noqa: ASYNC109
        """Fetch and yield messages; stop when a seek has changed the position."""
        async with aclosing(cast(AsyncGenerator[Any, None], super().getmany(timeout))) as fetched:
            async for tp, message in fetched:
                if self._seeks != self._seeks_at_fetch:
                    return
                yield tp, message

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Warn of stalled streams, except for changelogs, which no stream reads after recovery."""
        if not self._is_changelog_tp(tp):
            super().verify_event_path(now, tp)


class Transport(aiokafka.Transport):
    """Kafka through the corrected consumer."""

    Consumer = Consumer

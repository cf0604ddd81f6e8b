"""Faust's consumer, made safe while partitions change hands: what it drops, it goes back for.

After a rebalance Faust goes to where the changelogs are to be read from, later back to what was committed, one
partition after another and while messages come in. In five ways it loses sight of some, and nobody takes these before
the next rebalance:

- `flow_control.resume` is called again at the end, and empties the queues of the agents: FlowControl.
- A message that waited for a full queue when the rebalance began leaves its offset behind as the one read last, and
  what comes before it is dropped as known: `on_partitions_assigned`.
- A batch that was fetched before a seek is handed on after it. Its offsets are ahead of the place that was sought,
  and Faust takes what lies between for a hole in the log, done with: `getmany`.
- A fetch that is under way while its partitions are paused brings those of all partitions, moves on in each, and has
  them thrown away: `_getmany`, and seeks that wait for it.
- A message that a stream passes over, as it came between two rebalances, may be acknowledged: `ack`.
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

FETCH_SECONDS = 0.25  # a seek waits so long at most for a fetch that nothing answers
SEEK_SHARE = 0.9  # of a request's time limit, after which Faust would go on without having sought


class FlowControl(FlowControlEvent):
    """Lets messages through to the agents, or holds them back."""

    def resume(self) -> None:
        """Empty the queues and let messages through; where they go through already, do nothing."""
        if not self.is_active():
            super().resume()


class Consumer(aiokafka.Consumer):
    """A consumer whose place in a partition is moved by one at a time: by a fetch or by a seek."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._place = asyncio.Lock()
        self._seeks = 0
        self._seeks_at_fetch = 0

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Begin with new partitions, of which nothing was read."""
        for tp in assigned:
            self._read_offset.pop(tp, None)
        await super().on_partitions_assigned(assigned, generation_id)

    def ack(self, message: Any) -> bool:
        """Note that a message is done: not one that a stream passed over, nor one of a rebalance ago.

        Faust's streams in plain Python, not those in C, acknowledge what they pass over while flow is suspended.
        """
        if message.tracked and message.generation_id == self.app.consumer_generation_id:
            return super().ack(message)
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return False

    def waiting_messages(self) -> Counter[str]:
        """Messages that are not acknowledged, by topic, in the partitions held, as far as fetching has told."""
        found: Counter[str] = Counter()
        for tp in self.assignment():
            with suppress(IllegalStateError):  # it has just gone to another worker
                if not self._is_changelog_tp(tp) and (end := self.highwater(tp)) is not None:
                    found[tp.topic] += max(0, end - (self._committed_offset.get(tp) or 0))
        return found

    async def perform_seek(self) -> None:
        """Go back to what was committed.

        Raises TimeoutError where the broker does not answer: the process is to end then, not to go on somewhere else.
        """
        async with self._seeking():
            await super().perform_seek()

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Go to some offsets. Raises TimeoutError."""
        async with self._seeking():
            await super().seek_wait(partitions)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Go back to what was committed, or to the beginning.

        A partition without a committed offset Faust leaves where it is: behind the messages that it dropped.
        """
        found = await super().seek_to_committed()
        fresh = {tp for tp, offset in found.items() if not offset and not self._is_changelog_tp(tp)}
        if fresh:
            await super().seek_wait(await self.earliest_offsets(*fresh))
        return found

    @asynccontextmanager
    async def _seeking(self) -> AsyncIterator[None]:
        async with asyncio.timeout(SEEK_SHARE * self.app.conf.broker_request_timeout), self._place:
            self._seeks += 1
            yield

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109
        async with self._place:
            self._seeks_at_fetch = self._seeks
            # A copy: were they all paused meanwhile, the set would be empty, and mean all there are.
            active = set(active_partitions) if active_partitions else active_partitions
            return await super()._getmany(active, min(timeout, FETCH_SECONDS))

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:  # noqa: ASYNC109
        """Fetch messages, and hand them on until a place is sought anew."""
        async with aclosing(cast(AsyncGenerator[Any, None], super().getmany(timeout))) as fetched:
            async for tp, message in fetched:
                if self._seeks != self._seeks_at_fetch:
                    return
                yield tp, message

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Complain of streams that stand still, but not of changelogs: no stream takes these once they are read."""
        if not self._is_changelog_tp(tp):
            super().verify_event_path(now, tp)


class Transport(aiokafka.Transport):
    """Kafka by that consumer."""

    Consumer = Consumer

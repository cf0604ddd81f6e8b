"""Commits sweeps: a commit takes effect once everything that was in `pages` when it was requested is processed.

The worker that owns partition 0 tracks this and appends "reached" to the sweep log. A new owner of that partition
starts tracking from the beginning. Two workers that do so at once do no harm.
"""

from __future__ import annotations

import asyncio

import structlog
from aiokafka.errors import KafkaError

from state import sweeps
from streams.errors import StateError
from streams.kafka.collection.collection import Collection
from streams.kafka.wire.barrier import Barrier
from streams.kafka.wire.sweep_log import Event

POLL_SECONDS = 0.5
log = structlog.get_logger(__name__)


class CommitCoordinator:
    """Tracks the requested commits."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._log = collection.runner.sweep_log
        self._barriers: dict[int, Barrier] = {}

    async def run(self) -> None:
        """Commit sweeps until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if 0 not in self.collection.runner.partitions.active:
                self._barriers.clear()
                continue
            for number, event in list(self._log.table.pending_commits.items()):
                try:
                    await self._advance(number, event)
                except (KafkaError, StateError) as error:
                    log.info("a commit is waiting", sweep=event.name, reason=str(error))

    async def _advance(self, number: int, event: Event) -> None:
        barrier = self._barriers.setdefault(number, Barrier(self.collection.lag, event.end_offsets))
        if not await barrier.advance():
            return
        captures = await asyncio.to_thread(lambda: sum(sweeps.hosts(self.collection.store(), number).values()))
        await self._log.append(
            Event(event="reached", name=event.name, time=event.time, captures=captures, number=number)
        )
        await self._log.wait_until(lambda table: number not in table.pending_commits)
        del self._barriers[number]
        log.info("sweep committed", sweep=event.name, captures=captures)

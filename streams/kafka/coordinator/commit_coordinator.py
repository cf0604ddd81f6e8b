"""Committing sweeps: a commit takes effect once everything that was in `pages` when it was asked for is done.

The worker that holds partition 0 watches, and writes "reached"; another that comes to hold it begins anew, and two
that write do no harm.
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

WATCH_SECONDS = 0.5
log = structlog.get_logger(__name__)


class CommitCoordinator:
    """Watches over the commits that were asked for."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._log = collection.runner.sweep_log
        self._drains: dict[int, Barrier] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            wanted = self._log.table.pending_commits
            if 0 not in self.collection.runner.partitions.active:
                self._drains.clear()
                continue
            for number, event in list(wanted.items()):
                try:
                    await self._step(number, event)
                except (KafkaError, StateError) as error:
                    log.info("a commit is waiting", sweep=event.name, why=str(error))

    async def _step(self, number: int, event: Event) -> None:
        drain = self._drains.setdefault(number, Barrier(self.collection.lag, event.until))
        if await drain.advance():
            captures = await asyncio.to_thread(lambda: sum(sweeps.hosts(self.collection.store(), number).values()))
            await self._log.append(
                Event(event="reached", name=event.name, time=event.time, captures=captures, number=number)
            )
            await self._log.wait_until(lambda table: number not in table.pending_commits)
            del self._drains[number]
            log.info("sweep committed", sweep=event.name, captures=captures)

"""Committing sweeps: a commit takes effect once everything that was in `pages` when it was asked for is done.

    pages ─▶ captures ─▶ captures ─▶ documents ─▶ buckets ─▶ documents ─▶ documents ─▶ joins ... ─▶ "reached"

Where the group has committed all of one topic that there was, all that came of it is in the next one: that one's ends
are then the next thing to be reached. The worker that holds partition 0 watches; another that comes to hold it begins
anew, and two that write do no harm.
"""

from __future__ import annotations

import asyncio

import structlog
from aiokafka.errors import KafkaError

from state import sweeps
from streams.errors import StateError
from streams.faust_engine.control import Event
from streams.faust_engine.idle import Lag
from streams.faust_engine.messages import Topic
from streams.faust_engine.whole import Whole

WATCH_SECONDS = 0.5
JOIN_HOPS_MAX = 64  # of a union: from owner to owner along ever smaller ids; most take one or two
# A revisit goes by the URL that it repeats. Documents go round: an arrival's buckets bring pairs, a pair's question
# comes back to documents. Unions go on until they bring no more, or, where other sweeps bring theirs, for long.
STAGES = (
    Topic.PAGES,
    Topic.CAPTURES,
    Topic.CAPTURES,
    Topic.DOCUMENTS,
    Topic.BUCKETS,
    Topic.DOCUMENTS,
    Topic.DOCUMENTS,
    *[Topic.JOINS] * JOIN_HOPS_MAX,
)
log = structlog.get_logger(__name__)


class Watch:
    """Watches over the commits that were asked for."""

    def __init__(self, whole: Whole, lag: Lag) -> None:
        self.whole, self.lag = whole, lag
        self._log = whole.runner.sweep_log
        self._at: dict[int, tuple[int, list[int]]] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            wanted = self._log.fold.wanted
            if 0 not in self.whole.runner.partitions.actives:
                self._at.clear()
                continue
            for number, event in list(wanted.items()):
                try:
                    await self._step(number, event)
                except (KafkaError, StateError) as error:
                    log.info("a commit is waiting", sweep=event.name, why=str(error))

    async def _step(self, number: int, event: Event) -> None:
        stage, until = self._at.get(number, (0, event.until))
        while stage < len(STAGES) and await self.lag.reached(STAGES[stage], until):
            stage += 1
            if stage < len(STAGES):
                before, until = until, await self.lag.ends(STAGES[stage])
                if STAGES[stage - 1] is Topic.JOINS and until == before:
                    stage = len(STAGES)
        self._at[number] = stage, until
        if stage == len(STAGES):
            captures = await asyncio.to_thread(lambda: sum(sweeps.hosts(self.whole.store(), number).values()))
            await self._log.write(Event("reached", event.name, event.time, captures=captures))
            await self._log.until(lambda fold: number not in fold.wanted)
            del self._at[number]
            log.info("sweep committed", sweep=event.name, captures=captures)

"""Draining: waiting until everything that was under way at an instant is done, through all stages and partitions.

    pages ─▶ captures ─▶ captures ─▶ documents ─▶ buckets ─▶ documents ─▶ documents ─▶ joins ─▶ joins ...

Where the group has committed all of one topic that there was, all that came of it is in the next one: that one's ends
are then the next thing to be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from aiokafka.errors import KafkaError

from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic

AGAIN_SECONDS = 0.5
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
# What is under way of pairs, unions and members, whatever pages wait; where unions never end, not for long.
CLUSTERING_STAGES = STAGES[STAGES.index(Topic.DOCUMENTS) :][:-JOIN_HOPS_MAX] + (Topic.JOINS,) * 16
# What may bring a document to a URL: pages that are sketched.
ADMISSION_STAGES = STAGES[STAGES.index(Topic.CAPTURES) :][:3]
log = structlog.get_logger(__name__)


class Barrier:
    """How far the group has got with what was in the first of some stages when it ended at `until`."""

    def __init__(self, lag: ConsumerLag, until: list[int], stages: Sequence[Topic] = STAGES) -> None:
        self._lag, self._until, self._stages = lag, until, stages
        self._at = 0

    async def advance(self) -> bool:
        """Go on as far as the group has got; whether that is the end. Raises KafkaError."""
        while self._at < len(self._stages) and await self._lag.has_reached(self._stages[self._at], self._until):
            self._at += 1
            if self._at < len(self._stages):
                before, self._until = self._until, await self._lag.end_offsets(self._stages[self._at])
                if self._stages[self._at - 1] is Topic.JOINS and self._until == before:
                    self._at = len(self._stages)
        return self._at == len(self._stages)


async def wait_until_drained(lag: ConsumerLag, stages: Sequence[Topic] = STAGES) -> None:
    """Return once all that the first of these stages holds now is done, through all of them."""
    drain = None
    while True:
        try:
            drain = drain or Barrier(lag, await lag.end_offsets(stages[0]), stages)
            if await drain.advance():
                return
        except KafkaError as error:
            log.info("what is under way cannot be told", why=repr(error))
        await asyncio.sleep(AGAIN_SECONDS)

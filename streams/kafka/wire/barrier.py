"""A barrier over a pipeline of topics: wait until every message in flight at one instant has passed all stages.

    pages ─▶ captures ─▶ captures ─▶ documents ─▶ buckets ─▶ documents ─▶ documents ─▶ joins ─▶ joins ...

Once the group has committed past a topic's recorded end offsets, all derived messages are in the next topic. The
barrier then records the end offsets of that topic and waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from aiokafka.errors import KafkaError

from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic

POLL_SECONDS = 0.5
JOIN_ROUNDS_MAX = 64  # a union travels from owner to owner along decreasing ids; most take one or two hops
# A revisit passes `captures` twice: first at the owner of the URL that it repeats. `documents` occurs three times: a
# sighting causes bucket probes, those cause candidate pairs, and those cause verify requests. `joins` repeats until
# no new messages appear, or at most JOIN_ROUNDS_MAX times while other sweeps keep sending unions.
STAGES = (
    Topic.PAGES,
    Topic.CAPTURES,
    Topic.CAPTURES,
    Topic.DOCUMENTS,
    Topic.BUCKETS,
    Topic.DOCUMENTS,
    Topic.DOCUMENTS,
    *[Topic.JOINS] * JOIN_ROUNDS_MAX,
)
# In-flight clustering work only, ignoring pending pages; at most 16 rounds of joins.
CLUSTERING_STAGES = STAGES[STAGES.index(Topic.DOCUMENTS) :][:-JOIN_ROUNDS_MAX] + (Topic.JOINS,) * 16
# The stages after which a sketched page has added its document to its URL.
ADMISSION_STAGES = STAGES[STAGES.index(Topic.CAPTURES) :][:3]
log = structlog.get_logger(__name__)


class Barrier:
    """The progress of a consumer group through some stages, from recorded end offsets of the first one."""

    def __init__(self, lag: ConsumerLag, end_offsets: list[int], stages: Sequence[Topic] = STAGES) -> None:
        self._lag, self._end_offsets, self._stages = lag, end_offsets, stages
        self._position = 0  # the index of the stage that is waited for

    async def advance(self) -> bool:
        """Advance past completed stages; return True once all are complete. Raise KafkaError if the broker fails."""
        while self._position < len(self._stages):
            stage = self._stages[self._position]
            if not await self._lag.has_reached(stage, self._end_offsets):
                return False
            self._position += 1
            if self._position < len(self._stages):
                next_ends = await self._lag.end_offsets(self._stages[self._position])
                if stage is Topic.JOINS and next_ends == self._end_offsets:
                    self._position = len(self._stages)  # the last round of joins sent no messages
                self._end_offsets = next_ends
        return True


async def wait_until_drained(lag: ConsumerLag, stages: Sequence[Topic] = STAGES) -> None:
    """Return once every message that is now in the first stage, and all that derive from it, are processed."""
    barrier = None
    while True:
        try:
            barrier = barrier or Barrier(lag, await lag.end_offsets(stages[0]), stages)
            if await barrier.advance():
                return
        except KafkaError as error:
            log.info("cannot read the group's offsets, retrying", error=repr(error))
        await asyncio.sleep(POLL_SECONDS)

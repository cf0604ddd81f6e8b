"""Commit each sweep once all messages that `pages` contained when the commit was requested are processed.

The worker that owns partition 0 advances a `Barrier` through all stages, then appends "reached" to the sweep log. A
new owner of this partition starts again with the first stage. If two workers append "reached", the second is ignored.
"""

from __future__ import annotations

import asyncio

import structlog
from aiokafka.errors import KafkaError

from state import sweeps
from streams.errors import StateError
from streams.kafka.collection.collection import Collection
from streams.kafka.wire.consumer_lag import Barrier
from streams.kafka.wire.sweep_log import Event

POLL_SECONDS = 0.5
log = structlog.get_logger(__name__)


async def coordinate_commits(collection: Collection) -> None:
    """Commit sweeps until this task is cancelled."""
    pending_commits = collection.runner.sweep_log.table.pending_commits
    barriers: dict[int, Barrier] = {}
    while True:
        await asyncio.sleep(POLL_SECONDS)
        if 0 not in collection.runner.partitions.active_numbers:
            barriers.clear()
            continue
        for number, request in list(pending_commits.items()):
            barrier = barriers.setdefault(number, Barrier(collection.lag, request.end_offsets))
            try:
                if await barrier.advance():
                    await _commit(collection, number, request)
                    del barriers[number]
            except (KafkaError, StateError) as error:
                log.info("cannot commit yet, retrying", sweep=request.name, reason=str(error))


async def _commit(collection: Collection, number: int, request: Event) -> None:
    capture_count = await asyncio.to_thread(
        lambda: sum(sweeps.captures_per_host(collection.sharded_store(), number).values())
    )
    sweep_log = collection.runner.sweep_log
    reached = Event(event="reached", name=request.name, time=request.time, captures=capture_count, number=number)
    await sweep_log.append(reached)
    await sweep_log.wait_until(lambda table: number not in table.pending_commits)
    log.info("sweep committed", sweep=request.name, captures=capture_count)

"""After each commit, publish moves: the answers of `find` about URLs missing since the committed sweep.

The owner of partition 0 publishes the moves, then appends "moves_published" to the sweep log. If this worker stops
before that, the next owner queries the same URLs in the same order and sends messages with the same keys. If two
workers publish at the same time, messages are sent twice, with the same keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import islice

import structlog
from aiokafka.errors import KafkaError

from state.errors import LostfoundError
from state.model import Sweep
from state.view import View
from streams.find import Finder, possibly_missing_urls
from streams.kafka.collection.collection import Collection
from streams.kafka.coordinator.analyses_publisher import publish_analyses
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import Move, Result
from streams.kafka.wire.sweep_log import Event, SweepLog
from streams.operators.routing import partition_of
from streams.settings import Settings
from streams.urls import url_key

POLL_SECONDS = 0.5
RETRY_SECONDS = 5.0
MOVES_PER_BATCH = 100
log = structlog.get_logger(__name__)


async def publish_moves(collection: Collection) -> None:
    """After each commit, publish the moves of the last committed sweep, until this task is cancelled."""
    runner = collection.runner
    while True:
        await asyncio.sleep(POLL_SECONDS)
        sweep = runner.sweep_log.table.unpublished_sweep
        if sweep is None or runner.partitions.recovered_partition(0) is None:
            continue
        try:
            await _publish(collection, sweep)
        except (KafkaError, LostfoundError) as error:
            log.info("cannot publish moves yet, retrying", sweep=sweep.name, reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        except Exception:
            # A retry would fail again, so the moves of this sweep are skipped.
            log.exception("cannot publish the moves of a sweep, skipping them", sweep=sweep.name)
            runner.metrics.add_counts({"moves_failed": 1})
            await _mark_published(runner.sweep_log, sweep)


async def _publish(collection: Collection, sweep: Sweep) -> None:
    """Publish moves and analyses, and record in the sweep log that this is done, unless partition 0 has moved."""
    results = collection.runner.settings.kafka.results
    if Topic.MOVES.value in results and not await _publish_moves(collection, sweep):
        return
    if Topic.ANALYSES.value in results and not await publish_analyses(collection, sweep):
        return
    await _mark_published(collection.runner.sweep_log, sweep)


async def _publish_moves(collection: Collection, sweep: Sweep) -> bool:
    """Publish the moves of a sweep. Return whether this worker still owns partition 0."""
    runner, settings = collection.runner, collection.runner.settings
    remaining = moves_max = settings.kafka.moves_max
    # Queries wait for other workers, so they run in a thread.
    view = await asyncio.to_thread(lambda: View(collection.sharded_store()))
    moves = islice(find_moves(view, settings, sweep), moves_max + 1)  # one extra move shows that there are too many
    while batch := await asyncio.to_thread(lambda: list(islice(moves, MOVES_PER_BATCH))):
        if 0 not in runner.partitions.active_numbers:
            return False
        if len(batch) > remaining:
            runner.metrics.add_counts({"moves_truncated": 1})
            log.warning("a sweep has more moves than kafka.moves_max", sweep=sweep.name, moves_max=moves_max)
            del batch[remaining:]
        partitions = [partition_of(url_key(move.url), runner.context.partition_count) for move in batch]
        await runner.producer.send_results(
            Result(Topic.MOVES, partition, move.url.encode(), move)
            for partition, move in zip(partitions, batch, strict=True)
        )
        runner.metrics.results.labels(Topic.MOVES.value).inc(len(batch))
        remaining -= len(batch)
    log.info("moves published", sweep=sweep.name, moves=moves_max - remaining)
    return True


async def _mark_published(sweep_log: SweepLog, sweep: Sweep) -> None:
    now = time.time_ns() // 1_000_000
    await sweep_log.append(Event(event="moves_published", name=sweep.name, time=now, number=sweep.number))
    await sweep_log.wait_until(lambda table: table.unpublished_sweep != sweep)


def find_moves(view: View, settings: Settings, sweep: Sweep) -> Iterator[Move]:
    """Yield the answers of `find` about the URLs that are missing since `sweep`, the last committed sweep."""
    finder = Finder(view, settings)
    missing = possibly_missing_urls(view, settings.find.soft_404_urls)
    newly_missing = (url for url in missing if finder.missing_since(url) == sweep.number)
    for answer in finder.find_many(newly_missing):
        if answer.status in {"moved", "copy", "gone"}:
            yield Move(
                sweep=sweep.name,
                url=answer.url,
                status=answer.status,
                last_seen=answer.last_seen,
                document=answer.document,
                candidates=answer.candidates,
            )

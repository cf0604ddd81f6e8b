"""Publishes moves: after a sweep's commit, the results of `find` for the URLs that this sweep is the first to miss.

The worker that owns partition 0 publishes them, then appends "moves_published" to the sweep log. If it ends in
between, the next owner of that partition starts again: it queries the same URLs in the same order, and its messages
have the same keys. Two workers that publish at once do no harm.
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
from streams.find import Finder, missing_urls
from streams.kafka.collection.collection import Collection
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import Move, Result
from streams.kafka.wire.sweep_log import Event
from streams.operators.routing import partition_of
from streams.settings import Settings
from streams.urls import url_key

POLL_SECONDS = 0.5
RETRY_SECONDS = 5.0
BATCH_MOVES = 100
log = structlog.get_logger(__name__)


class MovesPublisher:
    """Publishes the moves of the last committed sweep."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._runner = collection.runner

    async def run(self) -> None:
        """Publish moves until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            sweep = self._runner.sweep_log.table.unpublished
            if sweep is None or not self._owns_partition_0():
                continue
            try:
                await self._publish(sweep)
            except (KafkaError, LostfoundError) as error:
                log.info("publishing moves is waiting", sweep=sweep.name, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                # The same query would fail again. The collection continues without this sweep's moves.
                log.exception("publishing moves failed", sweep=sweep.name)
                self._runner.metrics.count({"moves_failed": 1})
                await self._mark_published(sweep)

    def _owns_partition_0(self) -> bool:
        return 0 in self._runner.partitions.active

    async def _publish(self, sweep: Sweep) -> None:
        settings = self._runner.settings
        remaining = moves_max = settings.kafka.moves_max
        # Queries wait for other workers, so they run in a thread.
        view = await asyncio.to_thread(lambda: View(self.collection.store()))
        moves = islice(find_moves(view, settings, sweep), moves_max + 1)  # one more shows whether there are more
        while batch := await asyncio.to_thread(lambda: list(islice(moves, BATCH_MOVES))):
            if not self._owns_partition_0():
                return
            if len(batch) > remaining:
                self._runner.metrics.count({"moves_truncated": 1})
                log.warning("a sweep has more moves than kafka.moves_max", sweep=sweep.name, moves_max=moves_max)
                del batch[remaining:]
            await self._runner.producer.send_results(_result(move, self._runner.context.partitions) for move in batch)
            self._runner.metrics.count_results([Topic.MOVES] * len(batch))
            remaining -= len(batch)
        await self._mark_published(sweep)
        log.info("moves published", sweep=sweep.name, moves=moves_max - remaining)

    async def _mark_published(self, sweep: Sweep) -> None:
        sweep_log = self._runner.sweep_log
        await sweep_log.append(
            Event(event="moves_published", name=sweep.name, time=time.time_ns() // 1_000_000, number=sweep.number)
        )
        await sweep_log.wait_until(
            lambda table: table.unpublished is None or table.unpublished.number != sweep.number
        )


def find_moves(view: View, settings: Settings, sweep: Sweep) -> Iterator[Move]:
    """Yield the results of `find` for URLs that had a page until `sweep`, the last committed one, missed them."""
    finder = Finder(view, settings)
    urls = (
        url for url in missing_urls(view, settings.find.soft_404_urls) if finder.missing_since(url) == sweep.number
    )
    for answer in finder.find_many(urls):
        if answer.status in {"moved", "gone"}:
            yield Move(
                sweep=sweep.name,
                url=answer.url,
                status=answer.status,
                last_seen=answer.last_seen,
                document=answer.document,
                candidates=answer.candidates,
            )


def _result(move: Move, partitions: int) -> Result:
    return Result(Topic.MOVES, partition_of(url_key(move.url), partitions), move.url.encode(), move)

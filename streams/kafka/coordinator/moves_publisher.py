"""Telling moves: when a sweep is committed, what `find` says of the URLs that this sweep was the first to miss.

The worker that holds partition 0 tells, and then writes "told" into the log of sweeps. If it ends in between, whoever
holds that partition then begins anew: the same URLs are asked in the same order, and their messages have the same
keys. Two that tell at once do no harm.
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

WATCH_SECONDS = 0.5
AGAIN_SECONDS = 5.0
MOVES_A_STEP = 100
log = structlog.get_logger(__name__)


class MovesPublisher:
    """Sends the moves of the sweep that was committed last."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._runner = collection.runner

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            sweep = self._runner.sweep_log.table.unpublished
            if sweep is None or not self._mine():
                continue
            try:
                await self._tell(sweep)
            except (KafkaError, LostfoundError) as error:
                log.info("the moves of a sweep are waiting", sweep=sweep.name, why=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            except Exception:
                # A question that fails would fail again: the collection goes on without the answers.
                log.exception("the moves of a sweep cannot be told", sweep=sweep.name)
                self._runner.metrics.count({"moves_failed": 1})
                await self._told(sweep)

    def _mine(self) -> bool:
        return 0 in self._runner.partitions.active

    async def _tell(self, sweep: Sweep) -> None:
        settings = self._runner.settings
        # One more than are told says that there were more. Questions wait for other workers: never on the loop.
        view = await asyncio.to_thread(lambda: View(self.collection.store()))
        found = islice(moves(view, settings, sweep), settings.kafka.moves_max + 1)
        left = settings.kafka.moves_max
        while step := await asyncio.to_thread(lambda: list(islice(found, MOVES_A_STEP))):
            if not self._mine():
                return
            if len(step) > left:
                self._runner.metrics.count({"moves_truncated": 1})
                log.warning(
                    "a sweep has more moves than are told", sweep=sweep.name, moves_max=settings.kafka.moves_max
                )
            told = step[:left]
            await self._runner.producer.send_results(_result(move, self._runner.context.partitions) for move in told)
            self._runner.metrics.count_results(Topic.MOVES for _ in told)
            left -= len(told)
        await self._told(sweep)
        log.info("moves told", sweep=sweep.name, moves=settings.kafka.moves_max - left)

    async def _told(self, sweep: Sweep) -> None:
        sweep_log = self._runner.sweep_log
        await sweep_log.append(
            Event(event="told", name=sweep.name, time=time.time_ns() // 1_000_000, number=sweep.number)
        )
        await sweep_log.wait_until(
            lambda table: table.unpublished is None or table.unpublished.number != sweep.number
        )


def moves(view: View, settings: Settings, sweep: Sweep) -> Iterator[Move]:
    """What `find` says of the URLs that held a page until this sweep, the last one committed, missed them."""
    finder = Finder(view, settings)
    asked = (
        url for url in missing_urls(view, settings.find.soft_404_urls) if finder.missing_since(url) == sweep.number
    )
    for answer in finder.find_many(asked):
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

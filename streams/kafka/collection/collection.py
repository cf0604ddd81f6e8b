"""The whole collection from inside one worker: its own partitions and, over HTTP, those of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import structlog

from state.changes import Changes
from state.errors import StateError
from state.store import Store
from streams.kafka.collection import readmission, repair
from streams.kafka.rows.row_query import RowQuery, answer
from streams.kafka.rows.sharded_store import ShardedStore, Source, Write
from streams.kafka.rows.worker_client import WorkerClient, token_from_environment
from streams.kafka.wire.barrier import ADMISSION_STAGES, CLUSTERING_STAGES, wait_until_drained
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.kafka.worker.runner import Runner

if TYPE_CHECKING:
    from streams.kafka.worker.faust_app import App

log = structlog.get_logger(__name__)
TAKEN_SECONDS_MAX = 60.0
ASKED_AT_ONCE = 16  # questions to workers, of all that are answered here


class Collection:
    """Answers for the collection; `store` is for threads, never for the loop that the agents run on."""

    def __init__(self, runner: Runner, app: App, lag: ConsumerLag) -> None:
        self.runner, self.app, self.lag = runner, app, lag
        self._loop = asyncio.get_running_loop()
        self._peers: dict[str, WorkerClient] = {}
        self._amending = asyncio.Lock()
        self._threads = ThreadPoolExecutor(ASKED_AT_ONCE, "ask")

    def here(self) -> dict[int, Store]:
        """Stores of the partitions that this worker answers for."""
        opened = self.runner.partitions
        return {number: opened.by_number[number].store for number in opened.active if number in opened.by_number}

    def answer(self, ask: RowQuery) -> Any:
        """The answer of partitions that are here; raises StateError for one that is not."""
        stores = self.here()
        if missing := sorted({*ask.partitions, *ask.owners} - set(stores)):
            raise StateError(f"partitions {missing} are not here any more", "ask again: the workers are changing")
        return answer(stores, ask)

    def store(self) -> ShardedStore:
        """The collection as it is spread now; raises StateError when partitions are with nobody.

        What is written is taken when `write` returns, and its clusters are whole: joins go on meanwhile.
        """
        return self._spread(self._write)

    def _spread(self, write: Write) -> ShardedStore:
        here = self.here()
        sources: dict[int, tuple[str, Source]] = {}
        for url, topics in self.app.router.table_metadata("state").items():
            for numbers in topics.values():
                sources.update({number: (url, self._peer(url).ask) for number in numbers})
        sources.update(dict.fromkeys(here, ("here", self.answer)))
        return ShardedStore(
            self.app.conf.id,
            self.runner.settings.scheme,
            sources,
            self.runner.context.partitions,
            self.runner.sweep_log.table.rows(),
            write,
            self._threads,
        )

    def _peer(self, url: str) -> WorkerClient:
        if url not in self._peers:
            self._peers[url] = WorkerClient(
                url, self.runner.settings.kafka.answer_seconds_max, token_from_environment()
            )
        return self._peers[url]

    def _write(self, parts: Mapping[int, Changes]) -> None:
        gone = readmission.read_removed_rows(self.store(), parts.values())
        self._amend(parts)
        if gone.places or gone.rows:
            self._drain(ADMISSION_STAGES)
            sends = self._returning(gone)
            asyncio.run_coroutine_threadsafe(self.runner.producer.send(sends), self._loop).result()
        repair.repair_clusters(self._spread(self._amend), parts, lambda: self._drain(CLUSTERING_STAGES))

    def _returning(self, gone: readmission.RemovedRows) -> readmission.Sends:
        """What is to come once more; it is known here only, so that workers that change are waited for."""
        until = time.monotonic() + TAKEN_SECONDS_MAX
        while True:
            try:
                return readmission.build_readmissions(self.store(), gone, self.runner.context)
            except StateError as error:
                if time.monotonic() > until:
                    raise
                log.info("what came meanwhile cannot be told", why=str(error))
                time.sleep(1)

    def _amend(self, parts: Mapping[int, Changes]) -> None:
        sends = repair.build_retractions(self.store(), parts)
        asyncio.run_coroutine_threadsafe(self._taken(sends), self._loop).result(TAKEN_SECONDS_MAX)

    def _drain(self, stages: Sequence[Topic]) -> None:
        asyncio.run_coroutine_threadsafe(wait_until_drained(self.lag, stages), self._loop).result()

    async def _taken(self, sends: Mapping[tuple[Topic, int], Sequence[Retraction]]) -> None:
        """Send changes, and return when the owners have taken them."""
        async with self._amending:
            await self.runner.producer.send(sends)
            until = await self.lag.end_offsets(Topic.RETRACTIONS)
            while not await self.lag.has_reached(Topic.RETRACTIONS, until):  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.1)

"""The whole collection as one worker sees it: its own partitions and, over HTTP, the other workers' partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from aiokafka.errors import KafkaError

from state.changes import Changes
from state.errors import StateError
from state.model import Decision
from state.store import Store
from streams.kafka.collection import readmission, repair
from streams.kafka.rows.row_query import Answer, RowQuery, RowSource, Source, run_query
from streams.kafka.rows.sharded_store import ShardedStore
from streams.kafka.rows.worker_client import WorkerClient, token_from_environment
from streams.kafka.wire.consumer_lag import ADMISSION_STAGES, CLUSTERING_STAGES, ConsumerLag, wait_until_drained
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.kafka.worker.runner import Runner
from streams.kafka.worker.stages import Outcome

if TYPE_CHECKING:
    from streams.export.data_set import Part
    from streams.kafka.collection.partition_exports import PartWriter
    from streams.kafka.rows.export_request import ExportRequest
    from streams.kafka.worker.faust_app import App

log = structlog.get_logger(__name__)
POLL_SECONDS = 0.1
RETRACTION_SECONDS_MAX = DECISION_SECONDS_MAX = 60.0


class Collection:
    """Reads and retracts rows of all partitions. Run blocking methods in threads, never on the agents' event loop."""

    def __init__(self, runner: Runner, app: App, lag: ConsumerLag) -> None:
        self.runner, self.app, self.lag = runner, app, lag
        self._loop = asyncio.get_running_loop()
        self._clients: dict[str, WorkerClient] = {}
        self._retraction_lock = asyncio.Lock()
        # Each task sends one query to one worker, and never waits for another task.
        self._threads = ThreadPoolExecutor(2 * runner.settings.server.query_threads, "part-of-query")

    def local_stores(self) -> dict[int, Store]:
        """Return the stores of the partitions that this worker serves.

        Raise StateError if its session ended, or if the partitions are behind their changelogs.
        """
        self.check_session()
        partitions = self.runner.partitions
        if not partitions.recovered:
            raise StateError("this worker is recovering its partitions", "retry after the rebalance")
        active, by_number = partitions.active_numbers, partitions.by_number
        return {number: partition.store for number, partition in by_number.items() if number in active}

    def query_local(self, query: RowQuery) -> Answer:
        """Execute a query on this worker's partitions. Raise StateError if the query needs other partitions."""
        stores = self.local_stores()
        owners = {owner for owner in query.owners if owner is not None}
        if missing := sorted({*(query.partitions or ()), *owners} - stores.keys()):
            raise StateError(f"partitions {missing} have moved to another worker", "retry after the rebalance")
        generation = self.app.consumer_generation_id
        answer = run_query(stores, query)
        self.check_session()  # the process may have been suspended while it read the rows
        if generation != self.app.consumer_generation_id:
            raise StateError("the partitions were reassigned while they were read", "retry after the rebalance")
        source = Source(str(self.app.conf.canonical_url), generation, query.partitions or [])
        return msgspec.structs.replace(answer, sources=[source])

    def check_session(self) -> None:
        """Raise StateError if other workers may have taken over this worker's partitions."""
        if not self.app.session.is_alive:
            seconds = self.runner.settings.kafka.session_seconds
            raise StateError(
                f"this worker has had no contact with the broker for {seconds:g} s, so other workers may have taken"
                " over its partitions",
                "query another worker, or check the network between this worker and the broker",
            )

    def sharded_store(self) -> ShardedStore:
        """Return a store that reads all partitions. Raise StateError if a partition has no worker."""
        sources: dict[int, RowSource] = {number: client.query for number, client in self._clients_by_partition()}
        sources |= dict.fromkeys(self.local_stores(), self.query_local)
        return ShardedStore(
            self.app.conf.id,
            self.runner.settings.scheme,
            sources,
            partition_count=self.runner.context.partition_count,
            read_sweep_rows=self._read_sweep_rows,
            threads=self._threads,
        )

    def _clients_by_partition(self) -> Iterator[tuple[int, WorkerClient]]:
        for url, topics in self.app.router.table_metadata("state").items():
            client = self._client(url)
            yield from ((number, client) for numbers in topics.values() for number in numbers)

    def export(self, request: ExportRequest) -> list[Part]:
        """Have all workers write their partitions to a data set. Raise StateError if a partition has no worker."""
        from streams.kafka.collection.partition_exports import write_on_all_workers

        self.sharded_store()  # raises StateError
        writers: dict[int, PartWriter] = {number: client.export for number, client in self._clients_by_partition()}
        writers |= dict.fromkeys(self.local_stores(), self.export_local)
        return write_on_all_workers(request, writers)

    def export_local(self, request: ExportRequest) -> list[Part]:
        """Write partitions of this worker to a data set."""
        # Imported only here, because these modules need a hundred MiB of memory.
        from streams.kafka.collection.partition_exports import write_partitions

        return write_partitions(request, self.runner.settings, self.local_stores)

    def _read_sweep_rows(self) -> Mapping[bytes, bytes]:
        """Return the rows of sweeps as of now. Raise StateError if the sweep log cannot be read.

        A worker that is ready may be late in reading the log, for example because it has just lost a connection.
        Without the last commit, `find` would take most missing URLs for URLs that are alive.
        """
        sweep_log, seconds = self.runner.sweep_log, self.runner.settings.kafka.answer_seconds_max
        try:
            self._run_on_loop(asyncio.wait_for(sweep_log.catch_up(), seconds), seconds + 1)
        except (TimeoutError, KafkaError) as error:
            raise StateError(
                f"this worker could not read the sweep log to its end within {seconds:g} s",
                "retry, or query another worker",
            ) from error
        return sweep_log.table.rows()

    def _client(self, url: str) -> WorkerClient:
        if url not in self._clients:
            seconds_max = self.runner.settings.kafka.answer_seconds_max
            self._clients[url] = WorkerClient(url, seconds_max, token_from_environment())
        return self._clients[url]

    def apply_retraction(self, changes: Changes) -> None:
        """Apply deletions and overwrites at the owners of the rows. Return once the clusters are consistent.

        Pages are still processed and clusters joined in the meantime; `readmission` and `repair` correct the effects.
        """
        store = self.sharded_store()
        changes_by_partition = store.divide(changes)
        removed = readmission.read_removed_rows(store, changes_by_partition.values())
        self._retract(changes_by_partition)
        if removed.location_keys or removed.documents:
            self._run_on_loop(wait_until_drained(self.lag, ADMISSION_STAGES))
            self._run_on_loop(self.runner.producer.send_packed(self._build_readmissions(removed)))
        repair.repair_clusters(
            self.sharded_store(),
            changes_by_partition,
            drain=lambda: self._run_on_loop(wait_until_drained(self.lag, CLUSTERING_STAGES)),
            commit=lambda repairs: self._retract(store.divide(repairs)),
        )

    async def apply_decisions(self, decisions: Sequence[Decision]) -> None:
        """Send decisions to the owners of their URLs, and return once they are stored. Call this on the event loop.

        Raise StateError if the owners need longer than `DECISION_SECONDS_MAX`, for example to read earlier pages.
        """
        outcome = Outcome(self.runner.context)
        outcome.queue(decisions)
        await self.runner.producer.send_packed(outcome.messages)
        receivers = {number for _, number in outcome.messages}
        end_offsets = await self.lag.end_offsets(Topic.CAPTURES)
        awaited_offsets = [end if number in receivers else 0 for number, end in enumerate(end_offsets)]
        try:
            async with asyncio.timeout(DECISION_SECONDS_MAX):
                while not await self.lag.has_reached(Topic.CAPTURES, awaited_offsets):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise StateError(
                f"the decisions were sent, but not all are stored after {DECISION_SECONDS_MAX:g} s",
                "they take effect once the workers have processed the pages that were sent earlier",
            ) from error

    def _build_readmissions(self, removed: readmission.RemovedRows) -> readmission.Messages:
        """Build the messages. Retry during a rebalance, because only this process has the removed rows."""
        deadline = time.monotonic() + RETRACTION_SECONDS_MAX
        while True:
            try:
                return readmission.build_readmissions(self.sharded_store(), removed, self.runner.context)
            except StateError as error:
                if time.monotonic() > deadline:
                    raise
                log.info("waiting for all partitions, to readmit documents after a retraction", error=str(error))
                time.sleep(1)

    def _run_on_loop(self, coroutine: Coroutine[Any, Any, None], timeout_seconds: float | None = None) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout_seconds)

    def _retract(self, changes_by_partition: Mapping[int, Changes]) -> None:
        retractions = repair.build_retractions(self.sharded_store(), changes_by_partition)
        self._run_on_loop(self._send_and_await(retractions), RETRACTION_SECONDS_MAX)

    async def _send_and_await(self, messages: Mapping[tuple[Topic, int], Sequence[Retraction]]) -> None:
        """Send retractions and return once the owners of the rows have applied them."""
        async with self._retraction_lock:
            await self.runner.producer.send_packed(messages)
            end_offsets = await self.lag.end_offsets(Topic.RETRACTIONS)
            while not await self.lag.has_reached(Topic.RETRACTIONS, end_offsets):  # noqa: ASYNC110 - Kafka sends no event
                await asyncio.sleep(POLL_SECONDS)

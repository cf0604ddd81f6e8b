"""Many clients block neither the workers nor each other; if there are too many, some must wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from state.changes import Changes
from state.errors import StateError
from state.families import Family
from streams.kafka.collection.request_pool import Overloaded, RequestPool
from streams.kafka.rows.row_query import GetQuery
from streams.kafka.rows.worker_client import WorkerClient
from streams.kafka.worker.metrics import Metrics
from streams.settings import load
from tests.streams.kafka.worker_servers import WorkerServer, wait_until, worker_servers

DOCUMENTS = [Random(1).randbytes(16) for _ in range(400)]


def text_of(document: bytes) -> bytes:
    return document[:1] * 300


def changes() -> Changes:
    """Rows of both workers."""
    texts = Changes()
    for document in DOCUMENTS:
        texts.put(Family.TEXTS, document, text_of(document))
    return texts


def count_answers(workers: list[WorkerServer], clients: int, seconds: float) -> int:
    """Query all workers from many threads, and return the number of answers. Fail if one of them is wrong."""
    deadline = time.monotonic() + seconds

    def query_repeatedly(number: int) -> int:
        store, rng, count = WorkerClient(workers[number % len(workers)].url, 20).store(), Random(number), 0
        while time.monotonic() < deadline:
            documents = rng.sample(DOCUMENTS, 20)  # of both workers, so that each must query the other one
            assert store.get_many(Family.TEXTS, documents) == [text_of(document) for document in documents]
            count += 1
        return count

    with ThreadPoolExecutor(clients) as threads:
        return sum(threads.map(query_repeatedly, range(clients)))


def test_throughput_with_many_clients_is_that_with_few(tmp_path: Path) -> None:
    """The threads of two workers used to wait for each other until all requests had timed out."""
    with worker_servers(tmp_path, changes()) as workers:
        # The clients share Python's lock with the workers. In processes of their own, 64 clients get at least as
        # many answers as 4.
        few, many = count_answers(workers, 4, 1.5), count_answers(workers, 64, 1.5)
        assert many > few / 10, "a deadlock leaves less than a hundredth"


@contextmanager
def blocked_clients(worker: WorkerServer) -> Iterator[None]:
    """Let the requests of clients wait, as if another worker were slow."""
    released = threading.Event()
    sharded_store = worker.collection.sharded_store
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker.collection, "sharded_store", lambda: (released.wait(20), sharded_store())[1])
        try:
            yield
        finally:
            released.set()


def test_requests_beyond_the_limit_are_answered_with_429_and_repeated(tmp_path: Path) -> None:
    def get(worker: WorkerServer, document: bytes, timeout_seconds: float = 20) -> bytes | None:
        return WorkerClient(worker.url, timeout_seconds).store().get(Family.TEXTS, document)

    with worker_servers(tmp_path, changes(), client_requests_max=2) as workers, ThreadPoolExecutor(3) as threads:
        worker, other_worker = workers
        with blocked_clients(worker):
            running = [threads.submit(get, worker, document) for document in DOCUMENTS[:2]]
            wait_until(lambda: worker.metric('requests{kind="client"}') == 2)
            body = msgspec.msgpack.encode(GetQuery(family=Family.TEXTS, keys=DOCUMENTS[:1]))
            status, retry_seconds, answer = WorkerClient(worker.url, 20)._exchange("/rows", body, 20)
            assert (status, retry_seconds) == (429, 1.0)
            assert b"server.client_requests_max" in answer
            with pytest.raises(StateError, match="2 requests are in progress") as caught:
                get(worker, DOCUMENTS[0], timeout_seconds=0.5)
            assert "retry later" in caught.value.hint
            waiting = threads.submit(get, worker, DOCUMENTS[2])
            wait_until(lambda: worker.metric('requests_rejected_total{kind="client"}') >= 3)
            # Requests of other workers are admitted separately.
            documents = DOCUMENTS[:50]
            assert WorkerClient(other_worker.url, 5).store().get_many(Family.TEXTS, documents) == [
                text_of(document) for document in documents
            ]
        assert [future.result() for future in (*running, waiting)] == [text_of(key) for key in DOCUMENTS[:3]]
        wait_until(lambda: worker.metric('requests{kind="client"}') == 0)


def test_a_request_that_waited_too_long_for_a_thread_is_rejected() -> None:
    async def run() -> None:
        server = msgspec.structs.replace(load().server, query_threads=1)
        pool = RequestPool("client", 5, server, Metrics(), wait_seconds_max=0.05)
        first = asyncio.create_task(pool.run(lambda: time.sleep(0.2)))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="waited"):
            await pool.run(lambda: pytest.fail("the client no longer waits for this answer"))
        await first
        assert await pool.run(lambda: 1) == 1

    asyncio.run(run())


def test_a_request_with_a_query_for_partitions_is_not_for_clients(tmp_path: Path) -> None:
    with worker_servers(tmp_path, changes()) as workers:
        query = GetQuery(family=Family.TEXTS, keys=DOCUMENTS[:1], partitions=[0], owners=[None])
        with pytest.raises(StateError, match="/partition-rows"):
            WorkerClient(workers[0].url, 5).post("/rows", msgspec.msgpack.encode(query), None)

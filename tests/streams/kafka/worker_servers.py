"""HTTP servers of workers that share the partitions of a collection, without a broker."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from state.changes import Changes
from streams.kafka.collection.collection import Collection
from streams.kafka.collection.http_server import Server, listen
from streams.kafka.rows.worker_client import WorkerClient, url_for
from streams.kafka.worker.runner import Runner
from streams.settings import Settings
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS
from tests.streams.kafka.worker_fixture import make_runner


class WorkerServer:
    """The server of one worker, in a thread with its own event loop. It owns the partition with its number."""

    def __init__(self, folder: Path, number: int, urls: dict[str, int], settings: Settings) -> None:
        """`urls` are the partitions by URL of all workers; each worker adds its own when it starts."""
        self.runner: Runner = make_runner(folder / str(number), settings)
        self.runner.partitions.active_numbers, self.runner.partitions.recovered = frozenset({number}), True
        self.store = self.runner.partitions.open(number).store
        self.url = ""
        self.app: Any
        self.collection: Collection
        self._number, self._urls = number, urls
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def start(self) -> None:
        """Start the thread, and return once the server listens."""
        self._thread.start()
        assert self._started.wait(10)

    def stop(self) -> None:
        """Stop the server and its thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.runner.partitions.close_all()

    def client(self) -> WorkerClient:
        """Return a new client of this worker."""
        return WorkerClient(self.url, 20)

    def metric(self, name: str) -> float:
        """Return the value of a metric with these labels, or 0 if there is none."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"lostfound_{name} "))

    def open_connections(self) -> int:
        """Return the number of connections, without opening one."""
        return int(self.runner.metrics.registry.get_sample_value("lostfound_connections") or 0)

    async def _serve(self) -> None:
        app: Any = SimpleNamespace(
            consumer_generation_id=1,
            session=SimpleNamespace(is_alive=True),
            rebalancing=False,
            conf=SimpleNamespace(id="test", canonical_url=""),
            router=SimpleNamespace(table_metadata=self._table_metadata),
            waiting_messages=dict,
        )
        lag: Any = None  # only changes wait for messages in flight
        self.app = app
        with listen("127.0.0.1", 0) as sockets:
            self.url = url_for("127.0.0.1", sockets[0].getsockname()[1])
            self.app.conf.canonical_url, self._urls[self.url] = self.url, self._number
            self.collection = Collection(self.runner, app, lag)
            server = Server(self.collection)
            await server.start(sockets)
            self._started.set()
            await self._stop.wait()
            await server.stop()

    def _table_metadata(self, _table: str) -> dict[str, dict[str, set[int]]]:
        return {url: {"topic": {number}} for url, number in self._urls.items()}


def wait_until(happened: Callable[[], bool], seconds_max: float = 15.0) -> None:
    """Return once something has happened; fail if it takes too long."""
    deadline = time.monotonic() + seconds_max
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def worker_servers(folder: Path, changes: Changes | None = None, **limits: Any) -> Iterator[list[WorkerServer]]:
    """Serve a collection of as many workers as partitions. `limits` override settings of [server]."""
    settings = msgspec.structs.replace(SETTINGS, server=msgspec.structs.replace(SETTINGS.server, **limits))
    urls: dict[str, int] = {}
    workers = [WorkerServer(folder, number, urls, settings) for number in range(PARTITIONS)]
    with ExitStack() as stack:
        for worker in workers:
            worker.start()
            stack.callback(worker.stop)
        if changes is not None:
            for number, part in workers[0].collection.sharded_store().divide(changes).items():
                workers[number].store.write(part)
        yield workers

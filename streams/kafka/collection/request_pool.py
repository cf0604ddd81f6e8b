"""Admits a limited number of requests of one kind, and executes them in threads of their own.

Requests from clients, requests from other workers, and changes have separate pools. A client's request waits for
other workers, but a request from another worker reads only the partitions of this worker and never waits. If they
shared threads, two workers whose threads all serve clients would wait for each other until they time out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from streams.errors import LostfoundError
from streams.kafka.worker.metrics import Metrics
from streams.settings import ServerSettings

T = TypeVar("T")


class Overloaded(LostfoundError):
    """The worker has too many requests in progress: the client should wait, then retry."""

    def __init__(self, message: str, hint: str, retry_seconds: float) -> None:
        super().__init__(message, hint)
        self.retry_seconds = retry_seconds


class RequestPool:
    """The requests of one kind that are in progress, and their threads."""

    def __init__(
        self, kind: str, requests_max: int, settings: ServerSettings, metrics: Metrics, wait_seconds_max: float
    ) -> None:
        """`wait_seconds_max` limits how long an admitted request waits for a thread."""
        self._limit_name, self._requests_max = f"server.{kind}_requests_max", requests_max
        self._wait_seconds_max, self._retry_seconds = wait_seconds_max, settings.retry_seconds
        self._in_progress = metrics.requests.labels(kind)
        self._rejected = metrics.requests_rejected.labels(kind)
        self._count = 0
        self._threads = ThreadPoolExecutor(settings.query_threads, kind)

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request as in progress. Raise Overloaded if the limit is reached."""
        if self._count >= self._requests_max:
            raise self._reject(f"{self._count} requests are in progress, the limit set by {self._limit_name}")
        self._count += 1
        self._in_progress.set(self._count)
        try:
            yield
        finally:
            self._count -= 1
            self._in_progress.set(self._count)

    async def run(self, function: Callable[[], T]) -> T:
        """Execute a function in a thread of this pool. Raise Overloaded if it waited too long for a thread."""
        deadline = time.monotonic() + self._wait_seconds_max

        def execute() -> T:
            if time.monotonic() > deadline:
                raise self._reject(f"the request waited for a thread for {self._wait_seconds_max:g} s")
            return function()

        return await asyncio.get_running_loop().run_in_executor(self._threads, execute)

    def stop(self) -> None:
        """Drop the requests that wait for a thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _reject(self, reason: str) -> Overloaded:
        self._rejected.inc()
        return Overloaded(reason, "retry later, or query another worker", self._retry_seconds)

"""Sketch pages in several processes if the input is large, otherwise in this process.

Each child process has its own pipe, and the parent has one thread per pipe. ProcessPoolExecutor is unsuitable because
its processes share queues: if a process is killed while it writes a result, the other processes and the parent wait
forever for the rest of the result. With one pipe per process, only the pipe of the killed process is closed.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Self, cast

from state.scheme import Scheme
from streams.errors import WorkerDied
from streams.operators.sketch import SketchOperator, SketchResults, SketchTask
from streams.settings import Limits, Policy


class SketchPool:
    """Sketches tasks in `process_count` child processes, or in this process if `process_count` is 1."""

    def __init__(self, process_count: int, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        self.process_count = 1
        self._operator = SketchOperator(scheme, policy, limits)
        self._threads: ThreadPoolExecutor | None = None
        self._processes: list[Any] = []
        self._idle_connections: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self.start_processes(process_count)

    def start_processes(self, process_count: int) -> None:
        """Sketch further tasks in `process_count` child processes. If it is 1, do nothing."""
        assert self.process_count == 1
        assert process_count >= 1
        if process_count == 1:
            return
        self.process_count = process_count
        self._threads = ThreadPoolExecutor(process_count)
        # RocksDB's threads and locks do not survive a fork.
        context = multiprocessing.get_context("spawn")
        with _child_environment():
            for _ in range(process_count):
                parent_end, child_end = context.Pipe()
                arguments = (child_end, self._operator.scheme, self._operator.policy, self._operator.limits)
                process = context.Process(target=_serve, args=arguments, daemon=True)
                process.start()
                child_end.close()  # otherwise the pipe would stay open after the child exits
                self._processes.append(process)
                self._idle_connections.put(parent_end)
        import streams.sketch.kernel  # noqa: F401 - logs a warning if numba cannot write its cache

    def submit(self, task: SketchTask) -> Future[SketchResults]:
        """Return a future for the results of a task. The future raises WorkerDied if the process is killed."""
        if self._threads is not None:
            return self._threads.submit(self._sketch_in_child, task)
        future: Future[SketchResults] = Future()
        future.set_result(self._operator(task))
        return future

    def _sketch_in_child(self, task: SketchTask) -> SketchResults:
        connection = self._idle_connections.get()
        try:
            connection.send(task)
            reply = connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDied(
                "a process that sketches pages was killed, perhaps because memory ran out",
                "run the same command again to resume; fewer [ingest] workers need less memory",
            ) from error
        finally:
            self._idle_connections.put(connection)
        if isinstance(reply, Exception):
            raise reply
        return cast(SketchResults, reply)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle_connections.empty():
            self._idle_connections.get().close()  # makes the child exit
        for process in self._processes:
            process.join()


@contextmanager
def _child_environment() -> Iterator[None]:
    """Set the environment and signal mask that child processes inherit when they start.

    PYTHONSAFEPATH keeps Python from importing modules from the current folder, which may contain downloaded files.
    SIGINT is blocked because the parent ends the child processes on Ctrl-C.
    """
    previous_value = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    resource_tracker.ensure_running()  # starting it later would unblock SIGINT
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if previous_value is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = previous_value


def _serve(connection: Connection, scheme: Scheme, policy: Policy, limits: Limits) -> None:
    """Sketch tasks until the pipe is closed or the parent exits."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    operator = SketchOperator(scheme, policy, limits)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            reply: SketchResults | Exception = operator(task)
        except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
            error.add_note(traceback.format_exc())
            reply = error
        connection.send(reply)


def _exit_with_parent() -> None:
    """Exit when the parent exits, even if the parent is killed while this process is sketching."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

"""Sketch pages in several processes for large input, or in this process for small input.

Every process has a pipe, and this process has a thread per pipe. ProcessPoolExecutor shares its queues between
processes: if one is killed while it writes a result, the others and the parent wait forever for the rest of the
result. A pipe just ends.
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
from streams.operators.sketch import SketchResults, SketchStage, Task
from streams.settings import Limits, Policy


class SketchPool:
    """Sketches tasks in `count` processes; with a count of 1, in this process."""

    def __init__(self, count: int, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        assert count >= 1
        self.count = count
        self._stage = SketchStage(scheme, policy, limits) if count == 1 else None
        self._threads = ThreadPoolExecutor(count) if count > 1 else None
        self._processes: list[Any] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        if count > 1:
            self._start(scheme, policy, limits)

    def _start(self, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        # Not fork: RocksDB's threads and locks do not survive it.
        context = multiprocessing.get_context("spawn")
        with _environment_of_children():
            for _ in range(self.count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, scheme, policy, limits), daemon=True)
                process.start()
                theirs.close()  # as long as it is open here, the end of the process does not close the pipe
                self._processes.append(process)
                self._idle.put(ours)

    def submit(self, task: Task) -> Future[SketchResults]:
        """Return the future results of a task; the future raises WorkerDied if the process was killed."""
        if self._threads is not None:
            return self._threads.submit(self._exchange, task)
        assert self._stage is not None
        done: Future[SketchResults] = Future()
        done.set_result(self._stage(task))
        return done

    def _exchange(self, task: Task) -> SketchResults:
        connection = self._idle.get()
        try:
            connection.send(task)
            reply = connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDied(
                "a process that sketches pages was killed, perhaps because memory ran out",
                "run the same command again to resume; fewer [ingest] workers need less memory",
            ) from error
        finally:
            self._idle.put(connection)
        if isinstance(reply, Exception):
            raise reply
        return cast(SketchResults, reply)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()  # this ends the process
        for process in self._processes:
            process.join()


@contextmanager
def _environment_of_children() -> Iterator[None]:
    """Change the environment that the processes inherit, while they start.

    PYTHONSAFEPATH keeps Python from importing modules from the current folder, which can contain downloaded files.
    SIGINT is blocked because the parent ends the processes on Ctrl-C.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    resource_tracker.ensure_running()  # otherwise the first process starts it, which unblocks the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _serve(tasks: Connection, scheme: Scheme, policy: Policy, limits: Limits) -> None:
    """Sketch tasks until the pipe or the parent ends."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    stage = SketchStage(scheme, policy, limits)
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        try:
            reply: SketchResults | Exception = stage(task)
        except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
            error.add_note(traceback.format_exc())
            reply = error
        tasks.send(reply)


def _exit_with_parent() -> None:
    """Exit when the parent does, even if it is killed while this process works."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

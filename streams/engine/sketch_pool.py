"""Processes that sketch: some for large inputs, the one process for small ones. Both give results in order.

Each worker has a pipe and a thread of its own here. With queues that workers share, as ProcessPoolExecutor has them,
one that is killed while it writes a result leaves all others, and us, waiting for the rest of it; a pipe just ends.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from state.scheme import Scheme
from streams.errors import WorkerDied
from streams.operators.sketch import Sketched, SketchStage, Task
from streams.settings import Limits, Policy


class Workers:
    """Sketches tasks; `count` 1 does it here and now, more start as many processes."""

    def __init__(self, count: int, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        self.count = count
        self._here = SketchStage(scheme, policy, limits) if count <= 1 else None
        self._threads: ThreadPoolExecutor | None = None
        self._processes: list[Any] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        if count > 1:
            self._start(count, scheme, policy, limits)

    def _start(self, count: int, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        # Not fork: RocksDB's threads and locks do not survive one.
        context = multiprocessing.get_context("spawn")
        # Python would look for modules in the current folder first, which may hold a crawl and whatever came with it.
        os.environ["PYTHONSAFEPATH"] = "1"
        resource_tracker.ensure_running()  # by the first process to start; it would unblock the signal
        # Ctrl-C is for us, who end the workers: they start with it blocked, and it stays so.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, scheme, policy, limits), daemon=True)
                process.start()
                theirs.close()  # or its end would not be seen
                self._processes.append(process)
                self._idle.put(ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._threads = ThreadPoolExecutor(count)

    def submit(self, task: Task) -> Future[Sketched]:
        """The results of a task, when they are ready; raises WorkerDied there when its process was killed."""
        if self._threads is not None:
            return self._threads.submit(self._ask, task)
        assert self._here is not None
        done: Future[Sketched] = Future()
        done.set_result(self._here(task))
        return done

    def _ask(self, task: Task) -> Sketched:
        worker = self._idle.get()
        try:
            worker.send(task)
            reply = worker.recv()
        except (EOFError, OSError) as error:
            raise WorkerDied(
                "a process that sketches pages was killed, perhaps for want of memory",
                "run the same command again: it goes on where it was; fewer [ingest] workers need less",
            ) from error
        finally:
            self._idle.put(worker)
        if isinstance(reply, Exception):
            raise reply
        sketched: Sketched = reply
        return sketched

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()  # which ends the worker
        for process in self._processes:
            process.join()


def _serve(tasks: Connection, scheme: Scheme, policy: Policy, limits: Limits) -> None:
    """The life of a worker: until its pipe ends, or its parent does."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    stage = SketchStage(scheme, policy, limits)
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        try:
            reply: Sketched | Exception = stage(task)
        except Exception as error:  # noqa: BLE001 - handed on, and raised where the result is asked for
            error.add_note(traceback.format_exc())
            reply = error
        tasks.send(reply)


def _follow_parent() -> None:
    """End with the parent, even when it is killed while we work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

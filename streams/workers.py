"""Processes that sketch: a pool for large inputs, the one process for small ones. Both give results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import Self

from state.scheme import Scheme
from streams.operators.sketch import Sketched, SketchStage, Task
from streams.settings import Limits, Policy

_stage: SketchStage | None = None


class Workers:
    """Sketches tasks; `count` 1 does it here and now, more start as many processes."""

    def __init__(self, count: int, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        self.count = count
        self._here = SketchStage(scheme, policy, limits) if count <= 1 else None
        self._pool: ProcessPoolExecutor | None = None
        if count > 1:
            # Not fork: RocksDB's threads and locks do not survive one.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(count, context, initializer=_start, initargs=(scheme, policy, limits))

    def submit(self, task: Task) -> Future[Sketched]:
        """The results of a task, when they are ready."""
        if self._pool is not None:
            return self._pool.submit(_run, task)
        assert self._here is not None
        done: Future[Sketched] = Future()
        done.set_result(self._here(task))
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _start(scheme: Scheme, policy: Policy, limits: Limits) -> None:
    global _stage  # noqa: PLW0603 - a worker process has one stage for its life
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_follow_parent, daemon=True).start()
    _stage = SketchStage(scheme, policy, limits)


def _follow_parent() -> None:
    """End with the parent, even when it is killed: a worker waiting for tasks would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run(task: Task) -> Sketched:
    assert _stage is not None
    return _stage(task)

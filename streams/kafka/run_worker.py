"""Starting and ending a worker."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import structlog

from streams.errors import InputError, LostfoundError
from streams.kafka.collection.collection import Collection
from streams.kafka.collection.http_server import Server
from streams.kafka.coordinator.commit_coordinator import CommitCoordinator
from streams.kafka.coordinator.moves_publisher import MovesPublisher
from streams.kafka.process_exit import end_process
from streams.kafka.rows.worker_client import parse_worker_url, url_for
from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.producer import Producer
from streams.kafka.wire.sweep_log import SweepLog
from streams.kafka.worker.faust_app import OPERATORS, App, build
from streams.kafka.worker.metrics import Metrics
from streams.kafka.worker.open_partitions import Partitions
from streams.kafka.worker.runner import Runner
from streams.settings import Settings

IDLE_SECONDS = 0.5
log = structlog.get_logger(__name__)


def run(
    settings: Settings,
    broker: Broker,
    data_dir: Path,
    *,
    operators: Sequence[str] = OPERATORS,
    partitions: int | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    url: str | None = None,
    until_idle: bool = False,
) -> None:
    """Work until a signal comes or, with `until_idle`, until everything that the topics hold is done.

    Answers on `host` and `port` (0: any that is free); others reach it at `url`.

    Raises InputError for a `url` that is none, when the broker does not answer or its topics do not fit, StateError
    for the state's folder.
    Threads of Faust may be left then, which would keep the process alive: see `ending`.
    """
    unknown = set(operators) - set(OPERATORS)
    if unknown or not operators:
        raise InputError(f"{', '.join(sorted(unknown)) or 'nothing'} is no operator", f"use {' or '.join(OPERATORS)}")
    if url is not None:
        parse_worker_url(url)  # others would ask for it in vain, and the worker's own library fails at it later
    kafka = settings.kafka
    counts = asyncio.run(topics.ensure(broker, kafka, partitions=partitions, create=kafka.create_topics))
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    held = Partitions(data_dir, settings.scheme, settings.store, counts.partitions)
    producer = Producer(broker, kafka, settings.scheme.id)
    runner = Runner(settings, held, producer, SweepLog(broker, kafka, producer), Metrics())
    (data_dir / "faust").mkdir(parents=True, exist_ok=True)
    try:
        loop.run_until_complete(
            _work(settings, broker, counts, runner, data_dir, operators, host, port, url, until_idle)
        )
    except LostfoundError:
        raise
    except Exception:
        # Faust's threads would keep the process alive without its work.
        log.exception("the worker failed")
        end_process()


async def _work(
    settings: Settings,
    broker: Broker,
    counts: topics.PartitionCounts,
    runner: Runner,
    data_dir: Path,
    operators: Sequence[str],
    host: str,
    port: int,
    url: str | None,
    until_idle: bool,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = Server(runner)
    port = await server.start(host, port)
    app = build(runner, broker, data_dir, url or url_for(host, port), operators)
    async with ConsumerLag(broker, settings.kafka, counts) as lag:
        server.app, server.whole = app, Collection(runner, app, lag)
        tasks: list[asyncio.Task[None]] = [
            asyncio.create_task(_signalled(stop)),
            asyncio.create_task(_crashed(app)),
            asyncio.create_task(CommitCoordinator(server.whole, lag).run()),
        ]
        telling = Topic.MOVES.value in settings.kafka.results
        if telling:
            tasks.append(asyncio.create_task(MovesPublisher(server.whole).run()))
        if until_idle:
            tasks.append(asyncio.create_task(_idle(app, lag, telling)))
        await app.start()
        log.info("worker started", prefix=settings.kafka.prefix, partitions=runner.context.partitions, port=port)
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if isinstance(app.crash_reason, LostfoundError):
            raise app.crash_reason
        if app.crashed:
            log.error("the worker crashed", error=repr(app.crash_reason))
            end_process()
        for task in done:
            task.result()
        await _stop(server, app, settings.kafka.stop_seconds_max)
        for task in waiting:
            task.cancel()


async def _stop(server: Server, app: App, seconds_max: float) -> None:
    # Faust waits for ever for a message that is never acknowledged; a kill at any instant is harmless.
    limit = threading.Timer(seconds_max, end_process)
    limit.daemon = True
    limit.start()
    await server.stop()
    await app.stop()
    limit.cancel()


async def _signalled(stop: asyncio.Event) -> None:
    await stop.wait()


async def _crashed(app: App) -> None:
    while not app.crashed:  # noqa: ASYNC110 - Faust sets a flag
        await asyncio.sleep(IDLE_SECONDS)


async def _idle(app: App, lag: ConsumerLag, telling: bool) -> None:
    """Return once nothing is left to do, commits of sweeps and what they bring included."""
    while True:
        await asyncio.sleep(IDLE_SECONDS)
        ready = app.tables.actives_ready and not app.rebalancing
        if not ready or not await lag.is_idle():
            continue
        table = app.runner.sweep_log.table
        if not table.pending_commits and not (telling and table.unpublished):
            return

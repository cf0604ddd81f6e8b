"""Start and stop one worker: its HTTP server, its Faust app and the tasks of the coordinator."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog
from prometheus_client import disable_created_metrics

from state.errors import StateLocked
from streams.errors import InputError, LostfoundError, StateError
from streams.find import warm_up
from streams.kafka.collection.collection import Collection
from streams.kafka.collection.http_server import Server, listen
from streams.kafka.coordinator.commit_coordinator import coordinate_commits
from streams.kafka.coordinator.moves_publisher import publish_moves
from streams.kafka.process_exit import end_process
from streams.kafka.rows.worker_client import parse_worker_url, url_for
from streams.kafka.wire import topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.changelog_range import ChangelogRange
from streams.kafka.wire.changelog_reader import ChangelogReader
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.producer import Producer
from streams.kafka.wire.sweep_log import SweepLog
from streams.kafka.worker.faust_app import OPERATORS, App, build_app
from streams.kafka.worker.file_limit import ensure_open_files
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.page_processor import PageProcessor
from streams.kafka.worker.partition_snapshots import Snapshots, check_folder
from streams.kafka.worker.runner import Runner
from streams.settings import Settings
from streams.sketch import chunk_reader

POLL_SECONDS = 0.5
log = structlog.get_logger(__name__)


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one worker. All workers of a collection have the same `Settings`."""

    data_dir: Path
    operators: Sequence[str] = OPERATORS
    partitions: int | None = None  # per topic; None: as in the existing topics, else `kafka.partitions`
    host: str = "127.0.0.1"
    port: int = 0  # 0: any free port
    url: str | None = None  # the URL at which other workers reach this worker; None: http://HOST:PORT
    until_idle: bool = False  # stop once all messages are processed


def run(settings: Settings, broker: Broker, options: WorkerOptions) -> None:
    """Run a worker until SIGINT or SIGTERM or, with `until_idle`, until all messages are processed.

    Raise InputError for an invalid option, an unreachable broker, unsuitable topics, a missing snapshot folder or a
    low limit on open files, and StateError for a data folder that cannot be used. Faust's threads may outlive these
    errors, so the caller must exit with `end_process`.
    """
    unknown = sorted(set(options.operators) - set(OPERATORS))
    if unknown or not options.operators:
        problem = f"unknown operators: {', '.join(unknown)}" if unknown else "no operators are given"
        raise InputError(problem, f"use {' or '.join(OPERATORS)}")
    if options.url is not None:
        parse_worker_url(options.url)  # raises InputError; Faust would not reject an invalid URL until later
    disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times would double the length of /metrics
    ensure_open_files(settings.server)
    kafka = settings.kafka
    check_folder(kafka)
    _lock_folder(options.data_dir)
    counts = asyncio.run(topics.ensure(broker, kafka, partitions=options.partitions, create=kafka.create_topics))
    (options.data_dir / "faust").mkdir(parents=True, exist_ok=True)
    warm_up()  # otherwise, publishing the first moves would delay a batch of pages
    chunk_reader.target_keys({})  # compiles, which would delay the first batch of captures
    asyncio.set_event_loop(loop := asyncio.new_event_loop())  # Faust needs the loop before it runs
    try:
        loop.run_until_complete(_run(settings, broker, options, counts))
    except LostfoundError:
        raise
    except Exception:
        log.exception("the worker failed")
        end_process()  # otherwise Faust's threads would keep an idle process alive


def _lock_folder(folder: Path) -> None:
    """Lock a worker's folder until the process ends. Raise StateLocked if another worker has locked it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # unlike with flock, child processes do not inherit it
    except BlockingIOError as error:
        raise StateLocked(
            f"another worker uses the folder {folder}", "choose another --data-dir: each worker needs its own folder"
        ) from error
    except OSError as error:
        raise StateError(
            f"cannot use the folder {folder}: {error}", "check --data-dir and its permissions"
        ) from error


async def _run(settings: Settings, broker: Broker, options: WorkerOptions, counts: topics.PartitionCounts) -> None:
    kafka = settings.kafka
    stop = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    with listen(options.host, options.port) as sockets:
        port = sockets[0].getsockname()[1]
        producer = Producer(broker, kafka, settings.scheme.id)
        partitions = OpenPartitions(options.data_dir, settings.scheme, settings.store, counts.partitions)
        sweep_log, changelog = SweepLog(broker, kafka, producer), ChangelogReader(broker, kafka)
        runner = Runner(settings, partitions, producer, sweep_log, changelog)
        url = options.url or url_for(options.host, port)
        snapshots = Snapshots(kafka, partitions, ChangelogRange(broker, kafka), runner.metrics)
        app = build_app(PageProcessor(runner), snapshots, broker, url, options.operators)
        async with ConsumerLag(broker, kafka, counts) as lag:
            collection = Collection(runner, app, lag)
            server = Server(collection)
            await server.start(sockets)
            publishes_moves = bool({Topic.MOVES.value, Topic.ANALYSES.value} & set(kafka.results))
            coroutines = [
                stop.wait(),
                app.wait_for_stopped(),
                app.wait_until_refused(),
                coordinate_commits(collection),
                snapshots.run(),
            ]
            if publishes_moves:
                coroutines.append(publish_moves(collection))
            if options.until_idle:
                coroutines.append(_wait_until_idle(app, lag, publishes_moves))
            tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
            await app.start()
            log.info("worker started", prefix=kafka.prefix, partitions=counts.partitions, port=port)
            finished, unfinished = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if isinstance(app.crash_reason, LostfoundError):
                raise app.crash_reason
            if app.crashed:
                log.error("the worker crashed", error=repr(app.crash_reason))
                end_process()
            for task in finished:
                task.result()  # raises the error of a failed task
            await _stop(server, app, kafka.stop_seconds_max)
            for task in unfinished:
                task.cancel()


async def _stop(server: Server, app: App, timeout_seconds: float) -> None:
    # Faust would wait forever for a message that is never acknowledged. Killing the process is always safe.
    timer = threading.Timer(timeout_seconds, end_process)
    timer.daemon = True
    timer.start()
    await server.stop()
    await app.stop()
    timer.cancel()


async def _wait_until_idle(app: App, lag: ConsumerLag, publishes_moves: bool) -> None:
    """Return once all messages are processed, all requested commits have taken effect, and moves are published."""
    table = app.runner.sweep_log.table
    while True:
        await asyncio.sleep(POLL_SECONDS)
        is_idle = app.ready and await lag.is_idle()
        if is_idle and not table.pending_commits and not (publishes_moves and table.unpublished_sweep):
            return

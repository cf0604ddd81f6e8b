"""Compare the Kafka engine on a real broker with the embedded engine: `make bench-kafka`, or `python -m bench.kafka`.

Pages are published first; then workers process them until they are idle. The cost of starting and stopping a worker
is measured with a few pages and subtracted; the embedded engine is warmed up first. CPU seconds are those of the
worker processes; the broker's are shown separately. Rounds of both engines alternate. Results are written to
bench/out/kafka.json and bench/out/kafka.txt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from rich.console import Console

from bench import topic_bytes
from bench.cluster import (
    Collection,
    RunningBroker,
    Usage,
    broker,
    lostfound_command,
    new_collection,
    output_of,
)
from bench.engine import temporary_folder, write_pages
from bench.generator import BLOCK, Shape, pages
from bench.measure import OUT, in_child
from bench.run import WIDTH, Row, table
from state.errors import StateError
from state.families import Family
from state.view import View
from streams.kafka.rows.worker_client import WorkerClient, token_from_environment
from streams.kafka.wire import page_messages
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.producer import Producer
from streams.kafka.wire.topics import PartitionCounts
from streams.operators.routing import partition_of
from tests.broker.running import START_SECONDS_MAX

MOVES = Path(os.environ.get("LOSTFOUND_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "moves"
WARM_PAGES = 300
LOAD = Shape(near_share=0.4)  # more near-copies than by default, so that more results are published
CLIENTS, COMPARED_CLIENTS = (1, 4, 16, 64), 4
CLIENT_SECONDS, QUERY_SECONDS_MAX = 5.0, 30.0
SETTLED_SECONDS = 3.0  # without a rebalance
SNAPSHOT_RECORDS, RECOVERY_SECONDS_MAX = 200, 60.0  # seconds per million documents
POLL_SECONDS = 0.2  # between readings of the consumer lag
SEND_SECONDS = 0.02  # between batches under a steady load


class _Url(msgspec.Struct):
    url: str


_decode_url = msgspec.json.Decoder(_Url).decode


class EngineComparison(msgspec.Struct, frozen=True):
    """The figures of both engines for the same pages."""

    pages: int
    embedded: dict[str, Any]
    kafka: Usage

    @property
    def rate(self) -> float:
        """The pages per second of one worker."""
        return self.pages / self.kafka.seconds


def measure_start_stop(folder: Path, running: RunningBroker, partitions: int) -> Usage:
    """Return the cost of starting a worker, loading and compiling everything, and stopping it."""
    warm = write_pages(folder / "warm.jsonl", WARM_PAGES, start=900_000_000, near_share=0.5)
    with new_collection(folder, running, partitions) as collection:
        collection.publish([warm])
        collection.run_until_idle("first")  # fills numba's cache
        shutil.rmtree(collection.folder / "first")
    with new_collection(folder, running, partitions) as collection:
        collection.publish([warm])
        return collection.run_until_idle("a")


def run_both_engines(
    folder: Path,
    running: RunningBroker,
    partitions: int,
    paths: Sequence[Path],
    start_stop: Usage,
    rounds: int,
    **kafka_settings: Any,
) -> EngineComparison:
    """Run both engines in turn, in several rounds, and return the medians."""
    embedded: list[dict[str, Any]] = []
    kafka: list[Usage] = []
    for _ in range(rounds):
        embedded.append(in_child("bench.engine:ingest_files", paths=[str(path) for path in paths]))
        with new_collection(folder, running, partitions, kafka_settings) as collection:
            collection.publish(paths)
            kafka.append(collection.run_until_idle("a").without(start_stop))
            shutil.rmtree(collection.folder)
    by_cpu = sorted(embedded, key=lambda figures: float(figures["cpu_seconds"]))
    usage = Usage(*(median(column) for column in zip(*(msgspec.structs.astuple(u) for u in kafka), strict=True)))
    return EngineComparison(embedded[0]["documents"], by_cpu[len(by_cpu) // 2], usage)


def throughput(name: str, measured: EngineComparison, ratio_max: float = 2.0) -> Iterator[Row]:
    """Compare CPU seconds per page, which should be at most `ratio_max`, and pages per second with the embedded engine."""
    group = "all stages, compared with the embedded engine"
    ours, theirs = measured.kafka.cpu_seconds / measured.pages * 1e6, measured.embedded["cpu_us_per_document"]
    note = (
        f"{ours:,.0f} against {theirs:,.0f} µs CPU per page, {measured.pages:,} pages; "
        f"the broker {measured.kafka.broker_cpu_seconds / measured.pages * 1e6:,.0f} µs more"
    )
    yield Row(group, f"CPU seconds per page, {name}", ours / theirs, None, ratio_max, note, at_most=True)
    note = f"{measured.rate:,.0f} against {measured.embedded['documents_per_second']:,.0f} pages/s"
    ratio = measured.rate / measured.embedded["documents_per_second"]
    yield Row(group, f"pages/s, {name}; by CPU: pages per CPU second", ratio, theirs / ours, None, note)


def compare_two_sketchers(
    folder: Path, running: RunningBroker, partitions: int, paths: Sequence[Path], repeats: int
) -> Row:
    """Compare the pages/s of two sketch-only workers with one."""
    rates = [
        asyncio.run(_sketching_rate(folder, running, partitions, list(paths) * repeats, workers))
        for workers in (1, 2)
    ]
    note = (
        f"{rates[1]:,.0f} against {rates[0]:,.0f} pages/s of HTML, on {os.cpu_count()} cores shared with the broker"
    )
    return Row("two workers", "as fast as one worker, with --operators sketch", rates[1] / rates[0], None, None, note)


async def _sketching_rate(
    folder: Path, running: RunningBroker, partitions: int, paths: Sequence[Path], workers: int
) -> float:
    # One page per message, because the lag counts messages.
    with new_collection(folder, running, partitions, {"commit_seconds": 0.2, "pack_pages": 1}) as collection:
        collection.publish(paths)
        for number in range(workers):
            collection.start_worker(f"s{number}", "--port", 0, "--operators", "sketch")
        async with ConsumerLag(
            collection.broker, collection.settings.kafka, PartitionCounts(partitions, partitions)
        ) as lag:
            all_pages = remaining = (await lag.by_topic())[Topic.PAGES]
            started, first = time.perf_counter(), all_pages
            while remaining > 0.7 * all_pages:
                await asyncio.sleep(POLL_SECONDS / 4)
                remaining = (await lag.by_topic())[Topic.PAGES]
            if remaining:  # restart the clock once all workers run: the first worker starts alone
                started, first = time.perf_counter(), remaining
            while remaining > 0:
                await asyncio.sleep(POLL_SECONDS / 4)
                remaining = (await lag.by_topic())[Topic.PAGES]
            return first / (time.perf_counter() - started)


def recovery(
    folder: Path, running: RunningBroker, partitions: int, documents: int, start_stop: Usage
) -> Iterator[Row]:
    """Measure how long a worker takes to restore its state after its folder was deleted."""
    yield from _recovery(folder, running, partitions, documents, start_stop, "the changelog", snapshot_records=0)
    snapshots = {"snapshot_folder": str(folder / f"snapshots-{documents}"), "snapshot_records": SNAPSHOT_RECORDS}
    Path(str(snapshots["snapshot_folder"])).mkdir()
    yield from _recovery(folder, running, partitions, documents, start_stop, "snapshots", **snapshots)


def _recovery(
    folder: Path,
    running: RunningBroker,
    partitions: int,
    documents: int,
    start_stop: Usage,
    source: str,
    **kafka_settings: Any,
) -> Iterator[Row]:
    path = write_pages(folder / "recovery.jsonl", documents)
    with new_collection(folder, running, partitions, kafka_settings) as collection:
        collection.publish([path])
        full = collection.run_until_idle("a").without(start_stop)
        state_bytes = sum(file.stat().st_size for file in (collection.folder / "a").rglob("*") if file.is_file())
        idle = collection.run_until_idle("a")
        shutil.rmtree(collection.folder / "a")
        restored = collection.run_until_idle("a").without(idle)
    per_million = restored.seconds / documents * 1e6
    note = (
        f"{restored.seconds:,.1f} s for {documents:,} pages ({state_bytes / 1e6:,.0f} MB); "
        f"{restored.cpu_seconds / documents * 1e6:,.0f} CPU seconds per million"
    )
    group = f"recovery from {source}"
    yield Row(group, "seconds per million documents", per_million, None, RECOVERY_SECONDS_MAX, note, at_most=True)
    yield Row(
        group,
        "time relative to processing the pages",
        restored.seconds / full.seconds,
        restored.cpu_seconds / full.cpu_seconds,
        None,
    )


def queries(folder: Path, running: RunningBroker, partitions: int, paths: Sequence[Path]) -> Iterator[Row]:
    """Run queries on two workers and on a folder of the embedded engine, and compare times and answers."""
    data_dir = folder / "embedded"
    with new_collection(folder, running, partitions) as collection:
        for path in paths:
            output_of(lostfound_command("ingest", path, "--sweep", path.name, "--data-dir", data_dir))
            collection.run("publish", path, "--sweep", path.name)
        collection.run_until_idle("a")
        urls = []
        for name in ("a", "b"):
            collection.start_ready_worker(name)
            urls.append(collection.url)
        wait_until_rebalanced(urls)
        for query in (("find", "--missing"), ("clusters",)):
            seconds, answers = [], []
            for where in (("--server", collection.url), ("--data-dir", data_dir)):
                started = time.perf_counter()
                answers.append(output_of(lostfound_command(*query, "--json", *where)).splitlines())
                seconds.append(time.perf_counter() - started)
            note = f"{seconds[0]:.1f} against {seconds[1]:.1f} s for {len(answers[0])} answers, including start-up"
            if sorted(answers[0]) != sorted(answers[1]):
                note += "; ANSWERS DIFFER"
            yield Row("queries of two workers", " ".join(query), seconds[0] / seconds[1], None, None, note)
        yield from many_clients(urls)


def wait_until_rebalanced(urls: Sequence[str]) -> None:
    """Return once all workers have answered for a while: a worker that joins causes several rebalances."""
    answered_since = None
    until = time.monotonic() + START_SECONDS_MAX
    while answered_since is None or time.monotonic() - answered_since < SETTLED_SECONDS:
        try:
            for url in urls:
                WorkerClient(url, QUERY_SECONDS_MAX, token_from_environment()).store().keys(Family.DOCUMENTS, b"", 1)
            answered_since = answered_since or time.monotonic()
        except StateError:
            answered_since = None
            if time.monotonic() > until:
                raise
        time.sleep(POLL_SECONDS)


def many_clients(urls: Sequence[str]) -> Iterator[Row]:
    """Read random URLs and their documents from both workers with different numbers of clients at the same time."""
    keys = View(WorkerClient(urls[0], QUERY_SECONDS_MAX, token_from_environment()).store()).url_keys_under(b"", 1000)

    def query_repeatedly(url: str, seed: int, deadline: float) -> int:
        view, rng = View(WorkerClient(url, QUERY_SECONDS_MAX, token_from_environment()).store()), Random(seed)
        for queries in count():
            if time.perf_counter() > deadline:
                return queries
            captures = view.captures(rng.choice(keys))
            list(view.documents([capture.document for capture in captures if capture.document]))
        return 0

    rates = {}
    for clients in CLIENTS:
        deadline = time.perf_counter() + CLIENT_SECONDS
        with ThreadPoolExecutor(clients) as threads:
            tasks = [
                threads.submit(query_repeatedly, urls[seed % len(urls)], seed, deadline) for seed in range(clients)
            ]
            rates[clients] = sum(task.result() for task in tasks) / CLIENT_SECONDS
    for clients, rate in rates.items():
        target = 1.0 if clients == max(rates) else None
        note = f"{rate:,.0f} queries/s; the ratio is that to {COMPARED_CLIENTS} clients"
        yield Row("queries of two workers", f"{clients} clients", rate / rates[COMPARED_CLIENTS], None, target, note)


class Load:
    """Sends pages to a collection at a steady rate."""

    def __init__(self, collection: Collection, rate: float) -> None:
        self.collection, self.rate = collection, rate
        self.sent: dict[str, float] = {}  # time of sending, by URL

    async def send(self) -> None:
        """Send until cancelled. After a delay, send faster to catch up."""
        settings = self.collection.settings
        producer = Producer(self.collection.broker, settings.kafka, settings.scheme.id)
        await producer.start()
        try:
            blocks = (pages(LOAD, start, start + BLOCK) for start in count(0, BLOCK))
            corpus, started = chain.from_iterable(blocks), time.perf_counter()
            waiting: set[asyncio.Task[int]] = set()
            for number in count(1):
                page = next(corpus)
                value, headers = page_messages.encode_pack([page_messages.to_message(page, "load")])
                partition = partition_of(page.key, self.collection.partitions)
                self.sent[page.url] = time.time()
                waiting.add(
                    task := asyncio.create_task(producer.send_encoded(Topic.PAGES, partition, value, headers))
                )
                task.add_done_callback(waiting.discard)
                ahead = started + number / self.rate - time.perf_counter()
                if ahead > SEND_SECONDS:
                    await asyncio.sleep(ahead)
        finally:
            await producer.stop()


async def run_under_load(collection: Collection, rate: float, action: Callable[[Load], Awaitable[None]]) -> None:
    """Run `action` while pages are being sent at `rate` per second."""
    load = Load(collection, rate)
    sending = asyncio.create_task(load.send())
    try:
        await action(load)
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


def latency(folder: Path, running: RunningBroker, partitions: int, rate: float, seconds: float) -> Iterator[Row]:
    """Measure the time from sending a page to its first near-duplicate in the results topic."""
    with new_collection(folder, running, partitions) as collection:
        collection.start_ready_worker("a")
        latencies = asyncio.run(_latencies(collection, rate, seconds))
    if len(latencies) < 2:
        raise RuntimeError("no near-duplicate was found under load")
    percentiles = quantiles(latencies, n=100)
    note = f"{len(latencies):,} near-duplicates at {rate:,.0f} pages/s, half of the maximum"
    for name, value in (("p50", percentiles[49]), ("p99", percentiles[98])):
        yield Row("page in to near-duplicate out", f"{name}, seconds", value, None, None, note)


async def _latencies(collection: Collection, rate: float, seconds: float) -> list[float]:
    first_seen: dict[str, float] = {}
    latencies: list[float] = []

    async def listen(load: Load) -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=collection.running.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            topic = f"{collection.prefix}-{Topic.NEAR_DUPLICATES.value}"
            consumer.assign([TopicPartition(topic, number) for number in range(collection.partitions)])
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                records = await consumer.getmany(timeout_ms=50)
                now = time.time()
                for record in (record for batch in records.values() for record in batch):
                    first_seen.setdefault(_decode_url(record.value).url, now)
            latencies.extend(at - load.sent[url] for url, at in first_seen.items())
        finally:
            await consumer.stop()

    await run_under_load(collection, rate, listen)
    return latencies


def rebalances(folder: Path, running: RunningBroker, partitions: int, rate: float, seconds: float) -> Iterator[Row]:
    """Measure how long the lag is high after a worker joins, and after the worker leaves."""
    with new_collection(folder, running, partitions) as collection:
        collection.start_ready_worker("a")
        lags = asyncio.run(_rebalances(collection, rate, seconds))
    for change, (after, peak) in lags.items():
        note = f"at {rate:,.0f} pages/s; at most {peak / rate:.1f} s behind"
        yield Row(
            "lag after a rebalance",
            f"seconds until the lag is normal after a worker {change}",
            after,
            None,
            None,
            note,
        )


async def _rebalances(collection: Collection, rate: float, seconds: float) -> dict[str, tuple[float, int]]:
    lags: dict[str, tuple[float, int]] = {}

    async def watch(_: Load) -> None:
        async with ConsumerLag(
            collection.broker,
            collection.settings.kafka,
            PartitionCounts(collection.partitions, collection.partitions),
        ) as lag:

            async def sample_lag(during: float) -> list[tuple[float, int]]:
                started, samples = time.perf_counter(), []
                while (at := time.perf_counter() - started) < during:
                    samples.append((at, (await lag.by_topic())[Topic.PAGES]))
                    await asyncio.sleep(POLL_SECONDS)
                return samples

            await sample_lag(seconds / 2)
            level = max(pages for _, pages in await sample_lag(seconds / 2))
            joined = collection.start_worker("b", "--port", 0)
            for change in ("joins", "leaves"):
                if change == "leaves":
                    joined.send_signal(signal.SIGTERM)
                samples = await sample_lag(seconds)
                above = [at for at, pages in samples if pages > 1.5 * level]
                lags[change] = (max(above, default=0.0), max(pages for _, pages in samples))

    await run_under_load(collection, rate, watch)
    return lags


def measure(args: argparse.Namespace, folder: Path, log: Callable[[str], None]) -> Iterator[Row]:
    """Yield the rows of all measurements."""
    with broker(folder) as running:
        log("starting and stopping")
        start_stop = measure_start_stop(folder, running, args.partitions)
        log("synthetic pages")
        pages_file = write_pages(folder / "pages.jsonl", args.documents)
        synthetic = run_both_engines(folder, running, args.partitions, [pages_file], start_stop, args.rounds)
        yield from throughput("synthetic", synthetic)
        log("one message per page")
        single = run_both_engines(
            folder, running, args.partitions, [pages_file], start_stop, args.rounds, pack_pages=1
        )
        yield from throughput("synthetic, one message per page", single)
        if args.html:
            log("real HTML")
            html = run_both_engines(folder, running, args.partitions, args.html, start_stop, args.rounds)
            yield from throughput("real HTML", html, ratio_max=1.5)
        else:
            args.html = [write_pages(folder / "html.jsonl", args.documents // 10, html=True)]
        if running.data is not None:
            log("bytes on topics")
            yield topic_bytes.row("HTML", *topic_bytes.measure(folder, running, args.partitions, args.html))
        log("two workers")
        yield compare_two_sketchers(folder, running, args.partitions, args.html, args.repeats)
        if args.query_sweeps:
            log("queries")
            yield from queries(folder, running, args.partitions, args.query_sweeps)
        for documents in args.recover:
            log(f"recovery of {documents:,}")
            yield from recovery(folder, running, args.partitions, documents, start_stop)
        log("latency")
        yield from latency(folder, running, args.partitions, synthetic.rate / 2, args.seconds)
        log("rebalances")
        yield from rebalances(folder, running, args.partitions, synthetic.rate / 2, args.seconds)


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description="Compare the Kafka engine with the embedded one.")
    parser.add_argument("--documents", type=int, default=20_000, help="synthetic pages")
    parser.add_argument("--html", type=Path, nargs="*", default=sorted(MOVES.glob("*/sweep-*")), help="crawl files")
    parser.add_argument(
        "--query-sweeps", type=Path, nargs="*", default=sorted(MOVES.glob("flink/sweep-*")), help="sweeps to query"
    )
    parser.add_argument(
        "--repeats", type=int, default=6, help="how often the files of --html are sent to the sketch-only workers"
    )
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="rounds per engine; the engines take turns")
    parser.add_argument(
        "--recover", type=int, nargs="*", default=[30_000, 100_000], help="numbers of documents to recover"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of the steady load")
    return parser


def main() -> None:
    args = arguments().parse_args()
    log = Console(stderr=True)
    rows = []
    with temporary_folder() as folder:
        for row in measure(args, folder, lambda what: log.print(f"measuring {what} ...")):
            log.print(f"  {row.what}: {row.ratio:.2f} ({row.note})")
            rows.append(row)
    OUT.mkdir(exist_ok=True)
    (OUT / "kafka.json").write_text(
        json.dumps([{**msgspec.to_builtins(row), "met": row.met} for row in rows], indent=1)
    )
    with (OUT / "kafka.txt").open("w") as file:
        Console(file=file, width=WIDTH).print(table(rows))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(rows))


if __name__ == "__main__":
    main()

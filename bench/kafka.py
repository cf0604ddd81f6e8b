"""The Kafka engine beside the embedded one, on a real broker: `make bench-kafka`, or `python -m bench.kafka`.

Pages are published first; then workers take them until they are idle. What a worker takes for starting and ending
is measured on a few pages, and deducted; the embedded engine is warmed up before it is measured. CPU seconds are
those of worker processes; the broker's own stand beside them. Rounds of both engines alternate. Written to
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
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from rich.console import Console

from bench.cluster import Collection, Running, Usage, broker, collection, lostfound, said
from bench.engine import scratch, write_pages
from bench.generator import BLOCK, Shape, pages
from bench.measure import OUT, in_child
from bench.run import WIDTH, Row, table
from streams.kafka.wire import page_messages
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.producer import Producer
from streams.kafka.wire.topics import PartitionCounts
from streams.operators.routing import partition_of

MOVES = Path(os.environ.get("LOSTFOUND_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "moves"
WARM_PAGES = 300
LOAD = Shape(near_share=0.4)  # more near-copies than by default, to see more of them
LOOK_SECONDS = 0.2  # between two looks at the lag
SEND_SECONDS = 0.02  # between two lots of pages under a steady load


class _Url(msgspec.Struct):
    url: str


_decode_url = msgspec.json.Decoder(_Url).decode


class Measured(msgspec.Struct, frozen=True):
    """The same pages through both engines."""

    pages: int
    embedded: dict[str, Any]
    kafka: Usage

    @property
    def rate(self) -> float:
        """Pages a second of one worker."""
        return self.pages / self.kafka.seconds


def start_and_end(folder: Path, running: Running, partitions: int) -> Usage:
    """What a worker takes to start, load and compile everything, and end."""
    warm = write_pages(folder / "warm.jsonl", WARM_PAGES, start=900_000_000, near_share=0.5)
    with collection(folder, running, partitions) as made:
        made.publish([warm])
        made.work("first")  # numba's cache is filled
        shutil.rmtree(made.folder / "first")
    with collection(folder, running, partitions) as made:
        made.publish([warm])
        return made.work("a")


def through_both(
    folder: Path,
    running: Running,
    partitions: int,
    paths: Sequence[Path],
    start: Usage,
    rounds: int,
    **kafka_settings: Any,
) -> Measured:
    """Medians of rounds of both engines, one after the other."""
    embedded: list[dict[str, Any]] = []
    kafka: list[Usage] = []
    for _ in range(rounds):
        embedded.append(in_child("bench.engine:files", paths=[str(path) for path in paths]))
        with collection(folder, running, partitions, kafka_settings) as made:
            made.publish(paths)
            kafka.append(made.work("a").without(start))
            shutil.rmtree(made.folder)
    by_cpu = sorted(embedded, key=lambda figures: float(figures["cpu_seconds"]))
    usage = Usage(*(median(each) for each in zip(*(msgspec.structs.astuple(u) for u in kafka), strict=True)))
    return Measured(embedded[0]["documents"], by_cpu[len(by_cpu) // 2], usage)


def throughput(name: str, found: Measured) -> Iterator[Row]:
    """Rows of pages and CPU seconds beside the embedded engine."""
    group = "whole topology beside the embedded engine"
    ours, theirs = found.kafka.cpu_seconds / found.pages * 1e6, found.embedded["cpu_us_a_document"]
    note = (
        f"{ours:,.0f} against {theirs:,.0f} µs CPU a page of {found.pages:,}; "
        f"the broker {found.kafka.broker_cpu_seconds / found.pages * 1e6:,.0f} more"
    )
    yield Row(group, f"CPU seconds a page, {name}", ours / theirs, None, 2.0, note, most=True)
    note = f"{found.rate:,.0f} against {found.embedded['documents_a_second']:,.0f} pages/s"
    ratio = found.rate / found.embedded["documents_a_second"]
    yield Row(group, f"pages/s, {name}; by CPU: a core of work", ratio, theirs / ours, None, note)


def two_sketching(folder: Path, running: Running, partitions: int, paths: Sequence[Path], repeats: int) -> Row:
    """Pages/s of two workers that only sketch to that of one."""
    rates = [
        asyncio.run(_sketching(folder, running, partitions, list(paths) * repeats, workers)) for workers in (1, 2)
    ]
    note = f"{rates[1]:,.0f} against {rates[0]:,.0f} pages/s, of HTML, on {os.cpu_count()} cores with the broker"
    return Row("two workers", "as fast as one, --operators sketch", rates[1] / rates[0], None, None, note)


async def _sketching(folder: Path, running: Running, partitions: int, paths: Sequence[Path], workers: int) -> float:
    # A page a message, as the lag counts messages.
    with collection(folder, running, partitions, {"commit_seconds": 0.2, "pack_pages": 1}) as made:
        made.publish(paths)
        for number in range(workers):
            made.worker(f"s{number}", "--port", 0, "--operators", "sketch")
        async with ConsumerLag(made.broker, made.settings.kafka, PartitionCounts(partitions, partitions)) as lag:
            all_pages = left = (await lag.by_topic())[Topic.PAGES]
            begun, first = time.perf_counter(), all_pages
            while left > 0.7 * all_pages:
                await asyncio.sleep(LOOK_SECONDS / 4)
                left = (await lag.by_topic())[Topic.PAGES]
            if left:  # From when all have begun: the first to join starts before the others are there.
                begun, first = time.perf_counter(), left
            while left > 0:
                await asyncio.sleep(LOOK_SECONDS / 4)
                left = (await lag.by_topic())[Topic.PAGES]
            return first / (time.perf_counter() - begun)


def recovery(folder: Path, running: Running, partitions: int, documents: int, start: Usage) -> Iterator[Row]:
    """A wiped folder back from the changelog."""
    path = write_pages(folder / "recovery.jsonl", documents)
    with collection(folder, running, partitions) as made:
        made.publish([path])
        whole = made.work("a").without(start)
        held = sum(file.stat().st_size for file in (made.folder / "a").rglob("*") if file.is_file())
        idle = made.work("a")
        shutil.rmtree(made.folder / "a")
        back = made.work("a").without(idle)
    note = (
        f"{back.seconds:,.1f} s for {documents:,} pages ({held / 1e6:,.0f} MB): {back.seconds / documents * 1e6:,.0f} "
        f"s, {back.cpu_seconds / documents * 1e6:,.0f} CPU seconds a million"
    )
    yield Row(
        "recovery",
        "time to the time the pages took",
        back.seconds / whole.seconds,
        back.cpu_seconds / whole.cpu_seconds,
        None,
        note,
    )


def queries(folder: Path, running: Running, partitions: int, paths: Sequence[Path]) -> Iterator[Row]:
    """Questions about sweeps asked of two workers, beside a folder of the embedded engine; the same answers."""
    data_dir = folder / "asked"
    with collection(folder, running, partitions) as made:
        for path in paths:
            said(lostfound("ingest", path, "--sweep", path.name, "--data-dir", data_dir))
            made.command("publish", path, "--sweep", path.name)
        made.work("a")
        made.serving("a")
        made.serving("b")
        for asked in (("find", "--missing"), ("clusters",)):
            seconds, answers = [], []
            for where in (("--server", made.url), ("--data-dir", data_dir)):
                begun = time.perf_counter()
                answers.append(said(lostfound(*asked, "--json", *where)).splitlines())
                seconds.append(time.perf_counter() - begun)
            note = f"{seconds[0]:.1f} against {seconds[1]:.1f} s for {len(answers[0])} answers, starting included"
            if sorted(answers[0]) != sorted(answers[1]):
                note += "; NOT THE SAME"
            yield Row("queries of two workers", " ".join(asked), seconds[0] / seconds[1], None, None, note)


class Load:
    """Pages sent to a collection at a steady rate, until cancelled."""

    def __init__(self, made: Collection, rate: float) -> None:
        self.made, self.rate = made, rate
        self.sent: dict[str, float] = {}  # when, by URL

    async def run(self) -> None:
        """Send until cancelled; what falls behind is caught up."""
        settings = self.made.settings
        producer = Producer(self.made.broker, settings.kafka, settings.scheme.id)
        await producer.start()
        try:
            blocks = (pages(LOAD, start, start + BLOCK) for start in count(0, BLOCK))
            coming, started = chain.from_iterable(blocks), time.perf_counter()
            waiting: set[asyncio.Task[int]] = set()
            for done in count(1):
                page = next(coming)
                value, headers = page_messages.encode(page, "load")
                place = partition_of(page.key, self.made.partitions)
                self.sent[page.url] = time.time()
                waiting.add(task := asyncio.create_task(producer.send_message(Topic.PAGES, place, value, headers)))
                task.add_done_callback(waiting.discard)
                ahead = started + done / self.rate - time.perf_counter()
                if ahead > SEND_SECONDS:
                    await asyncio.sleep(ahead)
        finally:
            await producer.stop()


async def under_load(made: Collection, rate: float, what: Callable[[Load], Awaitable[None]]) -> None:
    """Run `what` while pages come."""
    load = Load(made, rate)
    sending = asyncio.create_task(load.run())
    try:
        await what(load)
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


def latency(folder: Path, running: Running, partitions: int, rate: float, seconds: float) -> Iterator[Row]:
    """From a page sent to when a reader of the results has its first near-duplicate."""
    with collection(folder, running, partitions) as made:
        made.serving("a")
        found = asyncio.run(_latencies(made, rate, seconds))
    if len(found) < 2:
        raise RuntimeError("no near-duplicate came out under load")
    marks = quantiles(found, n=100)
    note = f"{len(found):,} near-duplicates at {rate:,.0f} pages/s, half of the maximum"
    for name, value in (("p50", marks[49]), ("p99", marks[98])):
        yield Row("page in to near-duplicate out", f"{name}, seconds", value, None, None, note)


async def _latencies(made: Collection, rate: float, seconds: float) -> list[float]:
    seen: dict[str, float] = {}
    found: list[float] = []

    async def listen(load: Load) -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=made.running.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            full = f"{made.prefix}-{Topic.NEAR_DUPLICATES.value}"
            consumer.assign([TopicPartition(full, number) for number in range(made.partitions)])
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                records = await consumer.getmany(timeout_ms=50)
                now = time.time()
                for record in (record for each in records.values() for record in each):
                    seen.setdefault(_decode_url(record.value).url, now)
            found.extend(at - load.sent[url] for url, at in seen.items())
        finally:
            await consumer.stop()

    await under_load(made, rate, listen)
    return found


def rebalances(folder: Path, running: Running, partitions: int, rate: float, seconds: float) -> Iterator[Row]:
    """How long the lag is above its level after a worker has joined and another has left."""
    with collection(folder, running, partitions) as made:
        made.serving("a")
        seen = asyncio.run(_rebalances(made, rate, seconds))
    for what, (after, peak) in seen.items():
        note = f"at {rate:,.0f} pages/s; at its worst {peak / rate:.1f} s behind"
        yield Row("lag after a rebalance", f"seconds until it is back, a worker {what}", after, None, None, note)


async def _rebalances(made: Collection, rate: float, seconds: float) -> dict[str, tuple[float, int]]:
    seen: dict[str, tuple[float, int]] = {}

    async def watch(_: Load) -> None:
        async with ConsumerLag(
            made.broker, made.settings.kafka, PartitionCounts(made.partitions, made.partitions)
        ) as lag:

            async def behind(during: float) -> list[tuple[float, int]]:
                begun, held = time.perf_counter(), []
                while (at := time.perf_counter() - begun) < during:
                    held.append((at, (await lag.by_topic())[Topic.PAGES]))
                    await asyncio.sleep(LOOK_SECONDS)
                return held

            await behind(seconds / 2)
            level = max(pages for _, pages in await behind(seconds / 2))
            joined = made.worker("b", "--port", 0)
            for what in ("joins", "leaves"):
                if what == "leaves":
                    joined.send_signal(signal.SIGTERM)
                held = await behind(seconds)
                above = [at for at, pages in held if pages > 1.5 * level]
                seen[what] = (max(above, default=0.0), max(pages for _, pages in held))

    await under_load(made, rate, watch)
    return seen


def measure(given: argparse.Namespace, folder: Path, log: Callable[[str], None]) -> Iterator[Row]:
    """All rows."""
    with broker(folder) as running:
        log("starting and ending")
        start = start_and_end(folder, running, given.partitions)
        log("synthetic pages")
        made = write_pages(folder / "pages.jsonl", given.documents)
        synthetic = through_both(folder, running, given.partitions, [made], start, given.rounds)
        yield from throughput("synthetic", synthetic)
        log("a message a page")
        single = through_both(folder, running, given.partitions, [made], start, given.rounds, pack_pages=1)
        yield from throughput("synthetic, a message a page", single)
        if given.html:
            log("real HTML")
            html = through_both(folder, running, given.partitions, given.html, start, given.rounds)
            yield from throughput("real HTML", html)
        else:
            given.html = [write_pages(folder / "html.jsonl", given.documents // 10, html=True)]
        log("two workers")
        yield two_sketching(folder, running, given.partitions, given.html, given.repeats)
        if given.asked:
            log("queries")
            yield from queries(folder, running, given.partitions, given.asked)
        for documents in given.recover:
            log(f"recovery of {documents:,}")
            yield from recovery(folder, running, given.partitions, documents, start)
        log("latency")
        yield from latency(folder, running, given.partitions, synthetic.rate / 2, given.seconds)
        log("rebalances")
        yield from rebalances(folder, running, given.partitions, synthetic.rate / 2, given.seconds)


def arguments() -> argparse.ArgumentParser:
    """What can be chosen."""
    parser = argparse.ArgumentParser(description="Measure the Kafka engine beside the embedded one.")
    parser.add_argument("--documents", type=int, default=20_000, help="synthetic pages")
    parser.add_argument("--html", type=Path, nargs="*", default=sorted(MOVES.glob("*/sweep-*")), help="crawl files")
    parser.add_argument("--asked", type=Path, nargs="*", default=sorted(MOVES.glob("flink/sweep-*")), help="sweeps")
    parser.add_argument("--repeats", type=int, default=6, help="times that these are sent to workers that sketch")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="of each engine, in turn")
    parser.add_argument("--recover", type=int, nargs="*", default=[30_000, 100_000], help="documents to recover")
    parser.add_argument("--seconds", type=float, default=30.0, help="of a steady load")
    return parser


def main() -> None:
    given = arguments().parse_args()
    log = Console(stderr=True)
    rows = []
    with scratch() as folder:
        for row in measure(given, folder, lambda what: log.print(f"measuring {what} ...")):
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

"""The faults of the soak: those of the chaos test, and faults of networks, clients, operators and other producers.

Each fault leaves a record of what the embedded engine must do to have the same answers. Workers with odd numbers reach
the broker through a proxy, and all workers take snapshots.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import msgspec
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from state.changes import Changes
from state.errors import LostfoundError
from state.families import Family
from state.model import Sweep, SweepState
from state.store import Store
from state.sweeps import decode, finish_cancel, named, open_sweep
from state.view import View
from streams import forgetting
from streams.engine.ingest import ingest
from streams.kafka.rows.worker_client import WorkerClient, token_from_environment, url_for
from streams.kafka.wire.consumer_lag import CONSUMED_TOPICS
from streams.settings import load
from streams.urls import url_key
from tests.broker.answers import Answers, answers, row_digests
from tests.broker.chaos import FROZEN_SECONDS, STEPS, Chaos
from tests.broker.proxy import Proxy, write_properties
from tests.broker.results import read
from tests.broker.running import Broker, free_port
from tests.broker.test_hostile_records import BATCHES, EVENTS, Record
from tests.broker.test_hostile_records import send as send_records
from tests.broker.test_partitions import add_partitions
from tests.broker.test_transactions import transaction
from tests.samples import NOW, Line, begin_cancel, jsonl, page, variant, words

MORE_STEPS = ("cut", "cancel", "transactions", "hostile", "clients", "scheme", "partitions", "forget")
SMALL_SWEEP, FORGOTTEN = 60, 5  # pages
SNAPSHOT_RECORDS = 40
CLIENTS, CLIENT_SECONDS = 24, 4.0
COMMAND_SECONDS_MAX = 300.0
PAGES_PARTITIONS_MAX = 6
HOSTILE_BATCHES = BATCHES[:7]  # the others need other settings of the broker


class SoakChaos(Chaos):
    """A cluster with all faults, and the embedded state that its answers are compared with."""

    steps: Sequence[str] = (*STEPS, *MORE_STEPS)

    def __init__(self, folder: Path, seed: int, *, take_pages: int = 64) -> None:
        self.ports: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.urls_to_forget: list[str] = []
        self.expired = 0  # number of messages that were deleted before they were read
        self.embedded = folder / "embedded"
        self._names = map("{}".format, itertools.count(1))
        self._texts = [words(Random(seed), 120) for _ in range(SMALL_SWEEP)]
        self._pages_partitions = 0
        super().__init__(folder, seed, take_pages=take_pages, snapshot_records=SNAPSHOT_RECORDS)
        self._pages_partitions = self.collection.partitions

    def make_broker(self, folder: Path) -> Broker:
        """Return a broker with a second listener behind a proxy."""
        port, proxied_port = free_port(), free_port()
        self.proxy = Proxy(proxied_port)
        return Broker(
            folder / "broker", port, write_properties(folder / "broker.properties", port, proxied_port, self.proxy)
        )

    def start_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Start a worker at a port of its own."""
        port = self.ports.setdefault(name, free_port())
        direct = self.collection.bootstrap
        if int(name[1:]) % 2:
            self.collection.bootstrap = f"127.0.0.1:{self.proxy.port}"
        try:
            return self.collection.worker(name, "--host", "127.0.0.1", "--port", port)
        finally:
            self.collection.bootstrap = direct

    def faults(self) -> dict[str, Callable[[], None]]:
        return super().faults() | {
            "cut": self.cut,
            "cancel": self.cancel,
            "transactions": self.crawl,
            "hostile": self.send_hostile_records,
            "clients": self.query,
            "scheme": self.start_with_other_scheme,
            "partitions": self.add_partition,
            "forget": self.forget,
        }

    def cut(self) -> None:
        """Cut the link of some workers for longer than a session."""
        self.proxy.cut()
        time.sleep(FROZEN_SECONDS)
        self.proxy.heal()

    def cancel(self) -> None:
        """Freeze a worker while a sweep arrives, and cancel the sweep before the worker continues."""
        name = f"cancelled-{next(self._names)}"
        self.cancelled.add(name)
        publish = subprocess.Popen(
            self.collection.command("publish", self._write_sweep(name), "--sweep", name, "--keep-open"),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._until(lambda: self._state_of(name) is not None)
        time.sleep(self.rng.uniform(0.0, 1.5))
        frozen = self.rng.choice(sorted(self.workers))
        self.workers[frozen].send_signal(signal.SIGSTOP)
        try:
            time.sleep(FROZEN_SECONDS)
            assert publish.wait(COMMAND_SECONDS_MAX) == 0
            self._until(lambda: self._state_of(name) is SweepState.CANCELLED, "sweep", "cancel", name, without=frozen)
        finally:
            self.workers[frozen].send_signal(signal.SIGCONT)

    def crawl(self) -> None:
        """Send pages in transactions, half of which are aborted."""
        name = f"crawled-{next(self._names)}"
        lines, aborted = self._small_sweep(name), self._small_sweep(f"aborted-{name}")
        topic = f"{self.collection.prefix}-pages"

        async def send() -> None:
            for part, commit in ((aborted[::2], False), (lines, True), (aborted[1::2], False)):
                async with transaction(self.collection, name, commit=commit) as producer:
                    for at, line in enumerate(part):
                        value = msgspec.json.encode(line | {"crawl": name})
                        await producer.send_and_wait(topic, value, partition=at % self.collection.partitions)

        asyncio.run(send())
        self.published[name] = jsonl(self.collection.folder / f"{name}.jsonl", lines)
        self._until(lambda: self._state_of(name) is not None)
        self._until(lambda: self._state_of(name) is SweepState.COMMITTED, "sweep", "commit", name)

    def send_hostile_records(self) -> None:
        """Send malformed records to all topics."""

        async def send() -> None:
            for topic in CONSUMED_TOPICS:
                await send_records(self.collection, topic.value, *self.rng.choice(HOSTILE_BATCHES))
            await send_records(self.collection, "sweeps", [Record(value=value) for value in EVENTS])

        asyncio.run(send())

    def query(self) -> None:
        """Query all workers with more clients than they have threads. They may refuse, but must not fail."""
        deadline = time.monotonic() + CLIENT_SECONDS

        def query_repeatedly(client: int) -> int:
            url = self._url(self._running()[client % len(self._running())])
            answered = 0
            while time.monotonic() < deadline:
                try:
                    store = WorkerClient(url, CLIENT_SECONDS, token_from_environment()).store()
                    answered += len(list(itertools.islice(store.scan(Family.DOCUMENTS), 5_000))) >= 0
                except LostfoundError:
                    time.sleep(0.1)
            return answered

        with ThreadPoolExecutor(CLIENTS) as threads:
            print(f"{sum(threads.map(query_repeatedly, range(CLIENTS)))} answers", flush=True)

    def start_with_other_scheme(self) -> None:
        """Start a worker with another scheme, which must refuse to join."""
        config, name = self.collection.config, f"scheme-{next(self._names)}"
        text = config.read_text()
        self.collection.config = self.collection.folder / f"{name}.toml"
        self.collection.config.write_text(text + "\n[scheme]\nseed = 99\n")
        try:
            assert self.collection.worker(name).wait(COMMAND_SECONDS_MAX) == 4, self.log(name)
        finally:
            self.collection.config = config

    def add_partition(self) -> None:
        """Add a partition to the topic of pages."""
        if self._pages_partitions < PAGES_PARTITIONS_MAX:
            self._pages_partitions += 1
            asyncio.run(add_partitions(self.collection, self._pages_partitions))

    def forget(self) -> None:
        """Publish a small sweep, and forget some of its URLs."""
        name = f"forget-{next(self._names)}"
        path = self._write_sweep(name)
        self.publish(name, path)
        self._until(lambda: self._state_of(name) is SweepState.COMMITTED)
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        for line in self.rng.sample(lines, FORGOTTEN):
            self._until(lambda: True, "forget", line["url"])
            self.urls_to_forget.append(line["url"])

    def expire(self) -> None:
        """Send pages and delete them before they are read. No worker may be running."""
        topic = f"{self.collection.prefix}-pages"
        lines = self._small_sweep("expired")
        partition = TopicPartition(topic, 1)

        async def send_and_expire() -> None:
            async with transaction(self.collection, "expire") as producer:
                sent = [await producer.send_and_wait(topic, msgspec.json.encode(line), partition=1) for line in lines]
            admin = AIOKafkaAdminClient(bootstrap_servers=self.collection.bootstrap)
            await admin.start()
            try:
                await admin.delete_records({partition: RecordsToDelete(sent[-1].offset + 1)})
            finally:
                await admin.close()

        asyncio.run(send_and_expire())
        self.expired += len(lines)

    def resume(self) -> None:
        """Start the workers again after `settle`."""
        self.workers = {name: self.start_worker(name) for name in self.workers}

    def compare(self, sample_every: int) -> tuple[Answers, Answers]:
        """Return the answers of the embedded engine, which catches up, and of the workers, which must be stopped."""
        details = [
            letter["detail"] for _, letter in read(self.collection, "dead-letters") if letter["reason"] == "expired"
        ]
        assert sum(int(detail.split()[0]) for detail in details) >= self.expired, details
        settings = load(self.collection.config)
        names = [decode(*row).name for row in sorted(asyncio.run(self._sweep_rows()).items())]
        with Store(self.embedded) as store:
            for name in names:
                if name in self.cancelled:
                    _cancel_empty_sweep(store, name)
                elif named(store, name) is None:
                    ingest(store, settings, [str(self.published[name])], name, now=NOW)
            while self.urls_to_forget:
                removals = forgetting.forget_url(store, url_key(self.urls_to_forget.pop()))
                forgetting.commit_removals(removals, store.write)
            expected = answers(View(store), settings, sample_every=sample_every) | row_digests(store)
        actual, _ = self.answers(sample_every)
        for result in (expected, actual):
            result["sweeps"] = [_without_forgotten(line) for line in result["sweeps"]]
        return expected, actual

    def _write_sweep(self, name: str) -> Path:
        return jsonl(self.collection.folder / f"{name}.jsonl", self._small_sweep(name))

    def _small_sweep(self, name: str) -> list[Line]:
        """Return pages of a host of their own, which are near-duplicates of one another."""
        return [
            page(f"https://{name}.example/{at}", " ".join(variant(self.rng, text, 3)), NOW + 10**9 + at)
            for at, text in enumerate(self._texts)
        ]

    def _state_of(self, name: str) -> SweepState | None:
        rows = asyncio.run(self._sweep_rows())
        return next((s.state for s in (decode(*row) for row in sorted(rows.items())) if s.name == name), None)

    def _url(self, name: str) -> str:
        return url_for("127.0.0.1", self.ports[name])

    def _running(self, without: str = "") -> list[str]:
        return [name for name, process in sorted(self.workers.items()) if process.poll() is None and name != without]

    def _until(self, condition: Callable[[], bool], *arguments: str, without: str = "") -> None:
        """Repeat a command until it succeeds and a condition is met. Without arguments, wait for the condition."""
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        is_done = not arguments
        while not (is_done and condition()):
            assert time.monotonic() < deadline, arguments
            self.restart_failed()
            if not is_done and (running := self._running(without)):
                try:
                    self.collection.run(*arguments, "--server", self._url(self.rng.choice(running)))
                    is_done = True
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    # The first attempt may have succeeded although its answer was lost.
                    is_done = "has no capture" in str(error) or (arguments[0] == "sweep" and condition())
            time.sleep(0.5)


def _without_forgotten(line: str) -> str:
    """Return a sweep without its captures if some of them are forgotten: the sweep log has the number at its commit."""
    sweep = msgspec.json.decode(line, type=Sweep)
    captures = 0 if sweep.name.startswith("forget-") else sweep.captures
    return msgspec.json.encode(msgspec.structs.replace(sweep, captures=captures)).decode()


def _cancel_empty_sweep(store: Store, name: str) -> None:
    """Use the number of a cancelled sweep, unless it is used already."""
    if any(sweep.name == name for sweep in View(store)._sweeps):
        return
    changes = Changes()
    finish_cancel(store, begin_cancel(store, open_sweep(store, name, NOW)), changes)
    store.write(changes)

"""Seeded random faults in a cluster: workers are killed, stopped, frozen and added, the broker restarts, folders are
deleted, and messages are sent twice. Afterwards the cluster must give the answers of the embedded engine.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from state import sweeps
from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.kafka.wire.broker import Broker as Address
from streams.kafka.wire.changelog_range import ChangelogRange
from streams.kafka.wire.consumer_lag import CONSUMED_TOPICS, ConsumerLag
from streams.kafka.wire.producer import Producer
from streams.kafka.wire.sweep_log import SweepLog
from streams.kafka.wire.topics import PartitionCounts
from streams.settings import load
from tests.broker.answers import Answers, answers, row_digests
from tests.broker.running import ROOT, Broker, Collection, free_port, sharded_store
from tests.samples import NOW, jsonl, page, variant, words

PARTITIONS = 3
WORKERS = (2, 4)  # minimum, maximum
SETTLED_SECONDS_MAX = 240.0
RESTART = 75  # the exit code of a worker that asks for a restart
# Exit codes after SIGTERM: a clean end; an end during an outage of the broker; an end during the start.
EXIT_CODES = (0, RESTART, 130, -signal.SIGTERM)
STEPS = ("kill", "kill", "stop", "freeze", "add", "broker", "wipe", "twice", "twice")
FROZEN_SECONDS = 9.0  # longer than a session, so that other workers take over the partitions


def corpus(folder: Path, seed: int, sweep_count: int, pages: int) -> dict[str, Path]:
    """Write sweeps in which a third of the pages are near-duplicates, and most URLs recur in the next sweep."""
    rng = random.Random(seed)
    texts = [words(rng, 120) for _ in range(pages)]
    paths = {}
    for number in range(sweep_count):
        lines = []
        for at in range(pages):
            if rng.random() < 0.3:
                texts[at] = variant(rng, texts[rng.randrange(pages)], rng.randrange(1, 8))
            if rng.random() < 0.9:
                url = f"https://site{at % 7}.example/{at}"
                lines.append(page(url, " ".join(texts[at]), NOW + number * 10**7 + at))
        paths[f"s{number}"] = jsonl(folder / f"s{number}.jsonl", lines)
    return paths


class Chaos:
    """A broker and its workers, which are restarted when they end with exit code 75, and the faults to inject."""

    steps: Sequence[str] = STEPS

    def __init__(self, folder: Path, seed: int, *, take_pages: int = 16, snapshot_records: int | None = None) -> None:
        """With `snapshot_records`, snapshots are taken after this number of records, and changelogs are trimmed."""
        self.rng = random.Random(seed)
        self.broker = self.make_broker(folder)
        self.broker.start()
        self.collection = Collection(folder, self.broker.bootstrap, PARTITIONS, take_pages=take_pages)
        self.trims_changelogs = snapshot_records is not None
        if snapshot_records is not None:
            self.collection.share_snapshots(snapshot_records)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.names: list[str] = []
        self.publishing: list[tuple[str, Path, subprocess.Popen[bytes]]] = []
        self.published: dict[str, Path] = {}
        self.restarts = 0
        self.bag: list[str] = []
        for _ in range(WORKERS[0]):
            self.add()

    def make_broker(self, folder: Path) -> Broker:
        return Broker(folder / "broker", free_port())

    def start_worker(self, name: str) -> subprocess.Popen[bytes]:
        return self.collection.worker(name)

    def faults(self) -> dict[str, Callable[[], None]]:
        """Return the faults to inject, by name."""
        return {
            "kill": self.kill,
            "stop": self.stop,
            "freeze": self.freeze,
            "add": self.add,
            "broker": self.restart_broker,
            "wipe": self.wipe,
            "twice": self.publish_again,
        }

    def publish(self, name: str, path: Path) -> None:
        """Start to publish a sweep."""
        self.published[name] = path
        with (self.collection.folder / "publish.log").open("ab") as log:
            process = subprocess.Popen(
                self.collection.command("publish", path, "--sweep", name), stdout=log, stderr=log, cwd=ROOT
            )
        self.collection.running.append(process)
        self.publishing.append((name, path, process))

    def add(self) -> None:
        """Start one more worker, up to WORKERS[1] of them."""
        if len(self.workers) < WORKERS[1]:
            name = f"w{len(self.names)}"
            self.names.append(name)
            self.workers[name] = self.start_worker(name)

    def kill(self) -> None:
        """Kill a worker, and restart it with its folder."""
        name = self.rng.choice(sorted(self.workers))
        self._kill(name)
        self.workers[name] = self.start_worker(name)

    def wipe(self) -> None:
        """Kill a worker, delete its folder, and restart it."""
        name = self.rng.choice(sorted(self.workers))
        self._kill(name)
        shutil.rmtree(self.collection.folder / name, ignore_errors=True)
        self.workers[name] = self.start_worker(name)

    def _kill(self, name: str) -> None:
        self.workers[name].send_signal(signal.SIGKILL)
        self.workers[name].wait()

    def stop(self) -> None:
        """Stop a worker with SIGTERM; start others if fewer than WORKERS[0] are left."""
        name = self.rng.choice(sorted(self.workers))
        process = self.workers.pop(name)
        process.terminate()
        assert process.wait(60) in EXIT_CODES, self.log(name)
        while len(self.workers) < WORKERS[0]:
            self.add()

    def freeze(self) -> None:
        """Stop a process for longer than its session; it then continues as a former owner of its partitions."""
        process = self.workers[self.rng.choice(sorted(self.workers))]
        process.send_signal(signal.SIGSTOP)
        time.sleep(FROZEN_SECONDS)
        process.send_signal(signal.SIGCONT)

    def restart_broker(self) -> None:
        """Kill the broker, and restart it a little later."""
        self.broker.kill()
        time.sleep(self.rng.uniform(0.5, 3.0))
        self.broker.start()

    def publish_again(self) -> None:
        """Publish a sweep again."""
        name = self.rng.choice(sorted(self.published))
        self.publish(name, self.published[name])

    def step(self, name: str | None = None) -> str:
        """Inject one fault and return its name."""
        if name is None:
            # From a shuffled bag, so that every fault happens before any of them happens often.
            self.bag = self.bag or self.rng.sample(self.steps, len(self.steps))
            name = self.bag.pop()
        self.faults()[name]()
        self.restart_failed()
        return name

    def restart_failed(self) -> None:
        """Restart workers that ended with exit code 75, and repeat failed publications."""
        for name, process in list(self.workers.items()):
            if (code := process.poll()) is not None:
                assert code == RESTART or "cannot be reached" in self.log(name), f"{code}: {self.log(name)}"
                self.restarts += 1
                self.workers[name] = self.start_worker(name)
        for publication in list(self.publishing):
            name, path, process = publication
            if (code := process.poll()) is not None:
                self.publishing.remove(publication)
                if code:
                    self.publish(name, path)

    def log(self, name: str) -> str:
        """Return the end of a worker's log."""
        return (self.collection.folder / f"{name}.log").read_text(errors="replace")[-6000:]

    def settle(self) -> None:
        """Wait until everything is published; then restart the workers and let them finish all messages."""
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while self.publishing:
            self.restart_failed()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        for process in self.workers.values():
            process.terminate()
        for name, process in self.workers.items():
            assert process.wait(60) in EXIT_CODES, self.log(name)
        self._run_until_idle(deadline)

    def _run_until_idle(self, deadline: float) -> None:
        """Run the workers until no messages are left.

        A worker asks for a restart if another one trimmed a changelog while it was reading it.
        """
        waiting = sorted(self.workers)
        running: dict[str, subprocess.Popen[bytes]] = {}
        while waiting or running:
            assert time.monotonic() < deadline, {name: self.log(name) for name in running}
            running |= {name: self.collection.worker(name, "--until-idle") for name in waiting}
            waiting = []
            time.sleep(0.2)
            for name, process in list(running.items()):
                if (code := process.poll()) is not None:
                    del running[name]
                    assert code == 0 or (code == RESTART and self.trims_changelogs), f"{code}: {self.log(name)}"
                    if code:
                        self.restarts += 1
                        waiting.append(name)

    def offsets(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Return the committed offsets and the end offsets of all partitions, by topic."""

        async def read_offsets() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
            settings = load(self.collection.config, {"kafka": {"prefix": self.collection.prefix}})
            async with ConsumerLag(
                Address(bootstrap=self.collection.bootstrap), settings.kafka, PartitionCounts(PARTITIONS, PARTITIONS)
            ) as lag:
                ends = {topic.value: await lag.end_offsets(topic) for topic in CONSUMED_TOPICS}
                committed = await lag.committed_offsets()
                offsets = {topic: [0] * len(ends[topic]) for topic in ends}
                for partition, offset in committed.items():
                    name = partition.topic.removeprefix(f"{self.collection.prefix}-")
                    if name in offsets:
                        offsets[name][partition.partition] = offset
                return offsets, ends

        return asyncio.run(read_offsets())

    def changelog_starts(self) -> list[int]:
        """Return the offset of the first record of each changelog."""
        settings = load(self.collection.config, {"kafka": {"prefix": self.collection.prefix}})
        changelogs = ChangelogRange(Address(bootstrap=self.collection.bootstrap), settings.kafka)
        return [offsets.start for offsets in asyncio.run(changelogs.read(range(PARTITIONS))).values()]

    def _check(self) -> list[str]:
        """Check every partition, and return the names of the workers that have partitions."""
        offsets, ends = self.offsets()
        assert offsets == ends
        names = [name for name in self.names if (self.collection.folder / name / "partitions").exists()]
        self.collection.check(*names)
        return names

    def answers(self, sample_every: int = 1) -> tuple[Answers, list[str]]:
        """Check every partition. Return the answers, and the names of the sweeps in the order of their numbers."""
        rows = asyncio.run(self._sweep_rows())
        sweep_names = [sweeps.decode(*row).name for row in sorted(rows.items())]
        settings = load(self.collection.config)
        names = self._check()
        with self.collection.folders(*names) as stores:
            view = View(sharded_store(stores, settings.scheme, rows))
            return answers(view, settings, sample_every=sample_every) | row_digests(view.store), sweep_names

    async def _sweep_rows(self) -> dict[bytes, bytes]:
        settings = load(self.collection.config, {"kafka": {"prefix": self.collection.prefix}})
        broker = Address(bootstrap=self.collection.bootstrap)
        sweep_log = SweepLog(broker, settings.kafka, Producer(broker, settings.kafka, settings.scheme.id))
        await sweep_log.start()
        await sweep_log.stop()
        return sweep_log.table.rows()

    def close(self) -> None:
        """Kill the workers and the broker."""
        self.collection.kill()
        self.broker.kill()


def embedded_answers(
    folder: Path, config: Path, paths: dict[str, Path], names: Sequence[str], sample_every: int = 1
) -> Answers:
    """Return the answers of the embedded engine after it has ingested the named sweeps in this order."""
    settings = load(config)
    with Store(folder) as store:
        for name in names:
            ingest(store, settings, [str(paths[name])], name, now=NOW)
        return answers(View(store), settings, sample_every=sample_every) | row_digests(store)


def run(chaos: Chaos, paths: dict[str, Path], steps: Sequence[str | None]) -> Iterator[str]:
    """Publish sweeps and inject faults in between; yield the names of the faults."""
    waiting = list(paths.items())
    for number, name in enumerate(steps):
        while waiting and number >= len(steps) * (len(paths) - len(waiting)) // len(paths):
            chaos.publish(*waiting.pop(0))
        time.sleep(chaos.rng.uniform(0.5, 3.0))
        yield chaos.step(name)

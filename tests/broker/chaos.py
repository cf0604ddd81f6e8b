"""What a cluster has to bear, as steps by a seed: workers killed, stopped and added, the broker restarted, folders
wiped, messages sent twice; and how it must stand once it has settled.
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

from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.kafka.wire.broker import Broker as Address
from streams.kafka.wire.consumer_lag import CONSUMED, ConsumerLag
from streams.kafka.wire.topics import PartitionCounts
from streams.settings import load
from tests.broker.running import ROOT, Broker, Clusters, Collection, clusters_of, free_port
from tests.samples import NOW, jsonl, page, variant, words

PARTITIONS = 3
WORKERS = (2, 4)  # at least, at most
SETTLED_SECONDS_MAX = 240.0
RESTART = 75  # a worker that ended before it acknowledged what failed: whoever runs it starts it again
# Of one that is asked to: in order; not in order, as while the broker is away; and before it had begun.
ENDED = (0, RESTART, 130, -signal.SIGTERM)
STEPS = ("kill", "kill", "stop", "add", "broker", "wipe", "twice", "twice")


def corpus(folder: Path, seed: int, sweeps: int, pages: int) -> dict[str, Path]:
    """Sweeps of pages, of which a third are near-duplicates of others; most URLs come again in the next sweep."""
    rng = random.Random(seed)
    texts = [words(rng, 120) for _ in range(pages)]
    made = {}
    for number in range(sweeps):
        lines = []
        for at in range(pages):
            if rng.random() < 0.3:
                texts[at] = variant(rng, texts[rng.randrange(pages)], rng.randrange(1, 8))
            if rng.random() < 0.9:
                url = f"https://site{at % 7}.example/{at}"
                lines.append(page(url, " ".join(texts[at]), NOW + number * 10**7 + at))
        made[f"s{number}"] = jsonl(folder / f"s{number}.jsonl", lines)
    return made


class Chaos:
    """A broker, workers that are started again when they end with 75, and what is done to them."""

    def __init__(self, folder: Path, seed: int, *, take_pages: int = 16) -> None:
        self.rng = random.Random(seed)
        self.broker = Broker(folder / "broker", free_port())
        self.broker.start()
        self.made = Collection(folder, self.broker.bootstrap, PARTITIONS, take_pages=take_pages)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.names: list[str] = []
        self.publishing: list[tuple[str, Path, subprocess.Popen[bytes]]] = []
        self.published: dict[str, Path] = {}
        self.restarts = 0
        self.bag: list[str] = []
        for _ in range(WORKERS[0]):
            self.add()

    def publish(self, name: str, path: Path) -> None:
        """Begin to send a sweep."""
        self.published[name] = path
        with (self.made.folder / "publish.log").open("ab") as log:
            process = subprocess.Popen(
                self.made.command("publish", path, "--sweep", name), stdout=log, stderr=log, cwd=ROOT
            )
        self.made.running.append(process)
        self.publishing.append((name, path, process))

    def add(self) -> None:
        """A worker more, up to as many as there may be."""
        if len(self.workers) < WORKERS[1]:
            name = f"w{len(self.names)}"
            self.names.append(name)
            self.workers[name] = self.made.worker(name)

    def kill(self) -> None:
        """One is killed, and started again on its folder."""
        name = self.rng.choice(sorted(self.workers))
        self._killed(name)
        self.workers[name] = self.made.worker(name)

    def wipe(self) -> None:
        """One is killed, loses its folder, and is started again."""
        name = self.rng.choice(sorted(self.workers))
        self._killed(name)
        shutil.rmtree(self.made.folder / name, ignore_errors=True)
        self.workers[name] = self.made.worker(name)

    def _killed(self, name: str) -> None:
        self.workers[name].send_signal(signal.SIGKILL)
        self.workers[name].wait()

    def stop(self) -> None:
        """One is asked to stop, and another comes where too few are left."""
        name = self.rng.choice(sorted(self.workers))
        process = self.workers.pop(name)
        process.terminate()
        assert process.wait(60) in ENDED, self.log(name)
        while len(self.workers) < WORKERS[0]:
            self.add()

    def restart_broker(self) -> None:
        """The broker is killed, and comes back a little later."""
        self.broker.kill()
        time.sleep(self.rng.uniform(0.5, 3.0))
        self.broker.start()

    def twice(self) -> None:
        """A sweep is sent once more."""
        name = self.rng.choice(sorted(self.published))
        self.publish(name, self.published[name])

    def step(self, which: str | None = None) -> str:
        """One thing that happens; returns what it was."""
        happens: dict[str, Callable[[], None]] = {
            "kill": self.kill,
            "stop": self.stop,
            "add": self.add,
            "broker": self.restart_broker,
            "wipe": self.wipe,
            "twice": self.twice,
        }
        if which is None:
            # From a shuffled bag, so that each thing happens before another has happened often.
            self.bag = self.bag or self.rng.sample(STEPS, len(STEPS))
            which = self.bag.pop()
        happens[which]()
        self.tend()
        return which

    def tend(self) -> None:
        """Start again what ended with 75, send again what could not be sent."""
        for name, process in list(self.workers.items()):
            if (code := process.poll()) is not None:
                assert code == RESTART or "cannot be reached" in self.log(name), f"{code}: {self.log(name)}"
                self.restarts += 1
                self.workers[name] = self.made.worker(name)
        for sending in list(self.publishing):
            name, path, process = sending
            if (code := process.poll()) is not None:
                self.publishing.remove(sending)
                if code:
                    self.publish(name, path)

    def log(self, name: str) -> str:
        """The end of what a worker said."""
        return (self.made.folder / f"{name}.log").read_text(errors="replace")[-6000:]

    def settle(self) -> None:
        """Wait until all is sent, taken and committed; then have the workers end by themselves."""
        until = time.monotonic() + SETTLED_SECONDS_MAX
        while self.publishing:
            self.tend()
            assert time.monotonic() < until
            time.sleep(0.2)
        for process in self.workers.values():
            process.terminate()
        for name, process in self.workers.items():
            assert process.wait(60) in ENDED, self.log(name)
        self.made.work(*sorted(self.workers))

    def offsets(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Where the group is and where the topics end, by topic."""

        async def ask() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
            settings = load(self.made.config, {"kafka": {"prefix": self.made.prefix}})
            async with ConsumerLag(
                Address(bootstrap=self.made.bootstrap), settings.kafka, PartitionCounts(PARTITIONS, PARTITIONS)
            ) as lag:
                ends = {topic.value: await lag.end_offsets(topic) for topic in CONSUMED}
                found = await lag.committed_offsets()
                there = {topic: [0] * PARTITIONS for topic in ends}
                for place, offset in found.items():
                    name = place.topic.removeprefix(f"{self.made.prefix}-")
                    if name in there:
                        there[name][place.partition] = offset
                return there, ends

        return asyncio.run(ask())

    def clusters(self) -> Clusters:
        """What the workers came to; every partition is sound."""
        there, ends = self.offsets()
        assert there == ends
        held = [name for name in self.names if (self.made.folder / name / "partitions").exists()]
        self.made.check(*held)
        return self.made.clusters(*held)

    def close(self) -> None:
        """End everything."""
        self.made.kill()
        self.broker.kill()


def expected(folder: Path, config: Path, sweeps: dict[str, Path]) -> Clusters:
    """The clusters of the embedded engine."""
    with Store(folder) as store:
        for name, path in sweeps.items():
            ingest(store, load(config), [str(path)], name, now=NOW)
        return clusters_of(View(store))


def run(chaos: Chaos, sweeps: dict[str, Path], steps: Sequence[str | None]) -> Iterator[str]:
    """Publish sweeps with steps in between; yields what happened."""
    waiting = list(sweeps.items())
    for number, which in enumerate(steps):
        while waiting and number >= len(steps) * (len(sweeps) - len(waiting)) // len(sweeps):
            chaos.publish(*waiting.pop(0))
        time.sleep(chaos.rng.uniform(0.5, 3.0))
        yield chaos.step(which)

"""Run the chaos test for SOAK_MINUTES (60) under a steady load, and plot lag and memory: `make soak-kafka`.

LOSTFOUND_CHAOS_SEED selects the faults (`soak_faults`). At the end of each round of ROUND_SECONDS, all answers and rows
must equal those of the embedded engine. The peak memory of the workers and of the broker in the second half may be at
most GROWTH_MAX times that of the first half.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from aiokafka.errors import KafkaError

from streams.kafka.wire.broker import Broker as Address
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.topics import PartitionCounts
from streams.settings import load
from tests.broker.answers import differences
from tests.broker.chaos import PARTITIONS, Chaos, corpus
from tests.broker.soak_faults import SoakChaos

SECONDS_PER_SAMPLE = 2.0
SECONDS_PER_FAULT = (10.0, 40.0)
PAGES_PER_SWEEP = 500
SWEEPS_PER_MINUTE = 4
LAG_MAX = 2_000  # messages; the next sweep waits until the lag is below
ROUND_SECONDS, ROUND_SECONDS_MIN = 300.0, 30.0  # until the answers are compared
GROWTH_MAX, GROWTH_MINUTES_MIN = 1.3, 30.0  # a short run has no steady memory
SAMPLE_EVERY = 8  # of the missing URLs
OUT = Path(__file__).parents[2] / "bench" / "out"
Steps = list[tuple[float, str]]
Rounds = tuple[Steps, int, list[str]]
"""The faults, the number of clusters at the end, and the differences from the embedded engine."""


class Sample(NamedTuple):
    """A measurement: seconds since the start, consumer lag in messages, and resident bytes by process."""

    seconds: float
    lag: int | None
    bytes_by_process: dict[str, int]


class Watcher(threading.Thread):
    """Sample lag and memory until `ended` is set."""

    def __init__(self, chaos: Chaos) -> None:
        super().__init__(daemon=True)
        self.chaos, self.samples, self.ended = chaos, list[Sample](), threading.Event()
        self.started = time.monotonic()

    def run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        collection = self.chaos.collection
        settings = load(collection.config, {"kafka": {"prefix": collection.prefix}}).kafka
        while not self.ended.is_set():
            try:
                async with ConsumerLag(
                    Address(bootstrap=collection.bootstrap), settings, PartitionCounts(PARTITIONS, PARTITIONS)
                ) as lag:
                    while not self.ended.is_set():
                        behind = sum((await asyncio.wait_for(lag.by_topic(), 5.0)).values())
                        # A group coordinator that has just started does not know the committed offsets yet.
                        self._add_sample(behind if await asyncio.wait_for(lag.committed_offsets(), 5.0) else None)
                        await asyncio.sleep(SECONDS_PER_SAMPLE)
            except (KafkaError, OSError, TimeoutError, KeyError):
                self._add_sample(None)  # the broker does not answer
                await asyncio.sleep(SECONDS_PER_SAMPLE)

    def _add_sample(self, lag: int | None) -> None:
        processes = {f"{name}:{process.pid}": process.pid for name, process in list(self.chaos.workers.items())}
        if self.chaos.broker.process is not None:
            processes["broker"] = self.chaos.broker.process.pid
        sizes = {name: size for name, pid in processes.items() if (size := resident(pid)) is not None}
        self.samples.append(Sample(time.monotonic() - self.started, lag, sizes))


def resident(pid: int) -> int | None:
    """Return the resident bytes of a process, or None if it has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def growth(samples: list[Sample]) -> dict[str, float]:
    """Return the peak memory of any worker, and of the broker, in the second half relative to the first half.

    Workers are not compared one by one: an idle worker grows when it takes over partitions from another.
    """
    half = samples[-1].seconds / 2
    peaks: dict[tuple[str, bool], int] = {}
    for sample in samples:
        for name, size in sample.bytes_by_process.items():
            key = ("broker" if name == "broker" else "worker", sample.seconds > half)
            peaks[key] = max(peaks.get(key, 0), size)
    return {kind: peaks[kind, True] / peaks[kind, False] for kind in ("broker", "worker")}


def plot(samples: list[Sample], steps: Steps, path: Path) -> None:
    """Plot the lag above and memory below, with faults as vertical lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(14, 8), sharex=True, constrained_layout=True)
    minutes = [sample.seconds / 60 for sample in samples]
    above.plot(minutes, [float("nan") if s.lag is None else s.lag for s in samples], color="#1f5f99", linewidth=1)
    above.set_ylabel("consumer lag, messages")
    above.set_ylim(bottom=0)
    above.set_title("Steady load with faults of workers, broker, network, clients and other producers")
    for name in dict.fromkeys(name for sample in samples for name in sample.bytes_by_process):
        points = [(s.seconds / 60, s.bytes_by_process[name] / 2**20) for s in samples if name in s.bytes_by_process]
        if name == "broker":
            below.plot(*zip(*points, strict=True), color="#999999", linewidth=1, label="broker")
        else:
            below.plot(*zip(*points, strict=True), linewidth=1)
    below.set_ylabel("resident memory, MiB (one line per process)")
    below.set_xlabel("minutes")
    below.set_ylim(bottom=0)
    below.legend(loc="lower right")
    top = above.get_ylim()[1]
    for seconds, fault in steps:
        for axes in (above, below):
            axes.axvline(seconds / 60, color="#cc7722", linewidth=0.5, alpha=0.6)
        above.text(seconds / 60, top, fault, rotation=90, fontsize=7, va="top", ha="right", color="#884400")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def run_under_load(chaos: SoakChaos, watcher: Watcher, seconds: float, sweeps: Iterator[tuple[str, Path]]) -> Steps:
    """Publish sweeps at a steady rate with faults in between; return the time and name of each fault."""
    steps: Steps = []
    start = next_sweep = time.monotonic()
    next_step = start + chaos.rng.uniform(*SECONDS_PER_FAULT)
    while (now := time.monotonic()) < start + seconds:
        lag = watcher.samples[-1].lag if watcher.samples else None
        if now >= next_sweep and (not chaos.published or (lag is not None and lag < LAG_MAX)):
            chaos.publish(*next(sweeps))
            next_sweep = now + 60 / SWEEPS_PER_MINUTE
        if now >= next_step:
            elapsed = time.monotonic() - watcher.started
            steps.append((elapsed, chaos.step()))
            print(f"{elapsed / 60:6.1f} min  {steps[-1][1]:12} lag {lag}", flush=True)
            next_step = time.monotonic() + chaos.rng.uniform(*SECONDS_PER_FAULT)
        chaos.restart_failed()
        time.sleep(0.5)
    return steps


def run_rounds(chaos: SoakChaos, watcher: Watcher, minutes: float, sweeps: Iterator[tuple[str, Path]]) -> Rounds:
    """Run rounds of faults; at the end of each, compare all answers with those of the embedded engine."""
    steps: Steps = []
    while True:
        left = minutes * 60 - (time.monotonic() - watcher.started)
        steps += run_under_load(chaos, watcher, max(ROUND_SECONDS_MIN, min(left, ROUND_SECONDS)), sweeps)
        chaos.settle()
        expected, actual = chaos.compare(SAMPLE_EVERY)
        report = differences(expected, actual)
        elapsed = (time.monotonic() - watcher.started) / 60
        equal = "DIFFERENT" if report else "equal"
        print(
            f"{elapsed:6.1f} min  {len(actual['clusters'])} clusters, {len(actual['find'])} moves: {equal}",
            flush=True,
        )
        if report or elapsed >= minutes:
            return steps, len(actual["clusters"]), report
        chaos.expire()
        chaos.resume()


def main() -> int:
    minutes = float(os.environ.get("SOAK_MINUTES", "60"))
    seed = int(os.environ.get("LOSTFOUND_CHAOS_SEED", "1"))
    os.environ.setdefault("LOSTFOUND_TOKEN", "soak")  # without a token, workers accept no changes
    # Clients of the broker complain about its restarts, and readers of the sweep log about hostile records.
    logging.disable(logging.ERROR)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sweep_count = int((minutes + ROUND_SECONDS / 60) * SWEEPS_PER_MINUTE) + 4
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sweeps = iter(corpus(folder / "corpus", seed, sweep_count=sweep_count, pages=PAGES_PER_SWEEP).items())
        chaos = SoakChaos(folder, seed)
        try:
            watcher = Watcher(chaos)
            watcher.start()
            steps, clusters, report = run_rounds(chaos, watcher, minutes, sweeps)
            watcher.ended.set()
            watcher.join(30)
            return report_results(chaos, watcher.samples, steps, clusters, report)
        finally:
            chaos.close()


def report_results(chaos: SoakChaos, samples: list[Sample], steps: Steps, clusters: int, report: list[str]) -> int:
    """Print, plot and save the results; return the exit code."""
    plot(samples, steps, OUT / "soak-kafka.png")
    print("\n".join(report))
    growth_by_kind = growth(samples)
    lags = [sample.lag for sample in samples if sample.lag is not None]
    result: dict[str, Any] = {
        "minutes": samples[-1].seconds / 60,
        "sweeps": len(chaos.published),
        "clusters": clusters,
        "same_answers": not report,
        "faults": Counter(name for _, name in steps),
        "restarts_after_75": chaos.restarts,
        "lag_max": max(lags),
        "memory_mib_max": max(max(s.bytes_by_process.values(), default=0) for s in samples) >> 20,
        "growth": {name: round(factor, 3) for name, factor in growth_by_kind.items()},
    }
    (OUT / "soak-kafka.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    is_bounded = all(factor <= GROWTH_MAX for factor in growth_by_kind.values())
    return 0 if not report and (is_bounded or result["minutes"] < GROWTH_MINUTES_MIN) else 1


if __name__ == "__main__":
    sys.exit(main())

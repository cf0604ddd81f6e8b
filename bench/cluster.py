"""A real broker, collections on it, and workers as processes whose CPU seconds are counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.measure import ROOT
from streams import settings as settings_module
from streams.kafka.wire.broker import Broker
from streams.settings import Settings
from tests.broker.running import HOME, START_SECONDS_MAX, free_port
from tests.broker.running import Broker as OwnBroker

WORK_SECONDS_MAX = 7200.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    """What processes took from start to end."""

    seconds: float
    cpu_seconds: float  # of all of them, and of the processes that they started
    broker_cpu_seconds: float = 0.0

    def without(self, other: Usage) -> Usage:
        """What is left when `other` is taken off: the start and the end, which pages have no part in."""
        return Usage(
            max(self.seconds - other.seconds, 1e-3),
            max(self.cpu_seconds - other.cpu_seconds, 1e-3),
            max(self.broker_cpu_seconds - other.broker_cpu_seconds, 0.0),
        )


class Running:
    """A broker at work; `pid` is None for one that was there already."""

    def __init__(self, bootstrap: str, pid: int | None) -> None:
        self.bootstrap, self.pid = bootstrap, pid

    def cpu_seconds(self) -> float:
        """What it has taken so far; 0 for one of another machine."""
        return cpu_seconds(self.pid) if self.pid else 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def broker(folder: Path) -> Iterator[Running]:
    """The broker that KAFKA_BOOTSTRAP names, or one of our own with its data in `folder`.

    Raises RuntimeError where the archives are missing or it does not start.
    """
    if named := os.environ.get("KAFKA_BOOTSTRAP"):
        yield Running(named, None)
        return
    if not (HOME / "libs" / ".complete").exists():
        raise RuntimeError(f"no Kafka archives in {HOME}: `make bench-kafka` fetches them")
    started = OwnBroker(folder / "broker", free_port())
    try:
        started.start()
        assert started.process is not None
        yield Running(started.bootstrap, started.process.pid)
    finally:
        started.kill()


class Collection:
    """Topics of a prefix of their own, and workers on them, each with a folder."""

    def __init__(self, folder: Path, running: Running, partitions: int, kafka: dict[str, Any] | None = None) -> None:
        self.running, self.partitions = running, partitions
        self.prefix = f"bench-{uuid.uuid4().hex[:8]}"
        self.folder = folder / self.prefix
        self.folder.mkdir()
        self.config = self.folder / "lostfound.toml"
        self.config.write_text("[kafka]\n" + "".join(f"{name} = {value}\n" for name, value in (kafka or {}).items()))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.url = ""  # of the worker that was the last to serve
        self.command("topics", "create", "--partitions", partitions)

    @property
    def settings(self) -> Settings:
        return settings_module.load(self.config, {"kafka": {"prefix": self.prefix}})

    @property
    def broker(self) -> Broker:
        return Broker(bootstrap=self.running.bootstrap)

    def command(self, *arguments: object) -> None:
        """Run `lostfound` to its end; raises RuntimeError with what it said when it fails."""
        said(self.line(*arguments))

    def publish(self, paths: Sequence[Path]) -> None:
        """Send crawl files, each as a sweep that is left open."""
        for path in paths:
            self.command("publish", path, "--sweep", path.name, "--keep-open")

    def worker(self, name: str, *more: object) -> subprocess.Popen[bytes]:
        """Start a worker."""
        with (self.folder / f"{name}.log").open("ab") as log:
            line = self.line("worker", "--data-dir", self.folder / name, *more)
            self.processes.append(subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log))
        return self.processes[-1]

    def serving(self, name: str, *more: object) -> subprocess.Popen[bytes]:
        """Start a worker that goes on, and return once it is ready."""
        port = free_port()
        process = self.worker(name, "--port", port, *more)
        until = time.monotonic() + START_SECONDS_MAX
        while process.poll() is None and time.monotonic() < until:
            self.url = f"http://127.0.0.1:{port}"
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return process
            time.sleep(0.1)
        raise RuntimeError(f"worker {name} is not ready:\n{self._log(name)}")

    def work(self, *names: str) -> Usage:
        """Let workers take everything there is."""
        started, before = time.perf_counter(), self.running.cpu_seconds()
        processes = {name: self.worker(name, "--port", 0, "--until-idle") for name in names}
        cpu = 0.0
        for name, process in processes.items():
            code, used = ended(process)
            cpu += used
            if code:
                raise RuntimeError(f"worker {name} ended with {code}:\n{self._log(name)}")
        return Usage(time.perf_counter() - started, cpu, self.running.cpu_seconds() - before)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def line(self, *arguments: object) -> list[str]:
        """The command line of `lostfound` on this collection."""
        common = ["--bootstrap", self.running.bootstrap, "--prefix", self.prefix, "--config", self.config]
        return lostfound(*arguments, *common)

    def close(self) -> None:
        """End what still runs."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


@contextmanager
def collection(
    folder: Path, running: Running, partitions: int, kafka: dict[str, Any] | None = None
) -> Iterator[Collection]:
    """A collection whose workers are ended afterwards."""
    made = Collection(folder, running, partitions, kafka)
    try:
        yield made
    finally:
        made.close()


def lostfound(*arguments: object) -> list[str]:
    """The command line of `lostfound`."""
    return [sys.executable, "-c", "from streams.cli import main; main()", *map(str, arguments)]


def said(line: Sequence[str]) -> str:
    """Run a command to its end and return its stdout; raises RuntimeError with what it said when it fails."""
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{line} failed:\n{done.stdout}{done.stderr[-2000:]}")
    return done.stdout


def ended(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait for a process; its exit code, and the CPU seconds that it and the processes it waited for took."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime

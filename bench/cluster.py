"""Start a real broker, collections on it, and workers, and measure their CPU seconds."""

from __future__ import annotations

import json
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
from tests.broker.running import Broker as LocalBroker

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    """The resources that processes used between start and exit."""

    seconds: float
    cpu_seconds: float  # including child processes
    broker_cpu_seconds: float = 0.0

    def without(self, other: Usage) -> Usage:
        """Subtract `other`, such as the cost of starting and stopping, which does not depend on the pages."""
        return Usage(
            max(self.seconds - other.seconds, 1e-3),
            max(self.cpu_seconds - other.cpu_seconds, 1e-3),
            max(self.broker_cpu_seconds - other.broker_cpu_seconds, 0.0),
        )


class RunningBroker:
    """A running broker; `pid` and `data`, its folder, are None if the benchmark did not start it."""

    def __init__(self, bootstrap: str, pid: int | None, data: Path | None) -> None:
        self.bootstrap, self.pid, self.data = bootstrap, pid, data

    def cpu_seconds(self) -> float:
        """Return the CPU seconds used so far, or 0 if the benchmark did not start the broker."""
        return cpu_seconds(self.pid) if self.pid else 0.0


def cpu_seconds(pid: int) -> float:
    """Return the user and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def broker(folder: Path) -> Iterator[RunningBroker]:
    """Yield the broker that KAFKA_BOOTSTRAP names, or start one with its data in `folder`.

    Raise RuntimeError if the archives are missing or the broker does not start.
    """
    if bootstrap := os.environ.get("KAFKA_BOOTSTRAP"):
        yield RunningBroker(bootstrap, None, None)
        return
    if not (HOME / "libs" / ".complete").exists():
        raise RuntimeError(f"no Kafka archives in {HOME}: `make bench-kafka` fetches them")
    started = LocalBroker(folder / "broker", free_port())
    try:
        started.start()
        assert started.process is not None
        yield RunningBroker(started.bootstrap, started.process.pid, started.folder / "data")
    finally:
        started.kill()


class Collection:
    """A collection with a unique prefix. Each of its workers has its own folder."""

    def __init__(
        self, folder: Path, running: RunningBroker, partitions: int, kafka_settings: dict[str, Any] | None = None
    ) -> None:
        self.running, self.partitions = running, partitions
        self.prefix = f"bench-{uuid.uuid4().hex[:8]}"
        self.folder = folder / self.prefix
        self.folder.mkdir()
        self.config = self.folder / "lostfound.toml"
        self.config.write_text(
            "[kafka]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in (kafka_settings or {}).items())
        )
        self.processes: list[subprocess.Popen[bytes]] = []
        self.url = ""  # URL of the last worker that became ready
        self.run("topics", "create", "--partitions", partitions)

    @property
    def settings(self) -> Settings:
        return settings_module.load(self.config, {"kafka": {"prefix": self.prefix}})

    @property
    def broker(self) -> Broker:
        return Broker(bootstrap=self.running.bootstrap)

    def run(self, *arguments: object) -> None:
        """Run a `lostfound` command. Raise RuntimeError with its output if it fails."""
        output_of(self.command_line(*arguments))

    def publish(self, paths: Sequence[Path]) -> None:
        """Publish crawl files, each as a sweep that stays open."""
        for path in paths:
            self.run("publish", path, "--sweep", path.name, "--keep-open")

    def start_worker(self, name: str, *options: object) -> subprocess.Popen[bytes]:
        """Start a worker, and return its process."""
        with (self.folder / f"{name}.log").open("ab") as log:
            command_line = self.command_line("worker", "--data-dir", self.folder / name, *options)
            self.processes.append(subprocess.Popen(command_line, cwd=ROOT, stdout=log, stderr=log))
        return self.processes[-1]

    def start_ready_worker(self, name: str, *options: object) -> subprocess.Popen[bytes]:
        """Start a worker that keeps running, and wait until it is ready. Raise RuntimeError if it never is."""
        port = free_port()
        process = self.start_worker(name, "--port", port, *options)
        until = time.monotonic() + START_SECONDS_MAX
        while process.poll() is None and time.monotonic() < until:
            self.url = f"http://127.0.0.1:{port}"
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as response:
                if response.status == 200:
                    return process
            time.sleep(0.1)
        raise RuntimeError(f"worker {name} is not ready:\n{self._log(name)}")

    def run_until_idle(self, *names: str) -> Usage:
        """Run workers until all pages are processed. Return the resources that they used."""
        started, before = time.perf_counter(), self.running.cpu_seconds()
        processes = {name: self.start_worker(name, "--port", 0, "--until-idle") for name in names}
        cpu = 0.0
        for name, process in processes.items():
            code, cpu_used = wait_for(process)
            cpu += cpu_used
            if code:
                raise RuntimeError(f"worker {name} ended with {code}:\n{self._log(name)}")
        return Usage(time.perf_counter() - started, cpu, self.running.cpu_seconds() - before)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def command_line(self, *arguments: object) -> list[str]:
        """Return the command line of a `lostfound` command on this collection."""
        common = ["--bootstrap", self.running.bootstrap, "--prefix", self.prefix, "--config", self.config]
        return lostfound_command(*arguments, *common)

    def close(self) -> None:
        """Kill the remaining processes."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


@contextmanager
def new_collection(
    folder: Path, running: RunningBroker, partitions: int, kafka_settings: dict[str, Any] | None = None
) -> Iterator[Collection]:
    """Yield a new collection and stop its workers afterwards."""
    collection = Collection(folder, running, partitions, kafka_settings)
    try:
        yield collection
    finally:
        collection.close()


def lostfound_command(*arguments: object) -> list[str]:
    """Return the command line of a `lostfound` command."""
    return [sys.executable, "-c", "from streams.cli import main; main()", *map(str, arguments)]


def output_of(command_line: Sequence[str]) -> str:
    """Run a command and return its stdout. Raise RuntimeError with its output if it fails."""
    completed = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise RuntimeError(f"{command_line} failed:\n{completed.stdout}{completed.stderr[-2000:]}")
    return completed.stdout


def wait_for(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait for a process. Return its exit code and its CPU seconds, including its child processes."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime

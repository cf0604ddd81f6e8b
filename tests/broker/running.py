"""Run a real broker, and `lostfound` in child processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from state import meta
from state.check import check
from state.families import Family
from state.scheme import Scheme
from state.store import Store
from state.view import View
from streams import query
from streams.kafka.rows.row_query import run_query
from streams.kafka.rows.sharded_store import ShardedStore
from streams.kafka.rows.worker_client import url_for
from streams.operators.routing import partition_of
from streams.settings import load

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docker" / "broker" / "broker.sh"
HOME = ROOT / "var" / "broker"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a start takes half the CPU time
START_SECONDS_MAX = 90.0
WORK_SECONDS_MAX = 150.0
# Sessions are short, so that the partitions of a killed worker move within a test.
CONFIG = """
[kafka]
session_seconds = 6.0
commit_seconds = 0.3
take_pages = {take_pages}
answer_seconds_max = {answer_seconds_max}
"""
# The engines give the same answers only if no limit is reached: limits make the order of messages matter.
UNLIMITED = """
[limits]
candidates_max = 1000
bucket_postings_max = 1000
"""
Clusters = list[tuple[tuple[str, ...], tuple[str, ...]]]


def free_port() -> int:
    """Return a free port whose successor is free too."""
    while True:
        with closing(socket.socket()) as first, closing(socket.socket()) as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def sharded_store(folders: Mapping[int, Store], scheme: Scheme, sweeps: Mapping[bytes, bytes]) -> ShardedStore:
    """Return a view of all partitions, which are open in this process."""
    workers = dict.fromkeys(folders, partial(run_query, folders))
    return ShardedStore("partitions", scheme, workers, partition_count=len(folders), read_sweep_rows=lambda: sweeps)


class Broker:
    """A broker whose folder and port stay the same through kills and restarts."""

    def __init__(self, folder: Path, port: int, *more: object) -> None:
        """`more` are further arguments of the script."""
        self.folder, self.port, self.more = folder, port, more
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker, and return when it listens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            command = [
                str(argument) for argument in (SCRIPT, "run", HOME, self.folder / "data", self.port, *self.more)
            ]
            environment = {**os.environ, "BROKER_JAVA_OPTIONS": JAVA_OPTIONS}
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            log_end = (self.folder / "log").read_text()[-4000:]
            assert self.process.poll() is None, log_end
            assert time.monotonic() < deadline, log_end
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def kill(self) -> None:
        """End the broker with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def require_archives() -> None:
    """Skip the test without a broker; fail in CI, which must have one."""
    if not (HOME / "libs" / ".complete").exists():
        assert not os.environ.get("CI"), "CI must have the real broker: `make test` fetches its archives"
        pytest.skip("no Kafka archives in var/broker: `make test` fetches them")


@contextmanager
def running_broker(folder: Path, port: int, *more: object) -> Iterator[str]:
    """Run a broker for the duration of the context."""
    require_archives()
    broker = Broker(folder, port, *more)
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.kill()


class Collection:
    """One collection on the broker: topics with their own prefix, workers, and their results."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        partitions: int,
        take_pages: int = 256,
        answer_seconds_max: float = 2.0,
        *,
        limits: bool = False,
    ) -> None:
        self.folder, self.bootstrap, self.partitions = folder, bootstrap, partitions
        self.prefix = f"t{uuid.uuid4().hex[:10]}"
        self.config = folder / f"{self.prefix}.toml"
        text = CONFIG.format(take_pages=take_pages, answer_seconds_max=answer_seconds_max)
        self.config.write_text(text + ("" if limits else UNLIMITED))
        self.running: list[subprocess.Popen[bytes]] = []
        self("topics", "create", "--partitions", partitions)

    def share_snapshots(self, records: int) -> Path:
        """Make all workers take a snapshot after this number of records, in a shared folder, and return the folder."""
        folder = self.folder / "shared"
        folder.mkdir()
        settings = f'\n[kafka]\nsnapshot_folder = "{folder}"\nsnapshot_records = {records}\n'
        self.config.write_text(self.config.read_text().replace("\n[kafka]\n", settings))
        return folder

    def __call__(self, *arguments: object, code: int = 0) -> str:
        """Run a command on the broker, and return its output."""
        process = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=WORK_SECONDS_MAX, check=False, cwd=ROOT
        )
        assert process.returncode == code, process.stdout + process.stderr
        return process.stdout + (process.stderr if code else "")

    def run(self, *arguments: object, code: int = 0) -> str:
        """Run a command without a broker, and return its output."""
        main = "from streams.cli import main; main()"
        command = [sys.executable, "-c", main, *map(str, arguments), "--config", str(self.config)]
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=WORK_SECONDS_MAX, check=False, cwd=ROOT
        )
        assert process.returncode == code, process.stdout + process.stderr
        return process.stdout + (process.stderr if code else "")

    def run_until_success(self, *arguments: object) -> str:
        """Repeat a command until it succeeds: it fails during a rebalance."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                return self.run(*arguments)
            except AssertionError:
                assert time.monotonic() < deadline
                time.sleep(0.3)

    def serve(self, name: str) -> str:
        """Start a worker that keeps running, and return its URL when it is ready."""
        return self.serve_all([name])[0]

    def serve_all(self, names: Sequence[str], host: str = "127.0.0.1") -> list[str]:
        """Start workers that keep running, and return their URLs when all are ready."""
        ports = [free_port() for _ in names]
        names_and_ports = zip(names, ports, strict=True)
        processes = [self.worker(name, "--host", host, "--port", port) for name, port in names_and_ports]
        urls = [url_for(host, port) for port in ports]
        for name, process, url in zip(names, processes, urls, strict=True):
            self._wait_until_ready(name, process, url)
        return urls

    def _wait_until_ready(self, name: str, process: subprocess.Popen[bytes], url: str) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            assert process.poll() is None, (self.folder / f"{name}.log").read_text()[-4000:]
            assert time.monotonic() < deadline, (self.folder / f"{name}.log").read_text()[-4000:]
            with suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=2) as response:
                if response.status == 200:
                    return
            time.sleep(0.2)

    def wait_until_committed(self, url: str, sweep_count: int) -> None:
        """Wait until all workers answer and this many sweeps are committed."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            rows = [
                json.loads(line)
                for line in self.run_until_success("sweep", "list", "--json", "--server", url).splitlines()
            ]
            if len(rows) == sweep_count and all(row["state"] == "committed" for row in rows):
                return
            assert time.monotonic() < deadline, rows
            time.sleep(0.3)

    def command(self, *arguments: object) -> list[str]:
        """Return a command line with this collection's broker and prefix."""
        common = ["--bootstrap", self.bootstrap, "--prefix", self.prefix, "--config", self.config]
        main = "from streams.cli import main; main()"
        return [sys.executable, "-c", main, *map(str, (*arguments, *common))]

    def worker(self, name: str, *more: object) -> subprocess.Popen[bytes]:
        """Start a worker with its own folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self.command("worker", "-vv", "--data-dir", self.folder / name, "--port", 0, *more),
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )
        self.running.append(process)
        return process

    def run_workers(self, *names: str) -> None:
        """Run workers until no messages are left; assert that they exit with 0."""
        processes = {name: self.worker(name, "--until-idle") for name in names}
        for name, process in processes.items():
            code = process.wait(WORK_SECONDS_MAX)
            assert code == 0, (self.folder / f"{name}.log").read_text()[-4000:]

    def clusters(self, *names: str) -> Clusters:
        """Return the clusters of all partitions; see `folders`."""
        with self.folders(*names) as stores:
            return clusters_of(View(sharded_store(stores, load().scheme, {})))

    @contextmanager
    def folders(self, *names: str) -> Iterator[dict[int, Store]]:
        """Open the newest copy of each partition among these workers; none of them may be running."""
        with ExitStack() as stack:
            stores: dict[int, Store] = {}
            for name in names:
                for path in sorted((self.folder / name / "partitions").glob("*")):
                    store = stack.enter_context(Store(path, writable=False))
                    newest = stores.get(int(path.name))
                    if newest is None or _offset(newest) < _offset(store):
                        stores[int(path.name)] = store
            assert sorted(stores) == list(range(self.partitions))
            yield stores

    def check(self, *names: str) -> None:
        """Assert that the newest copy of every partition is consistent; older copies need not be."""
        with self.folders(*names) as stores:
            for number, store in stores.items():
                assert meta.partition(store) == (number, self.partitions)
                owns = partial(_is_owner, number, self.partitions)
                assert list(check(store, postings_max=load(self.config).limits.bucket_postings_max, owns=owns)) == []
            last = stores[self.partitions - 1].path
        self.run("state", "check", "--data-dir", last)

    def stop(self) -> None:
        """Stop all workers with SIGTERM, and assert that they exit with 0 or were killed before."""
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            assert process.wait(WORK_SECONDS_MAX) in (0, -signal.SIGKILL)

    def kill(self) -> None:
        """Kill the processes that are still running."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def _is_owner(number: int, count: int, key: bytes) -> bool:
    return partition_of(key, count) == number


def _offset(store: Store) -> bytes:
    return store.get(Family.META, b"changelog") or b""


def clusters_of(view: View) -> Clusters:
    clusters = query.clusters(view, min_size=1)
    return sorted((tuple(sorted(cluster.documents)), tuple(cluster.urls)) for cluster in clusters)

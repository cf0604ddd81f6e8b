"""Test workers that do not notice what happens: cut off from the broker or from the sweep log, or stopped in a batch."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from state.families import Family
from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.kafka.rows.worker_client import WorkerClient, token_from_environment
from streams.settings import load
from tests.broker.answers import answers, differences
from tests.broker.chaos import corpus
from tests.broker.proxy import Proxy, write_properties
from tests.broker.running import Collection, free_port, require_archives, running_broker, sharded_store
from tests.broker.test_same import settle

PARTITIONS = 4
SECONDS_MAX = 120.0
RESTART = 75


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[Collection, Proxy]]:
    """A collection on a broker of its own, and a proxy in front of the broker."""
    require_archives()
    port, proxied_port = free_port(), free_port()
    proxy = Proxy(proxied_port)
    properties = write_properties(tmp_path / "broker.properties", port, proxied_port, proxy)
    with running_broker(tmp_path / "broker", port, properties) as bootstrap:
        # A worker that cannot read the sweep log waits for this long before it refuses to answer.
        collection = Collection(tmp_path, bootstrap, PARTITIONS, take_pages=8, answer_seconds_max=8.0)
        try:
            yield collection, proxy
        finally:
            collection.kill()
            proxy.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def active_partitions(url: str) -> int:
    """Return the number of partitions that a worker owns, or -1 if it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as response:
            lines = response.read().decode().splitlines()
    except OSError:
        return -1
    name = 'lostfound_partitions{role="active"} '
    return int(float(next((line for line in lines if line.startswith(name)), name + "-1").removeprefix(name)))


def status_of(url: str) -> int:
    """Return the HTTP status of a worker's readiness."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def assert_equals_embedded(collection: Collection, sweeps: dict[str, Path], url: str, *names: str) -> None:
    """Stop the workers. Assert that all answers of their partitions are those of the embedded engine."""
    rows = dict(WorkerClient(url, 60.0, token_from_environment()).store().scan(Family.SWEEPS, b"s"))
    for process in collection.running:
        process.terminate()
    for process in collection.running:
        assert process.wait(SECONDS_MAX) in (0, RESTART), "a former owner may end with an error, to be restarted"
    collection.check(*names)
    settings = load(collection.config)
    with Store(collection.folder / "embedded") as store:
        for name, path in sweeps.items():
            ingest(store, settings, [str(path)], name, now=1_000)
        expected = answers(View(store), settings)
    with collection.folders(*names) as stores:
        actual = answers(View(sharded_store(stores, settings.scheme, rows)), settings)
    actual["sweeps"] = actual["sweeps"][: len(sweeps)]  # without cancelled sweeps
    assert not (report := differences(expected, actual)), "\n".join(report)


def test_a_worker_without_contact_to_the_broker_stops_answering(
    proxied: tuple[Collection, Proxy], tmp_path: Path
) -> None:
    collection, proxy = proxied
    sweeps = corpus(tmp_path / "corpus", 3, sweep_count=3, pages=60)
    publish = partial(collection, "publish")
    (url,) = collection.serve_all(["connected"])
    direct, collection.bootstrap = collection.bootstrap, f"127.0.0.1:{proxy.port}"
    (cut_url,) = collection.serve_all(["cut"])
    cut_process, collection.bootstrap = collection.running[-1], direct
    wait_for(lambda: active_partitions(cut_url) > 0)
    publish(sweeps["s0"], "--sweep", "s0")
    settle(url, 1)
    collection.run("clusters", "--server", cut_url)

    proxy.cut()
    wait_for(lambda: active_partitions(url) == PARTITIONS and status_of(url) == 200)
    assert active_partitions(cut_url) > 0, "the worker has not noticed that it lost its partitions"
    publish(sweeps["s1"], "--sweep", "s1")
    settle(url, 2)
    assert status_of(cut_url) == 503
    assert "does not confirm that this worker is a member" in collection.run("clusters", "--server", cut_url, code=4)

    proxy.heal()
    publish(sweeps["s2"], "--sweep", "s2")
    settle(url, 3)
    if cut_process.poll() is not None:
        assert cut_process.returncode == RESTART
    else:
        wait_for(lambda: status_of(cut_url) == 200 or cut_process.poll() == RESTART)
    assert_equals_embedded(collection, sweeps, url, "connected", "cut")


@pytest.mark.long
def test_a_worker_that_reads_the_sweep_log_late_gives_no_old_answers(
    proxied: tuple[Collection, Proxy], tmp_path: Path
) -> None:
    """Its partitions are current, and it is ready, but one of its connections to the broker is lost."""
    collection, proxy = proxied
    sweeps = corpus(tmp_path / "corpus", 4, sweep_count=3, pages=40)
    direct, collection.bootstrap = collection.bootstrap, f"127.0.0.1:{proxy.port}"
    (late_url,) = collection.serve_all(["late"])
    collection.bootstrap = direct
    (url,) = collection.serve_all(["other"])
    wait_for(lambda: active_partitions(url) > 0 and status_of(late_url) == 200)

    def sweep_states() -> list[str]:
        lines = collection.run_until_success("sweep", "list", "--json", "--server", url).splitlines()
        return [json.loads(line)["state"] for line in lines]

    collection("publish", sweeps["s0"], "--sweep", "s0")
    collection("publish", sweeps["s1"], "--sweep", "s1", "--keep-open")
    collection("publish", sweeps["s2"], "--sweep", "s2")
    wait_for(lambda: sweep_states() == ["committed", "open", "committed"])  # all pages are processed
    assert "sweep committed" in (collection.folder / "other.log").read_text(), "only the other worker commits sweeps"

    proxy.lose_fetches(f"{collection.prefix}-sweeps")
    collection.run("sweep", "commit", "s1", "--server", url)
    wait_for(lambda: sweep_states() == ["committed"] * 3)
    assert status_of(late_url) == 200
    assert "could not read the sweep log" in collection.run("find", "--missing", "--server", late_url, code=4)
    proxy.lose_fetches(None)
    expected = collection.run("find", "--missing", "--json", "--server", url)
    assert expected
    assert collection.run_until_success("find", "--missing", "--json", "--server", late_url) == expected


def test_a_worker_that_is_stopped_while_a_sweep_is_cancelled_brings_nothing_back(
    make_collection: Callable[..., Any], tmp_path: Path
) -> None:
    collection: Collection = make_collection(PARTITIONS, take_pages=2, answer_seconds_max=20.0)
    sweeps = corpus(tmp_path / "corpus", 5, sweep_count=2, pages=150)
    url, stopped_url = collection.serve_all(["other", "stopped"])
    stopped = collection.running[-1]
    wait_for(lambda: active_partitions(stopped_url) > 0)
    collection("publish", sweeps["s0"], "--sweep", "s0")
    settle(url, 1)
    publish = subprocess.Popen(collection.command("publish", sweeps["s1"], "--sweep", "s1"))
    time.sleep(random.Random(5).uniform(3.0, 4.0))
    stopped.send_signal(signal.SIGSTOP)
    assert publish.wait(SECONDS_MAX) == 0
    wait_for(lambda: active_partitions(url) == PARTITIONS and status_of(url) == 200)
    collection.run_until_success("sweep", "cancel", "s1", "--server", url)

    stopped.send_signal(signal.SIGCONT)
    wait_for(lambda: stopped.poll() == RESTART or active_partitions(stopped_url) > 0)
    wait_for(lambda: status_of(url) == 200)
    assert_equals_embedded(collection, {"s0": sweeps["s0"]}, url, "other", "stopped")

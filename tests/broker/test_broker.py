"""Test the real broker: it starts without Docker, answers, and keeps acknowledged messages through a SIGKILL."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docker" / "broker" / "broker.sh"
HOME = ROOT / "var" / "broker"
START_SECONDS_MAX = 90.0

# `make test` fetches the archives. Without them these tests are skipped, but fail in CI.
needs_archives = pytest.mark.skipif(
    not (HOME / "libs" / ".complete").exists() and not os.environ.get("CI"),
    reason="no Kafka archives in var/broker: `make test` fetches them",
)


def free_ports() -> int:
    """Return a free port whose successor is free too."""
    while True:
        with closing(socket.socket()) as first, closing(socket.socket()) as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[bytes], str]]]:
    """Start the broker; every call uses the same data directory and port."""
    port = free_ports()
    running: list[subprocess.Popen[bytes]] = []

    def starter() -> tuple[subprocess.Popen[bytes], str]:
        log = (tmp_path / "broker.log").open("ab")
        process = subprocess.Popen(
            [SCRIPT, "run", HOME, tmp_path / "data", str(port)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        log.close()
        running.append(process)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            assert process.poll() is None, (tmp_path / "broker.log").read_text()
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return process, f"127.0.0.1:{port}"
            time.sleep(0.1)
        raise AssertionError((tmp_path / "broker.log").read_text())

    yield starter
    for process in running:
        process.kill()
        process.wait()


async def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value, partition=1)
    finally:
        await producer.stop()


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 1)])
        return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(count)]
    finally:
        await consumer.stop()


async def create(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        configs = {"max.message.bytes": str(8 << 20)}
        await admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1, topic_configs=configs)])
    finally:
        await admin.close()


@needs_archives
def test_acknowledged_messages_survive_a_kill(
    start: Callable[[], tuple[subprocess.Popen[bytes], str]],
) -> None:
    values = [b"page %d" % number for number in range(50)]
    process, bootstrap = start()
    asyncio.run(create(bootstrap, "pages"))
    asyncio.run(send(bootstrap, "pages", values))
    assert asyncio.run(read(bootstrap, "pages", 50)) == values

    process.send_signal(signal.SIGKILL)
    process.wait()
    _, bootstrap = start()
    assert asyncio.run(read(bootstrap, "pages", 50)) == values


@pytest.mark.parametrize("arguments", [[], ["start"], ["run", "home"]])
def test_wrong_arguments_print_the_usage(arguments: list[str]) -> None:
    process = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "broker.sh run HOME DATA PORT" in process.stderr


def test_missing_archives_are_reported_with_the_command_to_fetch_them(tmp_path: Path) -> None:
    process = subprocess.run(
        [SCRIPT, "run", tmp_path, tmp_path / "data", "1"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert f"broker.sh fetch {tmp_path}" in process.stderr


def test_the_script_is_executable() -> None:
    assert shutil.which(SCRIPT)

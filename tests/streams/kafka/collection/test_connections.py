"""Slow connections and large answers exhaust neither the open files nor the memory of a worker."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import msgspec
import pytest

from state.changes import Changes
from state.errors import StateError
from state.families import Family
from streams.kafka.rows.row_query import GetQuery, PrefixQuery
from tests.streams.kafka.worker_servers import WorkerServer, wait_until, worker_servers

ROOT = Path(__file__).parents[4]
SLOW_CLIENTS = 64
HEADERS = b"POST /rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


def changes(rows: int, value_bytes: int) -> Changes:
    """Rows of both workers."""
    rng, texts = Random(1), Changes()
    for _ in range(rows):
        texts.put(Family.TEXTS, rng.randbytes(16), rng.randbytes(value_bytes))
    return texts


@contextmanager
def connections(worker: WorkerServer, count: int, sent: bytes) -> Iterator[Sequence[socket.socket]]:
    """Open connections that each send the first bytes of a request."""
    address = urlsplit(worker.url)
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=15))
            connection.sendall(sent)
            opened.append(connection)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    """Return whether the worker has closed a connection, without waiting."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_more_connections_than_the_limit_do_not_keep_others_out(tmp_path: Path) -> None:
    with worker_servers(tmp_path, changes(50, 10), connections_max=16) as workers:
        worker, other_worker = workers
        rows = list(other_worker.client().store().scan(Family.TEXTS))
        with connections(worker, SLOW_CLIENTS, b"POST /rows HTTP/1.1\r\n") as slow:
            assert list(worker.client().store().scan(Family.TEXTS)) == rows
            assert list(other_worker.client().store().scan(Family.TEXTS)) == rows
            assert worker.metric("connections") <= 16
            assert worker.metric('connections_closed_total{limit="limit"}') >= SLOW_CLIENTS - 16
            assert sum(map(is_closed, slow)) >= SLOW_CLIENTS - 16


@pytest.mark.parametrize("sent", [b"", b"POST /rows HTTP/1.1\r\nHost: loc"])
def test_connections_without_a_request_are_closed_in_time(tmp_path: Path, sent: bytes) -> None:
    with worker_servers(tmp_path, header_seconds_max=0.5) as (worker, _), connections(worker, 10, sent) as slow:
        wait_until(lambda: all(map(is_closed, slow)))
        assert worker.metric('connections_closed_total{limit="header_seconds"}') == 10


def test_a_client_reconnects_after_its_connection_was_idle(tmp_path: Path) -> None:
    with worker_servers(tmp_path, changes(5, 10), header_seconds_max=0.5) as (worker, _):
        store = worker.client().store()
        rows = list(store.scan(Family.TEXTS))
        wait_until(lambda: worker.open_connections() == 0)
        assert list(store.scan(Family.TEXTS)) == rows
        assert worker.metric('connections_closed_total{limit="header_seconds"}') == 0


def test_a_body_must_arrive_in_time(tmp_path: Path) -> None:
    with worker_servers(tmp_path, body_seconds_max=0.5) as (worker, _):
        with connections(worker, 3, HEADERS % 100 + b"the beginning of a body") as slow:
            wait_until(lambda: worker.metric('requests{kind="client"}') == 3)
            assert all(connection.recv(1000).startswith(b"HTTP/1.1 408 ") for connection in slow)
        assert worker.metric('connections_closed_total{limit="body_seconds"}') == 3
        assert worker.metric('requests{kind="client"}') == 0


def test_a_client_that_does_not_read_its_answer_is_disconnected(tmp_path: Path) -> None:
    limits = {"answer_bytes_max": 32 << 20, "send_seconds_max": 0.5}
    with worker_servers(tmp_path, changes(200, 100_000), **limits) as (worker, _):
        query = PrefixQuery(family=Family.TEXTS, keys=[b""], bytes_max=32 << 20)
        body = msgspec.msgpack.encode(query)
        with connections(worker, 2, HEADERS % len(body) + body):
            wait_until(lambda: worker.metric('connections_closed_total{limit="send_seconds"}') == 2)
        assert worker.metric('requests{kind="client"}') == 0


CLIENTS_OF_ALL_ROWS = """
import sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from state.errors import StateError
from state.families import Family
from streams.kafka.rows.row_query import GetQuery, PrefixQuery
from tests.streams.kafka.collection.test_connections import changes
from tests.streams.kafka.worker_servers import worker_servers

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])

with tempfile.TemporaryDirectory() as folder, worker_servers(Path(folder), changes(20_000, 1000)) as workers:
    def query(number):
        body = msgspec.msgpack.encode(PrefixQuery(family=Family.TEXTS, keys=[b""] * 20))
        for _ in range(2):
            workers[number % 2].client().post("/rows", body, msgspec.Raw)
    before = peak()
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(query, range(16)))
    partial = sum(worker.metric("answers_partial_total") for worker in workers)
    print((peak() - before) >> 10, int(partial))
"""


def test_concurrent_requests_for_all_rows_need_little_memory() -> None:
    """A request for all rows of 20 prefixes used to be answered as a whole, in this case with 400 MB."""
    process = subprocess.run(
        [sys.executable, "-c", CLIENTS_OF_ALL_ROWS], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    mebibytes, partial_answers = map(int, process.stdout.split())
    assert mebibytes < 100
    assert partial_answers >= 32


def test_a_long_list_of_keys_is_sent_in_several_queries(tmp_path: Path) -> None:
    texts = changes(60_000, 1)
    with worker_servers(tmp_path, texts) as (worker, _):
        expected = texts.puts_of(Family.TEXTS)
        assert worker.client().store().get_many(Family.TEXTS, list(expected)) == list(expected.values())
        body = msgspec.msgpack.encode(GetQuery(family=Family.TEXTS, keys=list(expected)))
        with pytest.raises(StateError, match="413"):
            worker.client().post("/rows", body, None)


def test_a_store_reads_all_rows_in_several_answers(tmp_path: Path) -> None:
    texts = changes(300, 1000)
    with worker_servers(tmp_path, texts, answer_bytes_max=20_000) as (worker, _):
        store, expected = worker.client().store(), texts.puts_of(Family.TEXTS)
        keys = sorted(expected)
        assert dict(store.scan(Family.TEXTS)) == expected
        assert store.get_many(Family.TEXTS, keys) == [expected[key] for key in keys]
        assert store.rows_under(Family.TEXTS, [b"", keys[0]]) == [
            sorted(expected.items()),
            [(keys[0], expected[keys[0]])],
        ]
        assert worker.metric("answers_partial_total") > 3 * 300 * 1000 / 20_000 / 2

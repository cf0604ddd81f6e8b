"""Test the worker's HTTP server: authorization, error responses and cancelling a sweep."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from state.check import check
from state.families import Family
from state.stats import stats
from streams.errors import InputError
from streams.kafka.collection import http_server
from streams.kafka.collection.http_server import Server, listen
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.sweep_log import Event
from streams.kafka.worker.metrics import Metrics
from streams.settings import load
from tests.streams.kafka.collection_fixture import Collection
from tests.streams.kafka.worker_fixture import FakeSweepLog


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [(b"x" * 100, 413, "exceed"), (b"{", 400, "same version of lostfound"), (b"{}", 200, "")],
)
def test_responses_pass_and_errors_become_responses(sent: bytes, status: int, message: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        msgspec.json.decode(await request.read())
        return web.Response()

    async def ask() -> tuple[int, str]:
        site = web.Application(client_max_size=50)
        site.router.add_post("/", http_server._with_error_responses(handler))
        async with TestClient(TestServer(site)) as client, client.post("/", data=sent) as answer:
            return answer.status, await answer.text()

    actual, text = asyncio.run(ask())
    assert actual == status
    assert message in text


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ({}, "", 200), ({"Host": "localhost:1"}, "", 200), ({"Host": "[::1]:1"}, "", 200),
        ({"Host": "evil.example"}, "", 401), ({"Host": "evil.example:80"}, "", 401), ({"Host": "[x"}, "", 401),
        ({"Origin": "http://evil.example"}, "", 401), ({"Host": "evil.example"}, "t", 401),
        ({"Host": "a.example", "Authorization": "Bearer t"}, "t", 200),
    ],
)  # fmt: skip
def test_without_a_token_only_local_requests_are_answered(headers: dict[str, str], token: str, status: int) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response()

    async def ask() -> int:
        site = web.Application()
        site.router.add_post("/", http_server._with_authorization(handler, token))
        async with TestClient(TestServer(site)) as client, client.post("/", headers=headers) as answer:
            return answer.status

    assert asyncio.run(ask()) == status


def test_a_worker_listens_on_all_addresses_of_its_host() -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
    with listen("localhost", 0) as sockets:
        assert {opened.getsockname()[0] for opened in sockets} == addresses
        assert len({opened.getsockname()[1] for opened in sockets}) == 1


def test_a_port_in_use_is_refused() -> None:
    with (
        listen("127.0.0.1", 0) as (opened,),
        pytest.raises(InputError, match="Address already in use"),
        listen("127.0.0.1", opened.getsockname()[1]),
    ):
        pass


TEXT = "a page of the sweep that is cancelled, number"


def cancel(collection: Collection, name: str) -> None:
    runner: Any = SimpleNamespace(sweep_log=FakeSweepLog(collection.table), settings=load(), metrics=Metrics())
    served: Any = SimpleNamespace(
        runner=runner,
        app=None,
        lag=collection,
        sharded_store=collection.sharded_store,
        apply_retraction=collection.apply_retraction,
    )
    asyncio.run(Server(served)._cancel(Event(event="cancel", name=name, time=5)))


@pytest.mark.parametrize("stages", range(5))
def test_cancelling_a_sweep_with_messages_in_flight_removes_all_its_rows(tmp_path: Path, stages: int) -> None:
    collection = Collection(tmp_path)
    collection.events(Event(event="open", name="good", time=1), Event(event="open", name="bad", time=2))
    collection.sketch(
        1, {f"https://a.example/{at}": f"{at} good pages {at} stay where they are {at}" for at in range(4)}
    )
    collection.process()
    families = [family for family in Family if family not in (Family.META, Family.SWEEPS)]
    before = {family: list(collection.sharded_store().scan(family)) for family in families}
    collection.sketch(2, {f"https://spam.example/{at}": f"{TEXT} {at}" for at in range(6)})
    for topic in (Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS, Topic.DOCUMENTS)[:stages]:
        for number in collection.parts:
            collection.process_some(topic, number)
    cancel(collection, "bad")
    collection.process()
    assert {family: list(collection.sharded_store().scan(family)) for family in families} == before
    assert collection.table.find("bad") is None


def test_postings_that_a_cancelled_sweep_had_crowded_out_return(tmp_path: Path) -> None:
    """As in the embedded engine; the check of each partition passes."""
    settings = load(overrides={"limits": {"bucket_postings_max": 2}})
    collection = Collection(tmp_path, settings=settings)
    collection.events(Event(event="open", name="good", time=1), Event(event="open", name="flood", time=2))
    words = " ".join(f"word{number}" for number in range(150))
    collection.sketch(1, {f"https://a.example/{at}": f"{words} {at}" for at in range(2)})
    collection.process()
    before = dict(collection.sharded_store().scan(Family.BANDS))
    collection.sketch(2, {f"https://spam.example/{at}": f"{words} more{at}" for at in range(12)})
    collection.process()
    assert dict(collection.sharded_store().scan(Family.BANDS)).items() & before.items() < before.items()
    cancel(collection, "flood")
    assert dict(collection.sharded_store().scan(Family.BANDS)) == before
    for number, partition in collection.parts.items():
        assert list(check(partition.store, postings_max=2, owns=collection.owns(number))) == []
    assert sum(stats(partition.store).documents for partition in collection.parts.values()) == 2

"""Results as topics: what others read is complete, fits its schema, and is what the embedded engine would say."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiokafka.admin import AIOKafkaAdminClient

from state.codecs import edge_row
from state.families import Family
from state.store import Store
from state.view import View
from streams import query
from streams.engine.ingest import ingest
from streams.kafka.coordinator.moves_publisher import find_moves
from streams.kafka.wire.packed_messages import RESULTS
from streams.settings import Settings, load
from streams.urls import url_key
from tests.broker.results import read
from tests.broker.test_poison import poison, send
from tests.broker.test_worker import SWEEPS, ends, wait_for


def mirrored(messages: list[tuple[str, dict[str, Any]]]) -> set[tuple[str, ...]]:
    """Clusters of two documents or more, as whoever follows the topic has them."""
    into: dict[str, str] = {}
    for key, message in messages:
        assert key == message["document"]
        if message["into"] is None:
            into.pop(key, None)
        else:
            into[key] = message["into"]
    groups: dict[str, set[str]] = {}
    for document in {*into, *into.values()}:
        root = document
        while root in into:
            root = into[root]
        groups.setdefault(root, set()).add(document)
    return {tuple(sorted(group)) for group in groups.values()}


def clusters(view: View) -> set[tuple[str, ...]]:
    return {tuple(sorted(each.documents)) for each in query.clusters(view) if each.document_count > 1}


def check_pairs(view: View, settings: Settings, messages: list[tuple[str, dict[str, Any]]]) -> None:
    """Every finding is a pair that is kept, with its figures.

    Of every pair one document asked for the other, whichever came first, and what was told of it is as close at least.
    """
    found = (edge_row.decode(*row) for row in view.store.scan(Family.EDGES))
    pairs = {frozenset((edge.a.hex(), edge.b.hex())): edge for edge in found}
    closest: dict[str, float] = {}
    known: dict[tuple[str, str, str], dict[str, Any]] = {}
    for key, message in messages:
        other = message["closest"]["document"]
        assert key == message["url"]
        captures = view.captures(url_key(message["url"]))
        assert bytes.fromhex(message["document"]) in {capture.document for capture in captures}
        told = {name: value for name, value in message.items() if name != "cluster"}
        assert known.setdefault((key, message["document"], other), told) == told
        if other == message["document"]:
            assert (message["resemblance"], message["exact"]) == (1.0, True)
            assert message["closest"]["url"] != message["url"]
            continue
        edge = pairs[frozenset((message["document"], other))]
        assert abs(message["resemblance"] - edge.resemblance) < 1e-4
        turned = edge.a.hex() != message["document"]
        assert abs(message["containment"] - (edge.contained if turned else edge.containment)) < 1e-4
        assert (message["resemblance_error"] == 0) == message["exact"]
        assert message["resemblance"] >= settings.policy.threshold
        closest[message["document"]] = max(message["resemblance"], closest.get(message["document"], 0.0))
    for pair, edge in pairs.items():
        assert max(closest.get(document, 0.0) for document in pair) >= edge.resemblance - 1e-4


def test_results_say_what_the_embedded_engine_says(collection: Callable[..., Any], tmp_path: Path) -> None:
    made = collection(3, take_pages=4)
    settings = load(made.config)
    given = poison()
    asyncio.run(send(made, given, 1))
    expected: list[Any] = []
    with Store(tmp_path / "embedded") as store:
        for name, path in SWEEPS.items():
            made("publish", path, "--sweep", name)
            if name == sorted(SWEEPS)[1]:
                for records in (2, 12):
                    killed_after(made, records)
            if name == max(SWEEPS):
                # Without moves at first: what a worker leaves that is killed between a commit and its moves.
                with writing(made, ["near-duplicates", "clusters"]):
                    made.work("a")
                assert len(read(made, "moves")) == len(expected)
            if name != min(SWEEPS):  # which misses nothing
                made.work("a")
            ingest(store, settings, [str(path)], name, now=1_000)
            view = View(store)
            expected += [msgspec.to_builtins(move) for move in find_moves(view, settings, view.sweeps()[-1])]
            told = [message for _, message in read(made, "moves")]
            assert sorted(told, key=place) == sorted(expected, key=place)
        assert expected
        assert mirrored(read(made, "clusters")) == clusters(view)
        check_pairs(view, settings, read(made, "near-duplicates"))
    letters = read(made, "dead-letters")
    # Of what was told again after a kill, key and content are the same.
    assert len({key for key, _ in letters}) == len({(key, str(message)) for key, message in letters}) == len(given)


def killed_after(made: Any, records: int) -> None:
    """Let a worker be killed once so many records of the changelog are written."""
    process = made.worker("a")
    wait_for(lambda: sum(ends(made, "state-changelog")) >= records)
    process.send_signal(signal.SIGKILL)
    process.wait()


def place(move: dict[str, Any]) -> tuple[str, str]:
    return move["sweep"], move["url"]


def test_forgetting_is_told_and_nothing_is_told_twice(collection: Callable[..., Any]) -> None:
    made = collection(2)
    for name, path in SWEEPS.items():
        made("publish", path, "--sweep", name)
    made.work("a")
    moved, url = read(made, "moves"), made.serve("a")
    before = mirrored(read(made, "clusters"))
    document = min(before)[0]
    made.ask("forget", document, "--server", url)
    told = read(made, "clusters")
    assert told[-1][1]["change"] in {"joined", "left", "forgotten"}
    assert any(message["change"] == "forgotten" and key == document for key, message in told)
    listed = made.ask("clusters", "--json", "--server", url).splitlines()
    held = {tuple(sorted(each["documents"])) for each in map(json.loads, listed) if each["document_count"] > 1}
    assert mirrored(told) == held
    assert held != before
    assert read(made, "moves") == moved


def test_results_that_are_off_have_no_topics(collection: Callable[..., Any], embedded: Callable[..., Any]) -> None:
    made = collection(1)
    with writing(made, []):
        made.prefix += "off"
        made("topics", "create", "--partitions", 1)
        for name, path in SWEEPS.items():
            made("publish", path, "--sweep", name)
        made.work("a")
    assert made.clusters("a") == embedded(SWEEPS)
    there = asyncio.run(topic_names(made.bootstrap))
    assert f"{made.prefix}-sweeps" in there
    assert not {f"{made.prefix}-{topic.value}" for topic in RESULTS} & there


async def topic_names(bootstrap: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


@contextmanager
def writing(made: Any, results: list[str]) -> Iterator[None]:
    """Have commands write these topics of results only."""
    before = made.config.read_text()
    made.config.write_text(before.replace("[kafka]\n", f"[kafka]\nresults = {json.dumps(results)}\n"))
    yield
    made.config.write_text(before)

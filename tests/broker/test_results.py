"""Test the topics of results: complete, valid by their schemas, and equal to the embedded engine's results."""

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
from streams.kafka.wire.packed_messages import RESULT_TOPICS
from streams.settings import Settings, load
from streams.urls import url_key
from tests.broker.results import read
from tests.broker.test_poison import poison, send
from tests.broker.test_worker import SWEEPS, end_offsets, wait_for


def clusters_from_topic(messages: list[tuple[str, dict[str, Any]]]) -> set[tuple[str, ...]]:
    """Return the clusters of two or more documents that follow from the messages of the topic."""
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
    return {tuple(sorted(cluster.documents)) for cluster in query.clusters(view) if cluster.document_count > 1}


def check_pairs(view: View, settings: Settings, messages: list[tuple[str, dict[str, Any]]]) -> None:
    """Assert that every near-duplicate message matches an edge with the same figures.

    At least one document of every edge has a message about a document that is at least as close. Which of the two
    depends on the order of arrival.
    """
    edges = (edge_row.decode(*row) for row in view.store.scan(Family.EDGES))
    pairs = {frozenset((edge.a.hex(), edge.b.hex())): edge for edge in edges}
    closest: dict[str, float] = {}
    first_results: dict[tuple[str, str, str], dict[str, Any]] = {}
    for key, message in messages:
        other = message["closest"]["document"]
        assert key == message["url"]
        captures = view.captures(url_key(message["url"]))
        assert bytes.fromhex(message["document"]) in {capture.document for capture in captures}
        without_cluster = {name: value for name, value in message.items() if name != "cluster"}
        assert first_results.setdefault((key, message["document"], other), without_cluster) == without_cluster
        if other == message["document"]:
            assert (message["resemblance"], message["exact"]) == (1.0, True)
            assert message["closest"]["url"] != message["url"]
            continue
        edge = pairs[frozenset((message["document"], other))]
        assert abs(message["resemblance"] - edge.resemblance) < 1e-4
        is_reversed = edge.a.hex() != message["document"]
        assert abs(message["containment"] - (edge.contained if is_reversed else edge.containment)) < 1e-4
        assert (message["resemblance_error"] == 0) == message["exact"]
        assert message["resemblance"] >= settings.policy.threshold
        closest[message["document"]] = max(message["resemblance"], closest.get(message["document"], 0.0))
    for pair, edge in pairs.items():
        assert max(closest.get(document, 0.0) for document in pair) >= edge.resemblance - 1e-4


def test_results_equal_those_of_the_embedded_engine(make_collection: Callable[..., Any], tmp_path: Path) -> None:
    collection = make_collection(3, take_pages=4)
    settings = load(collection.config)
    bad_messages = poison()
    asyncio.run(send(collection, bad_messages, 1))
    expected: list[Any] = []
    with Store(tmp_path / "embedded") as store:
        for name, path in SWEEPS.items():
            collection("publish", path, "--sweep", name)
            if name == sorted(SWEEPS)[1]:
                for records in (2, 12):
                    kill_worker_after(collection, records)
            if name == max(SWEEPS):
                # The first run writes no moves, like a worker that was killed between a commit and its moves.
                with result_topics(collection, ["near-duplicates", "clusters"]):
                    collection.run_workers("a")
                assert len(read(collection, "moves")) == len(expected)
            if name != min(SWEEPS):  # no page is missing in the first sweep
                collection.run_workers("a")
            ingest(store, settings, [str(path)], name, now=1_000)
            view = View(store)
            expected += [msgspec.to_builtins(move) for move in find_moves(view, settings, view.sweeps()[-1])]
            moves = [message for _, message in read(collection, "moves")]
            assert sorted(moves, key=sweep_and_url) == sorted(expected, key=sweep_and_url)
        assert expected
        assert clusters_from_topic(read(collection, "clusters")) == clusters(view)
        check_pairs(view, settings, read(collection, "near-duplicates"))
    letters = read(collection, "dead-letters")
    # Dead letters that were repeated after a kill have the same key and content.
    assert (
        len({key for key, _ in letters})
        == len({(key, str(message)) for key, message in letters})
        == len(bad_messages)
    )


def kill_worker_after(collection: Any, records: int) -> None:
    """Kill a worker when the changelog has this number of records."""
    process = collection.worker("a")
    wait_for(lambda: sum(end_offsets(collection, "state-changelog")) >= records)
    process.send_signal(signal.SIGKILL)
    process.wait()


def sweep_and_url(move: dict[str, Any]) -> tuple[str, str]:
    return move["sweep"], move["url"]


def test_forgetting_is_published_and_moves_are_not_repeated(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(2)
    for name, path in SWEEPS.items():
        collection("publish", path, "--sweep", name)
    collection.run_workers("a")
    moves, url = read(collection, "moves"), collection.serve("a")
    before = clusters_from_topic(read(collection, "clusters"))
    document = min(before)[0]
    collection.run("forget", document, "--server", url)
    changes = read(collection, "clusters")
    assert changes[-1][1]["change"] in {"joined", "left", "forgotten"}
    assert any(message["change"] == "forgotten" and key == document for key, message in changes)
    rows = collection.run("clusters", "--json", "--min-urls", "1", "--server", url).splitlines()
    after = {tuple(sorted(row["documents"])) for row in map(json.loads, rows) if row["document_count"] > 1}
    assert clusters_from_topic(changes) == after
    assert after != before
    assert read(collection, "moves") == moves


def test_disabled_results_have_no_topics(make_collection: Callable[..., Any], embedded: Callable[..., Any]) -> None:
    collection = make_collection(1)
    with result_topics(collection, []):
        collection.prefix += "off"
        collection("topics", "create", "--partitions", 1)
        for name, path in SWEEPS.items():
            collection("publish", path, "--sweep", name)
        collection.run_workers("a")
    assert collection.clusters("a") == embedded(SWEEPS)
    topics = asyncio.run(topic_names(collection.bootstrap))
    assert f"{collection.prefix}-sweeps" in topics
    assert not {f"{collection.prefix}-{topic.value}" for topic in RESULT_TOPICS} & topics


async def topic_names(bootstrap: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


@contextmanager
def result_topics(collection: Any, results: list[str]) -> Iterator[None]:
    """Make commands write only these topics of results."""
    before = collection.config.read_text()
    collection.config.write_text(before.replace("[kafka]\n", f"[kafka]\nresults = {json.dumps(results)}\n"))
    yield
    collection.config.write_text(before)

"""Decisions on Kafka: the HTTP path, the owner that merges, and deletion with the URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from state.changes import Changes
from state.check import check
from state.codecs import changelog_record, decision_row
from state.errors import StateError
from state.families import Family
from state.model import Decision
from state.view import View
from streams import forgetting
from streams.decisions import compute_changes, gone, moved, removed
from streams.errors import InputError
from streams.find import Finder
from streams.kafka.collection import collection as collection_module
from streams.kafka.rows.worker_client import WorkerClient
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.worker.stages import Outcome
from streams.operators.routing import partition_of
from streams.settings import load
from streams.urls import url_key
from tests.memory import MemoryStore
from tests.streams.kafka.collection_fixture import PARTITIONS, Collection
from tests.streams.kafka.worker_servers import WorkerServer, worker_servers

URLS = [f"https://a.example/{number}" for number in range(12)]
NEW = "https://a.example/new"


def send(collection: Collection, *decisions: Decision) -> None:
    outcome = Outcome(collection.context)
    outcome.queue(decisions)
    collection.send(outcome.messages)


def rows(decisions: list[Decision]) -> Changes:
    changes = Changes()
    for decision in decisions:
        changes.put(Family.DECISIONS, decision_row.encode_key(decision.key), decision_row.encode(decision))
    return changes


def test_owners_merge_decisions_in_any_order(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    decisions = [
        *(moved(url, NEW, 2) for url in URLS),
        *(gone(url, 1) for url in URLS),
        *(gone(url, 3) for url in URLS[:3]),
    ]
    for decision in decisions:  # in batches of one, so that each is merged with a stored row
        send(collection, decision)
        collection.process([Topic.CAPTURES])
    for number, part in collection.parts.items():
        assert list(check(part.store, postings_max=32, owns=collection.owns(number))) == []
    expected = MemoryStore()
    expected.write(rows([*(gone(url, 3) for url in URLS[:3]), *(moved(url, NEW, 2) for url in URLS[3:])]))
    view = View(collection.sharded_store())
    assert list(view.all_decisions()) == list(View(expected).all_decisions())
    keys = [url_key(url) for url in URLS]
    assert view.decisions(keys) == View(expected).decisions(keys)
    assert Finder(view, load()).find(URLS[5]).candidates[0].url == NEW


def test_a_decision_and_pages_share_a_batch(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    collection.sketch(1, {URLS[0]: "a page that has a decision in the same batch of messages"})
    send(collection, gone(URLS[0], 5))
    collection.process()
    view = View(collection.sharded_store())
    assert len(view.captures(url_key(URLS[0]))) == 1
    assert view.decisions([url_key(URLS[0])]) == [gone(URLS[0], 5)]


def test_a_decision_is_read_from_its_owner_only(tmp_path: Path) -> None:
    store = Collection(tmp_path).sharded_store()
    key = url_key(URLS[0])
    assert store.owner(Family.DECISIONS, decision_row.encode_key(key)) == partition_of(key, PARTITIONS)
    assert store.owner(Family.DECISIONS, key) is None  # the prefix of a scan


def test_forgetting_a_url_deletes_its_decision(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    collection.sketch(1, {url: f"text of {url} and some more words" for url in URLS[:4]})
    send(collection, *(moved(url, NEW, 1) for url in URLS[:4]))
    collection.process()
    removals = forgetting.forget_url(collection.sharded_store(), url_key(URLS[0]), only_writer=False)
    totals = forgetting.commit_removals(removals, collection.apply_retraction)
    assert (totals.captures, totals.decisions) == (1, 1)
    remaining = View(collection.sharded_store()).all_decisions()
    assert [decision.old_url for decision in remaining] == sorted(URLS[1:4])


class Lag:
    """The lag of a group that has read everything."""

    reached = True

    async def end_offsets(self, _topic: Topic) -> list[int]:
        return [1] * PARTITIONS

    async def has_reached(self, _topic: Topic, offsets: list[int]) -> bool:
        assert len(offsets) == PARTITIONS
        assert any(offsets)
        return self.reached


def with_lag(worker: WorkerServer) -> Any:
    lag: Any = Lag()
    worker.collection.lag = lag
    return lag


def test_the_server_sends_decisions_to_their_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSTFOUND_TOKEN", "secret")
    with worker_servers(tmp_path) as (worker, _):
        with_lag(worker)
        client = WorkerClient(worker.url, 20, "secret")
        decisions = [moved(URLS[0], NEW), gone(URLS[1]), removed(URLS[2])]
        result = compute_changes(client.store(), decisions, now=7)
        client.decide(result.changes)
        producer: Any = worker.runner.producer
        assert sorted(producer.sent, key=lambda decision: decision.key) == [moved(URLS[0], NEW, 7), gone(URLS[1], 7)]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_decisions_need_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("LOSTFOUND_TOKEN", "secret" if token else "")
    with worker_servers(tmp_path) as (worker, _):
        with_lag(worker)
        with pytest.raises(InputError, match="token"):
            WorkerClient(worker.url, 20, token).decide(rows([gone(URLS[0], 1)]))
        producer: Any = worker.runner.producer
        assert producer.sent == []


BAD_ROWS = [
    (b"org,other)/\0", decision_row.encode(gone(URLS[0], 1))),
    (decision_row.encode_key(url_key(URLS[0])), b"damaged"),
    (decision_row.encode_key(url_key(URLS[0])), decision_row.encode(gone(URLS[0], 1 << 60))),
    (b"\xff\0", decision_row.encode(gone(URLS[0], 1))),
]


@pytest.mark.parametrize("bad_row", BAD_ROWS, ids=["key", "value", "time", "host"])
def test_the_server_refuses_all_decisions_if_one_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_row: tuple[bytes, bytes]
) -> None:
    monkeypatch.setenv("LOSTFOUND_TOKEN", "secret")
    changes = rows([gone(URLS[3], 1)])
    changes.put(Family.DECISIONS, *bad_row)
    with worker_servers(tmp_path) as (worker, _):
        with_lag(worker)
        with pytest.raises(StateError):
            WorkerClient(worker.url, 20, "secret").decide(changes)
        producer: Any = worker.runner.producer
        assert producer.sent == []


def test_decisions_that_are_not_stored_in_time_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSTFOUND_TOKEN", "secret")
    monkeypatch.setattr(collection_module, "DECISION_SECONDS_MAX", 0.3)
    with worker_servers(tmp_path) as (worker, _):
        with_lag(worker).reached = False
        with pytest.raises(StateError, match="were sent, but not all are stored") as caught:
            WorkerClient(worker.url, 20, "secret").decide(rows([gone(URLS[0], 1)]))
        assert "take effect once" in caught.value.hint


def test_many_decisions_are_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = WorkerClient("http://127.0.0.1:1", 20)
    posted: list[bytes] = []
    monkeypatch.setattr("streams.kafka.rows.worker_client.CHANGES_BYTES_MAX", 200)
    monkeypatch.setattr(client, "post", lambda _path, body, _type: posted.append(body))
    client.decide(rows([gone(url, 1) for url in URLS]))
    assert len(posted) > 1
    sent = [key for body in posted for key in changelog_record.decode(body)[1].puts_of(Family.DECISIONS)]
    assert len(sent) == len(set(sent)) == len(URLS)

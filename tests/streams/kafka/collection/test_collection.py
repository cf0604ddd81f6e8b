"""An answer is built from the partitions of one generation of the consumer group."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from state.changes import Changes
from state.errors import StateError
from state.families import Family
from state.view import View
from streams.kafka.rows.row_query import Answer, PrefixQuery
from streams.kafka.wire.sweep_log import Event
from tests.streams.kafka.worker_servers import worker_servers

RNG = Random(1)
DOCUMENTS = sorted(RNG.randbytes(16) for _ in range(20))


def changes() -> Changes:
    """Rows of both workers."""
    texts = Changes()
    texts.puts_of(Family.TEXTS).update(dict.fromkeys(DOCUMENTS, b"text"))
    return texts


def test_an_answer_names_its_workers_and_their_generation(tmp_path: Path) -> None:
    with worker_servers(tmp_path, changes()) as workers:
        query = PrefixQuery(family=Family.TEXTS, keys=[b""])
        answer = workers[0].client().post("/rows", msgspec.msgpack.encode(query), Answer)
        sources = sorted((source.url, source.generation, source.partitions) for source in answer.sources)
        assert sources == sorted((worker.url, 1, [number]) for number, worker in enumerate(workers))


@pytest.mark.parametrize("queried", [0, 1])
def test_an_answer_from_two_generations_is_an_error(tmp_path: Path, queried: int) -> None:
    """The second worker has lost the broker; it would still read the partition that it owned before."""
    with worker_servers(tmp_path, changes()) as workers:
        workers[0].app.consumer_generation_id = 2
        with pytest.raises(StateError, match=r"generation 1: \S+ with partitions 1; generation 2: ") as caught:
            workers[queried].client().store().get_many(Family.TEXTS, DOCUMENTS)
        assert "restart the worker with the older generation" in caught.value.hint


def test_a_command_does_not_continue_with_another_generation(tmp_path: Path) -> None:
    with worker_servers(tmp_path, changes()) as workers:
        store = workers[0].client().store()
        assert store.get_many(Family.TEXTS, DOCUMENTS) == [b"text"] * len(DOCUMENTS)
        for worker in workers:
            worker.app.consumer_generation_id = 2
        with pytest.raises(StateError, match="reassigned"):
            store.get_many(Family.TEXTS, DOCUMENTS)
        assert len(list(workers[0].client().store().scan(Family.TEXTS))) == len(DOCUMENTS)


def test_an_answer_read_during_a_rebalance_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker_servers(tmp_path, changes()) as workers:
        worker = workers[0]
        get_many = worker.store.get_many

        def get_during_rebalance(family: Family, keys: list[bytes]) -> list[bytes | None]:
            worker.app.consumer_generation_id += 1
            return get_many(family, keys)

        monkeypatch.setattr(worker.store, "get_many", get_during_rebalance)
        with pytest.raises(StateError, match="reassigned while they were read"):
            worker.client().store().get_many(Family.TEXTS, DOCUMENTS)


def test_a_worker_does_not_read_its_own_partitions_before_they_are_recovered(tmp_path: Path) -> None:
    """Otherwise, the owner of partition 0 would count captures and publish moves from the rows that it has so far."""
    with worker_servers(tmp_path, changes()) as workers:
        collection = workers[0].collection
        assert collection.sharded_store().get_many(Family.TEXTS, DOCUMENTS) == [b"text"] * len(DOCUMENTS)
        workers[0].runner.partitions.recovered = False
        with pytest.raises(StateError, match="recovering its partitions"):
            collection.sharded_store()
        with pytest.raises(StateError, match="not ready: partitions are being recovered"):
            workers[1].collection.sharded_store().get_many(Family.TEXTS, DOCUMENTS)


def test_sweeps_are_those_at_the_end_of_the_sweep_log(tmp_path: Path) -> None:
    """A worker that reads the log late is ready, and all partitions have the same rows."""
    with worker_servers(tmp_path, changes()) as workers:
        sweep_log: Any = workers[0].runner.sweep_log
        store = workers[0].client().store()
        assert [sweep.name for sweep in View(store).sweeps()] == ["live"]
        sweep_log.unread = [Event(event="open", name="later", time=9)]
        assert [sweep.name for sweep in View(store).sweeps()] == ["live", "later"]


def test_a_worker_that_cannot_read_the_sweep_log_lists_no_sweeps(tmp_path: Path) -> None:
    async def catch_up() -> None:
        raise TimeoutError

    with worker_servers(tmp_path, changes()) as workers:
        sweep_log: Any = workers[0].runner.sweep_log
        sweep_log.catch_up = catch_up
        with pytest.raises(StateError, match="could not read the sweep log to its end"):
            View(workers[0].client().store())
        assert workers[0].client().store().get_many(Family.TEXTS, DOCUMENTS) == [b"text"] * len(DOCUMENTS)

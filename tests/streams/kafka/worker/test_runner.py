"""The order and the conditions in which a worker processes messages of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state.families import Family
from streams.kafka.wire.packed_messages import Topic, headers_for, pack
from streams.kafka.worker.runner import Message, Runner
from tests.streams.kafka.collection_fixture import SETTINGS, Collection
from tests.streams.kafka.worker_fixture import make_runner

URL = "https://a.example/x"


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    runner = make_runner(tmp_path)
    yield runner
    runner.partitions.close_all()


def captures_message(folder: Path, *sweeps: int) -> Message:
    """A message of `captures` with one page of each sweep."""
    collection = Collection(folder)
    for sweep in sweeps:
        collection.sketch(sweep, {URL: "a page of a sweep"})
    (((_, partition), pages),) = collection.logs.items()
    (value,) = pack(pages, 1 << 20)
    sent = headers_for(Topic.CAPTURES, SETTINGS.scheme.id)
    return Message(partition=partition, offset=0, time=5, value=value, headers=sent)


def test_a_page_of_a_cancelled_sweep_is_not_written(tmp_path: Path, runner: Runner) -> None:
    message = captures_message(tmp_path / "other", 1, 2)
    partition = runner.partitions.open(message.partition)
    runner.partitions.active_numbers = frozenset({message.partition})
    asyncio.run(runner.process(Topic.CAPTURES, [message]))
    assert len(list(partition.store.scan(Family.CAPTURES))) == 1


def test_outputs_are_sent_before_the_changelog_and_the_changelog_is_written_before_the_state(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = captures_message(tmp_path / "other", 1)
    partition = runner.partitions.open(message.partition)
    runner.partitions.active_numbers = frozenset({message.partition})
    steps: list[str] = []

    async def send(*_: Any) -> None:
        steps.append("send")

    async def append_changelog(*_: Any, **__: Any) -> list[int]:
        steps.append("changelog")
        return [0]

    monkeypatch.setattr(runner.producer, "send", send)
    monkeypatch.setattr(runner.producer, "append_changelog", append_changelog)
    monkeypatch.setattr(partition, "write", lambda *_, **__: steps.append("state"))
    asyncio.run(runner.process(Topic.CAPTURES, [message]))
    assert steps == ["send", "changelog", "state"]


def test_a_message_of_a_partition_that_the_worker_does_not_own_is_not_acknowledged(
    tmp_path: Path, runner: Runner
) -> None:
    message = captures_message(tmp_path / "other", 1)
    runner.partitions.open(message.partition)  # a standby copy
    with pytest.raises(RuntimeError, match="does not own"):
        asyncio.run(runner.process(Topic.CAPTURES, [message]))


def test_a_malformed_message_becomes_a_dead_letter(runner: Runner) -> None:
    runner.partitions.open(0)
    runner.partitions.active_numbers = frozenset({0})
    message = Message(partition=0, offset=7, time=5, value=b"\xc1", headers=[])
    asyncio.run(runner.process(Topic.CAPTURES, [message]))
    producer: Any = runner.producer
    assert [(letter.reason, letter.offset) for letter in producer.dead_letters] == [("bad_schema", 7)]

"""The order and the conditions in which a worker processes messages of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from state.codecs import changelog_record
from state.errors import StateIncompatible
from state.families import Family
from streams.kafka.wire.packed_messages import (
    EMPTY_MESSAGE,
    SCHEMA_VERSION,
    Sender,
    Topic,
    headers_for,
    pack,
    sender_header,
)
from streams.kafka.wire.sweep_log import Event
from streams.kafka.worker.page_processor import PageProcessor
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
        return [partition.offset + 1]

    monkeypatch.setattr(runner.producer, "send_packed", send)
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


@pytest.mark.parametrize("topic", [Topic.CAPTURES, Topic.PAGES])
def test_a_message_of_a_newer_version_is_refused_if_the_collection_has_this_version(
    runner: Runner, topic: Topic
) -> None:
    version = SCHEMA_VERSION + 1
    headers = [("schema", f"lostfound.{topic.value}/{version}".encode())]
    message = Message(partition=0, offset=7, time=5, value=b"\x90", headers=headers)
    runner.partitions.open(0)
    runner.partitions.active_numbers = frozenset({0})
    process: Any = PageProcessor(runner).process if topic is Topic.PAGES else partial(runner.process, topic)
    producer: Any = runner.producer
    asyncio.run(process([message]))  # a hostile message: no worker has announced the version
    assert [(letter.reason, letter.offset) for letter in producer.dead_letters] == [("bad_schema", 7)]
    runner.sweep_log.table.apply(Event(event="format", version=version, time=1))
    with pytest.raises(StateIncompatible, match=rf"\(partition 0, offset 7\) has messages of version {version}"):
        asyncio.run(process([message]))
    assert len(producer.dead_letters) == 1


def test_expired_messages_are_counted_and_sent_to_the_dead_letters(runner: Runner) -> None:
    runner.sweep_log.table.apply(Event(event="open", name="a", time=1))
    asyncio.run(runner.report_expired("web-pages", 2, 3, 10))
    producer: Any = runner.producer
    (letter,) = producer.dead_letters
    assert (letter.reason, letter.source, letter.partition, letter.offset) == ("expired", "web-pages", 2, 3)
    assert letter.detail == "7 messages, up to offset 9, were deleted before a worker read them"
    assert runner.sweep_log.table.sweeps[1].expired_messages == 7
    assert b'lostfound_expired_messages_total{topic="web-pages"} 7.0' in runner.metrics.render()


def process(runner: Runner, *messages: Message) -> None:
    """Process messages of `captures` at their owner."""
    runner.partitions.active_numbers = frozenset({message.partition for message in messages})
    for message in messages:
        runner.partitions.open(message.partition)
    asyncio.run(runner.process(Topic.CAPTURES, messages))


def test_the_first_batch_claims_the_partition_and_announces_the_claim(tmp_path: Path, runner: Runner) -> None:
    message = captures_message(tmp_path / "other", 1)
    process(runner, message)
    process(runner, message)
    producer: Any = runner.producer
    assert producer.claims == [Sender(message.partition, 1)]
    claim, *records = producer.changelogs[message.partition]
    assert claim.record == changelog_record.CLAIM
    assert [record.epoch for record in (claim, *records)] == [1] * (1 + len(records))


def test_a_claim_replays_what_the_former_owner_wrote_before_it(tmp_path: Path, runner: Runner) -> None:
    message = captures_message(tmp_path / "other", 1)
    process(runner, message)
    producer: Any = runner.producer
    successor = make_runner(tmp_path / "successor", producer=producer)
    number = message.partition
    successor.partitions.active_numbers = frozenset({number})
    partition = successor.partitions.open(number)

    async def claim() -> None:
        async with successor.partitions.locks[number]:
            await successor.claim(partition)

    asyncio.run(claim())
    assert partition.epoch == 2
    assert len(list(partition.store.scan(Family.CAPTURES))) == 1
    successor.partitions.close_all()


def test_a_former_owner_ends_without_writing(tmp_path: Path, runner: Runner) -> None:
    message = captures_message(tmp_path / "other", 1)
    process(runner, captures_message(tmp_path / "first", 1))
    partition = runner.partitions.open(message.partition)
    rows = list(partition.store.scan(Family.META))
    producer: Any = runner.producer
    asyncio.run(producer.append_claim(Sender(message.partition, 2)))  # by the new owner
    later = Message(partition=message.partition, offset=9, time=5, value=message.value, headers=[*message.headers])
    with pytest.raises(RuntimeError, match="another worker has taken over"):
        process(runner, later)
    assert list(partition.store.scan(Family.META)) == rows


def test_late_messages_of_a_former_owner_are_dropped(tmp_path: Path, runner: Runner) -> None:
    message = captures_message(tmp_path / "other", 1)

    def sent_by(epoch: int, value: bytes) -> Message:
        headers = [*message.headers, sender_header(Sender(0, epoch))]
        return Message(partition=message.partition, offset=epoch, time=5, value=value, headers=headers)

    assert message.value is not None
    process(runner, sent_by(2, EMPTY_MESSAGE))
    process(runner, sent_by(1, message.value))
    partition = runner.partitions.open(message.partition)
    assert not list(partition.store.scan(Family.CAPTURES))
    assert b"lostfound_late_messages_total 1.0" in runner.metrics.render()
    process(runner, sent_by(2, message.value))
    assert len(list(partition.store.scan(Family.CAPTURES))) == 1


def test_a_message_with_an_invalid_sender_becomes_a_dead_letter(tmp_path: Path, runner: Runner) -> None:
    message = captures_message(tmp_path / "other", 1)
    headers = [*message.headers, ("sender", b"0/-1")]
    process(runner, Message(partition=message.partition, offset=0, time=5, value=message.value, headers=headers))
    producer: Any = runner.producer
    assert [letter.reason for letter in producer.dead_letters] == ["bad_sender"]

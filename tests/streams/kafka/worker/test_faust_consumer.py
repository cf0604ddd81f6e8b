"""Faust's consumer while partitions change hands, with a log in memory for the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import faust
import pytest
from faust.types import TP

from streams.kafka.worker.faust_consumer import Consumer, FlowControl, Transport

PAGES, LINKS = TP("pages", 0), TP("links", 0)


class Log:
    """Stands for the consumer's thread: partitions of `ends` messages, read from a place that a seek moves."""

    def __init__(self, committed: Mapping[TP, int | None], ends: Mapping[TP, int]) -> None:
        self.committed, self.ends = committed, ends
        self.places = {tp: offset or 0 for tp, offset in committed.items()}
        self.pace = 0.0  # seconds that each answer takes
        self.fetching = 0.0  # and a fetch

    async def getmany(self, active: set[TP], timeout: float) -> dict[TP, list[SimpleNamespace]]:  # noqa: ASYNC109
        await asyncio.sleep(self.fetching or self.pace)
        found = {}
        for tp in list(active) or list(self.ends):
            found[tp] = [_record(tp, offset) for offset in range(self.places[tp], self.ends[tp])]
            self.places[tp] = self.ends[tp]
        return {tp: records for tp, records in found.items() if records}

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        for tp, offset in self.committed.items():
            await asyncio.sleep(self.pace)
            if offset:
                self.places[tp] = offset
        return self.committed

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        await asyncio.sleep(self.pace)
        return dict.fromkeys(tps, 0)

    async def seek_wait(self, places: Mapping[TP, int]) -> None:
        await asyncio.sleep(self.pace)
        self.places.update(places)

    def highwater(self, tp: TP) -> int:
        return self.ends[tp]

    def assignment(self) -> set[TP]:
        return set(self.ends)


def _record(tp: TP, offset: int) -> SimpleNamespace:
    fields = ("timestamp_type", "key", "value", "checksum", "serialized_key_size", "serialized_value_size")
    return SimpleNamespace(
        topic=tp.topic, partition=tp.partition, offset=offset, timestamp=0, headers=(), **dict.fromkeys(fields)
    )


@asynccontextmanager
async def consuming(log: Log) -> AsyncIterator[tuple[Consumer, list[tuple[TP, int]]]]:
    """A consumer whose messages go through a loop as Faust's fetcher has it, and what that loop was handed."""
    taken: list[tuple[TP, int]] = []

    async def take(message: Any) -> None:
        taken.append((message.tp, message.offset))

    app: Any = faust.App("test", broker="kafka://127.0.0.1:1", web_enabled=False)
    app.client_only = False
    consumer = Consumer(Transport([], app), take, None, None, loop=asyncio.get_running_loop())
    consumer._thread = cast("Any", log)
    app._consumer = consumer
    consumer.resume_partitions(log.assignment())
    consumer.resume_flow()
    fetcher: Any = SimpleNamespace(_stopped=asyncio.Event())
    draining = asyncio.create_task(consumer._drain_messages(fetcher))
    yield consumer, taken
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize("committed", [3, None])
def test_a_seek_brings_all_messages_after_it_again(committed: int | None) -> None:
    async def run() -> None:
        log = Log({PAGES: committed, LINKS: 5}, {PAGES: 9, LINKS: 9})
        log.pace = 0.01
        async with consuming(log) as (consumer, taken):
            await until(lambda: taken)
            # What a rebalance leaves behind: the offset of a message that never reached an agent.
            consumer._read_offset[PAGES] = 7
            taken.clear()
            await consumer.perform_seek()
            sought = len(taken)
            await until(lambda: len(taken) >= sought + 9 - (committed or 0) + 4)
        after = taken[sought:]
        assert [offset for tp, offset in after if tp == PAGES] == list(range(committed or 0, 9))
        assert [offset for tp, offset in after if tp == LINKS] == list(range(5, 9))
        assert not any(consumer._gap.values())

    asyncio.run(run())


def test_a_batch_fetched_before_a_seek_is_not_handed_on_after_it() -> None:
    async def run() -> None:
        log = Log({PAGES: 3}, {PAGES: 9})
        async with consuming(log) as (consumer, taken):
            await until(lambda: len(taken) == 6)
            log.ends = {PAGES: 20}
            held = aiter(consumer.getmany(1.0))
            first = await anext(held)
            assert first[1].offset == 9
            await consumer.perform_seek()
            with pytest.raises(StopAsyncIteration):
                await anext(held)

    asyncio.run(run())


def test_a_seek_waits_for_a_fetch() -> None:
    async def run() -> None:
        log = Log({PAGES: 3, LINKS: 5}, {PAGES: 3, LINKS: 9})
        log.fetching = 0.05
        async with consuming(log) as (consumer, taken):
            await until(consumer._position.locked)
            consumer.pause_partitions({PAGES, LINKS})
            await consumer.seek_wait({LINKS: 6})
            await asyncio.sleep(2 * log.fetching)
            assert log.places[LINKS] == 6
            assert not taken

    asyncio.run(run())


def test_a_fetch_of_partitions_that_are_paused_brings_no_others() -> None:
    async def run() -> None:
        log = Log({PAGES: 3, LINKS: 5}, {PAGES: 3, LINKS: 9})
        log.fetching = 0.05
        async with consuming(log) as (consumer, taken):
            consumer.pause_partitions({LINKS})
            await until(consumer._position.locked)
            consumer.pause_partitions({PAGES})
            await asyncio.sleep(2 * log.fetching)
            assert log.places[LINKS] == 5
            assert not taken

    asyncio.run(run())


def test_new_partitions_begin_with_nothing_read() -> None:
    async def run() -> None:
        async with consuming(Log({PAGES: 3}, {PAGES: 3})) as (consumer, _):
            consumer._read_offset[PAGES] = 7
            seen = []

            async def assigned(*_: object) -> None:
                seen.append(consumer._read_offset[PAGES])

            consumer._on_partitions_assigned = assigned
            consumer.app.on_rebalance_start()
            await consumer.on_partitions_assigned({PAGES}, 1)
            assert seen == [None]

    asyncio.run(run())


def test_only_what_was_done_since_the_last_rebalance_is_acknowledged() -> None:
    async def run() -> None:
        async with consuming(Log({PAGES: 3}, {PAGES: 3})) as (consumer, _):
            topics: Any = consumer.app.topics
            topics._acking_topics.add(PAGES.topic)
            consumer.app.consumer_generation_id = 2
            done, passed, old = (consumer._to_message(PAGES, _record(PAGES, offset)) for offset in (3, 4, 5))
            for message in (done, old):
                consumer.track_message(message)
                message.tracked = True
            old.generation_id = 1
            assert [consumer.ack(message) for message in (done, passed, old)] == [True, False, False]
            assert consumer._acked[PAGES] == [3]
            assert not consumer.unacked

    asyncio.run(run())


def test_what_waits_is_counted_by_topic() -> None:
    async def run() -> None:
        async with consuming(Log({PAGES: 3, LINKS: None}, {PAGES: 9, LINKS: 4})) as (consumer, _):
            await consumer.perform_seek()
            assert consumer.waiting_messages() == {"pages": 6, "links": 4}

    asyncio.run(run())


def test_a_seek_that_nobody_answers_is_an_error() -> None:
    async def run() -> None:
        log = Log({PAGES: 3}, {PAGES: 3})
        async with consuming(log) as (consumer, _):
            consumer.app.conf.broker_request_timeout = 0.1
            log.pace = 10.0
            with pytest.raises(TimeoutError):
                await consumer.perform_seek()

    asyncio.run(run())


def test_resuming_twice_empties_the_queues_once() -> None:
    async def run() -> None:
        control = FlowControl()
        queue = faust.App("test", broker="kafka://127.0.0.1:1").FlowControlQueue(maxsize=5, clear_on_resume=True)
        control.manage_queue(queue)
        queue.force_put_nowait("before the rebalance")
        control.resume()
        assert queue.empty()
        queue.force_put_nowait("after it")
        control.resume()
        assert queue.get_nowait() == "after it"
        control.suspend()
        control.clear()
        assert not control.is_active()

    asyncio.run(run())

"""Test the corrected Faust consumer during rebalances, with a log in memory instead of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import faust
import pytest
from aiokafka.errors import OffsetOutOfRangeError
from faust.types import TP

from streams.kafka.worker.faust_consumer import Consumer, FlowControl, Transport

PAGES, LINKS = TP("pages", 0), TP("links", 0)


class FakeThread:
    """Replaces the consumer's thread: partitions with `ends` messages, and a position that a seek changes."""

    def __init__(self, committed: Mapping[TP, int | None], ends: Mapping[TP, int]) -> None:
        self.committed, self.ends = committed, ends
        self.offsets = {tp: offset or 0 for tp, offset in committed.items()}
        self.starts: dict[TP, int] = {}  # messages before these offsets have expired
        self.markers: set[int] = set()  # offsets without messages
        self.response_seconds = 0.0
        self.fetch_seconds = 0.0

    async def getmany(self, active: set[TP], timeout: float) -> dict[TP, list[SimpleNamespace]]:  # noqa: ASYNC109
        await asyncio.sleep(self.fetch_seconds or self.response_seconds)
        fetched = {}
        for tp in list(active) or list(self.ends):
            if self.offsets[tp] < self.starts.get(tp, 0):
                raise OffsetOutOfRangeError({tp: self.offsets[tp]})
            offsets = range(self.offsets[tp], self.ends[tp])
            fetched[tp] = [_record(tp, offset) for offset in offsets if offset not in self.markers]
            self.offsets[tp] = self.ends[tp]
        return {tp: records for tp, records in fetched.items() if records}

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        for tp, offset in self.committed.items():
            await asyncio.sleep(self.response_seconds)
            if offset:
                self.offsets[tp] = offset
        return self.committed

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        await asyncio.sleep(self.response_seconds)
        return {tp: self.starts.get(tp, 0) for tp in tps}

    async def seek_wait(self, offsets: Mapping[TP, int]) -> None:
        await asyncio.sleep(self.response_seconds)
        self.offsets.update(offsets)

    def highwater(self, tp: TP) -> int:
        return self.ends[tp]

    def positions(self, tps: Collection[TP]) -> dict[TP, int]:
        return {tp: self.offsets[tp] for tp in tps}

    def assignment(self) -> set[TP]:
        return set(self.ends)


def _record(tp: TP, offset: int) -> SimpleNamespace:
    fields = ("timestamp_type", "key", "value", "checksum", "serialized_key_size", "serialized_value_size")
    return SimpleNamespace(
        topic=tp.topic, partition=tp.partition, offset=offset, timestamp=0, headers=(), **dict.fromkeys(fields)
    )


@asynccontextmanager
async def consuming(
    thread: FakeThread, queue: list[Any] | None = None
) -> AsyncIterator[tuple[Consumer, list[tuple[TP, int]]]]:
    """Yield a consumer whose messages pass through Faust's fetch loop, and the messages that the loop delivers.

    If there is a queue, the messages wait there for an agent.
    """
    delivered: list[tuple[TP, int]] = []

    async def deliver(message: Any) -> None:
        delivered.append((message.tp, message.offset))
        if queue is not None:
            queue.append(message)

    app: Any = faust.App("test", broker="kafka://127.0.0.1:1", web_enabled=False)
    app.client_only = False
    consumer = Consumer(Transport([], app), deliver, None, None, loop=asyncio.get_running_loop())
    consumer._thread = cast("Any", thread)
    app._consumer = consumer
    consumer.resume_partitions(thread.assignment())
    consumer.resume_flow()
    fetcher: Any = SimpleNamespace(_stopped=asyncio.Event())
    drain = asyncio.create_task(consumer._drain_messages(fetcher))
    yield consumer, delivered
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def test_a_recovery_and_a_fetch_check_that_no_changelog_records_were_deleted_unread() -> None:
    async def run() -> None:
        checked: list[tuple[int, int]] = []
        thread = FakeThread({PAGES: 5, LINKS: 5}, {PAGES: 9, LINKS: 9})
        thread.starts = {PAGES: 7, LINKS: 7}
        async with consuming(thread) as (consumer, _):
            app: Any = consumer.app
            app.snapshots = SimpleNamespace(ensure_complete=lambda *start: checked.append(start))
            app.report_expired = nothing
            consumer._is_changelog_tp = lambda tp: tp == LINKS  # type: ignore[method-assign]
            assert await consumer.earliest_offsets(PAGES, LINKS) == {PAGES: 7, LINKS: 7}
            assert checked == [(0, 7)]
            thread.offsets[PAGES] = 7
            await until(lambda: checked == [(0, 7)] * 2)

    asyncio.run(run())


async def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize("committed", [3, None])
def test_all_messages_after_the_position_of_a_seek_are_delivered_again(committed: int | None) -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: committed, LINKS: 5}, {PAGES: 9, LINKS: 9})
        thread.response_seconds = 0.01
        async with consuming(thread) as (consumer, delivered):
            await until(lambda: delivered)
            # A rebalance leaves the offset of a message that never reached an agent.
            consumer._read_offset[PAGES] = 7
            delivered.clear()
            await consumer.perform_seek()
            sought = len(delivered)
            await until(lambda: len(delivered) >= sought + 9 - (committed or 0) + 4)
        after = delivered[sought:]
        assert [offset for tp, offset in after if tp == PAGES] == list(range(committed or 0, 9))
        assert [offset for tp, offset in after if tp == LINKS] == list(range(5, 9))
        assert not any(consumer._gap.values())

    asyncio.run(run())


def test_a_batch_fetched_before_a_seek_is_not_delivered_after_it() -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3}, {PAGES: 9})
        async with consuming(thread) as (consumer, delivered):
            await until(lambda: len(delivered) == 6)
            thread.ends = {PAGES: 20}
            messages = aiter(consumer.getmany(1.0))
            first = await anext(messages)
            assert first[1].offset == 9
            await consumer.perform_seek()
            with pytest.raises(StopAsyncIteration):
                await anext(messages)

    asyncio.run(run())


def test_a_seek_waits_for_a_fetch() -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3, LINKS: 5}, {PAGES: 3, LINKS: 9})
        thread.fetch_seconds = 0.05
        async with consuming(thread) as (consumer, delivered):
            await until(consumer._position_lock.locked)
            consumer.pause_partitions({PAGES, LINKS})
            await consumer.seek_wait({LINKS: 6})
            await asyncio.sleep(2 * thread.fetch_seconds)
            assert thread.offsets[LINKS] == 6
            assert not delivered

    asyncio.run(run())


def test_a_fetch_from_paused_partitions_returns_no_other_partitions() -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3, LINKS: 5}, {PAGES: 3, LINKS: 9})
        thread.fetch_seconds = 0.05
        async with consuming(thread) as (consumer, delivered):
            consumer.pause_partitions({LINKS})
            await until(consumer._position_lock.locked)
            consumer.pause_partitions({PAGES})
            await asyncio.sleep(2 * thread.fetch_seconds)
            assert thread.offsets[LINKS] == 5
            assert not delivered

    asyncio.run(run())


def test_the_last_offset_read_of_a_newly_assigned_partition_is_forgotten() -> None:
    async def run() -> None:
        async with consuming(FakeThread({PAGES: 3}, {PAGES: 3})) as (consumer, _):
            consumer._read_offset[PAGES] = 7
            seen = []

            async def assigned(*_: object) -> None:
                seen.append(consumer._read_offset[PAGES])

            consumer._on_partitions_assigned = assigned
            consumer.app.on_rebalance_start()
            await consumer.on_partitions_assigned({PAGES}, 1)
            assert seen == [None]

    asyncio.run(run())


def test_only_messages_processed_since_the_last_rebalance_are_acknowledged() -> None:
    async def run() -> None:
        async with consuming(FakeThread({PAGES: 3}, {PAGES: 3})) as (consumer, _):
            topics: Any = consumer.app.topics
            topics._acking_topics.add(PAGES.topic)
            consumer.app.consumer_generation_id = 2
            processed, skipped, old = (consumer._to_message(PAGES, _record(PAGES, offset)) for offset in (3, 4, 5))
            for message in (processed, old):
                consumer.track_message(message)
                message.tracked = True
            old.generation_id = 1
            assert [consumer.ack(message) for message in (processed, skipped, old)] == [True, False, False]
            assert consumer._acked[PAGES] == [3]
            assert not consumer.unacked

    asyncio.run(run())


def committable(consumer: Consumer) -> dict[TP, int]:
    return consumer._filter_committable_offsets(list(consumer._acked))


def start_processing(consumer: Consumer, message: Any) -> None:
    """Mark a message as in process, as a stream does when it takes the message from its queue."""
    topics: Any = consumer.app.topics
    topics._acking_topics.add(message.topic)
    consumer.track_message(message)
    message.tracked = True


def test_offsets_without_messages_are_committed_once_all_messages_before_them_are_acknowledged() -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3}, {PAGES: 9})
        thread.markers = {5, 6, 7, 8}
        queue: list[Any] = []
        async with consuming(thread, queue) as (consumer, delivered):
            await until(lambda: delivered)
            await consumer.perform_seek()
            queue.clear()
            await until(lambda: len(queue) == 2 and consumer._positions.get(PAGES) == 9)
            first, second = queue
            assert committable(consumer) == {}, "both messages wait for an agent"
            assert not consumer.unacked, "Faust waits for these messages when it stops"
            start_processing(consumer, first)
            assert committable(consumer) == {}
            assert consumer.ack(first)
            assert committable(consumer) == {PAGES: 4}, "the second message waits"
            start_processing(consumer, second)
            assert consumer.ack(second)
            assert committable(consumer) == {PAGES: 9}
            consumer._committed_offset[PAGES] = 9
            assert committable(consumer) == {}

    asyncio.run(run())


def test_a_position_after_undelivered_messages_is_not_committed() -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3}, {PAGES: 9})
        thread.markers = set(range(3, 9))
        async with consuming(thread) as (consumer, _):
            await until(lambda: thread.offsets[PAGES] == 9)
            assert committable(consumer) == {}, "no seek has made the positions valid"
            await consumer.perform_seek()
            await until(lambda: consumer._positions.get(PAGES) == 9)
            assert committable(consumer) == {PAGES: 9}
            skipped = consumer._to_message(PAGES, _record(PAGES, 8))
            assert not consumer.ack(skipped)
            assert committable(consumer) == {}
            await consumer.perform_seek()
            await until(lambda: consumer._positions.get(PAGES) == 9)
            consumer.stop_flow()
            assert committable(consumer) == {}

    asyncio.run(run())


@pytest.mark.parametrize(("start", "expected"), [(6, [(3, 6)]), (0, [])])
def test_expired_messages_are_reported_before_the_position_moves(start: int, expected: list[tuple[int, int]]) -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3}, {PAGES: 9})
        queue: list[Any] = []
        async with consuming(thread, queue) as (consumer, delivered):
            reported = []

            async def report_expired(topic: str, partition: int, start: int, end: int) -> None:
                assert thread.offsets[PAGES] == 3
                assert (topic, partition) == PAGES
                reported.append((start, end))

            consumer.app.report_expired = report_expired  # type: ignore[attr-defined]
            thread.starts = {PAGES: start}
            await consumer.perform_seek()
            delivered.clear()
            queue.clear()
            await until(lambda: len(delivered) >= 9 - max(start, 3))
            assert reported == expected
            first = max(start, 3)
            assert [offset for _, offset in delivered] == list(range(first, 9))
            for message in queue:
                start_processing(consumer, message)
                assert consumer.ack(message)
            assert committable(consumer) == {PAGES: 9}

    asyncio.run(run())


def test_waiting_messages_are_counted_by_topic() -> None:
    async def run() -> None:
        async with consuming(FakeThread({PAGES: 3, LINKS: None}, {PAGES: 9, LINKS: 4})) as (consumer, _):
            await consumer.perform_seek()
            assert consumer.waiting_messages() == {"pages": 6, "links": 4}

    asyncio.run(run())


def test_a_seek_without_a_response_is_an_error() -> None:
    async def run() -> None:
        thread = FakeThread({PAGES: 3}, {PAGES: 3})
        async with consuming(thread) as (consumer, _):
            consumer.app.conf.broker_request_timeout = 0.1
            thread.response_seconds = 10.0
            with pytest.raises(TimeoutError):
                await consumer.perform_seek()

    asyncio.run(run())


def test_a_second_resume_does_not_empty_the_queues() -> None:
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


def test_the_broker_never_holds_back_a_fetch_for_long() -> None:
    """Other requests on the same connection wait for the fetch, such as those of a rebalance."""

    async def create() -> Any:
        app = faust.App("test", broker="kafka://127.0.0.1:1")
        transport = Transport(app.conf.broker_consumer, app)
        consumer = Consumer(
            transport, callback=nothing, on_partitions_revoked=nothing, on_partitions_assigned=nothing
        )
        thread = consumer._new_consumer_thread()
        thread._assignor = app.assignor
        return thread._create_worker_consumer(transport)

    consumer = asyncio.run(create())
    assert consumer._fetch_max_wait_ms == 250
    assert (consumer._isolation_level, consumer._auto_offset_reset) == ("read_committed", "none")

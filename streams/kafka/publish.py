"""Sends crawl files to the topic `pages`, as one sweep."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from state.sweep_life import check_name
from streams.errors import BadUrl
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.page_messages import PageMessage
from streams.kafka.wire.producer import Producer, dead_letter
from streams.kafka.wire.sweep_log import Event, SweepLog
from streams.operators.routing import partition_of
from streams.page import Page, Rejected, with_time
from streams.readers.dispatch import read, total_bytes
from streams.readers.read_limits import ReadLimits
from streams.settings import KafkaSettings, Settings
from streams.urls import url_key

IN_FLIGHT_MAX = 100  # messages sent and not yet acknowledged
Report = Callable[[int, int, int], None]
"""Called with the bytes read, the bytes in total, and the pages read so far."""


class Published(msgspec.Struct, frozen=True):
    """What was sent; `rejected` counts the records that went to the dead letters, by reason."""

    sweep: str
    pages: int
    rejected: dict[str, int]
    committed: bool


async def publish(
    settings: Settings,
    broker: Broker,
    paths: Sequence[str],
    sweep: str,
    *,
    now: int,
    keep_open: bool = False,
    report: Report = lambda *_: None,
) -> Published:
    """Read `paths` and send their pages, then request the sweep's commit unless `keep_open`.

    Publishing the same pages again changes nothing. For that, a page without a time gets the time when the sweep was
    opened, as in the embedded engine.

    Raise InputError if the broker does not answer or topics are missing, LostfoundError if `sweep` is not a valid
    name.
    """
    check_name(sweep)
    kafka = settings.kafka
    counts = await topics.ensure(broker, kafka, partitions=None, create=kafka.create_topics)
    producer = Producer(broker, kafka, settings.scheme.id)
    await producer.start()
    rejected: Counter[str] = Counter()
    pages = 0
    try:
        sweep_log = SweepLog(broker, kafka, producer)
        opened = await _open_sweep(sweep_log, sweep, now)
        reader = read(paths, ReadLimits.from_settings(settings))
        bytes_all = total_bytes(paths)
        packs = _packs((item for _, item in reader), PagePacker(kafka, sweep), opened, counts.pages)
        in_flight: set[asyncio.Task[None]] = set()
        # Reading and decompressing files must not block the event loop.
        while (pack := await asyncio.to_thread(next, packs, None)) is not None:
            if isinstance(pack, Rejected):
                rejected[pack.reason] += 1
                await producer.send_dead_letters([dead_letter(pack)])
                continue
            in_flight.add(asyncio.create_task(_send(producer, pack)))
            pages += len(pack.pages)
            if len(in_flight) >= IN_FLIGHT_MAX:
                in_flight = await _wait_for_one(in_flight)
            report(reader.bytes_read, bytes_all, pages)
        await asyncio.gather(*in_flight)
        report(bytes_all, bytes_all, pages)
        if not keep_open:
            async with ConsumerLag(broker, kafka, counts) as lag:
                ends = await lag.end_offsets(Topic.PAGES)
            await sweep_log.append(Event(event="commit", name=sweep, time=now, end_offsets=ends))
    finally:
        await producer.stop()
    return Published(sweep, pages, dict(rejected), not keep_open)


async def _open_sweep(sweep_log: SweepLog, name: str, now: int) -> int:
    """Open a sweep unless it exists; return when it was opened, in ms."""
    await sweep_log.start()
    try:
        if sweep_log.table.find(name) is None:
            await sweep_log.append(Event(event="open", name=name, time=now))
            await sweep_log.wait_until(lambda table: table.find(name) is not None)
        sweep = sweep_log.table.find(name)
        assert sweep is not None
        return sweep.opened
    finally:
        await sweep_log.stop()


class Pack(NamedTuple):
    """The pages of one message, and the partition of `pages` to send it to."""

    partition: int
    pages: list[PageMessage]


class PagePacker:
    """Collects pages by partition until they fill a message."""

    def __init__(self, settings: KafkaSettings, sweep: str) -> None:
        self._pages_max, self._bytes_max = settings.pack_pages, settings.pack_bytes
        self._sweep = sweep
        self._pages: dict[int, list[PageMessage]] = {}
        self._bytes: Counter[int] = Counter()

    def add(self, partition: int, page: Page) -> list[Pack]:
        """Add a page; return the packs that it completes. A page larger than a pack gets its own."""
        completed = []
        page_bytes = len(page.body or page.text or "")
        if partition in self._pages and self._bytes[partition] + page_bytes > self._bytes_max:
            completed.append(self._remove(partition))
        self._pages.setdefault(partition, []).append(page_messages.to_message(page, self._sweep))
        self._bytes[partition] += page_bytes
        if len(self._pages[partition]) >= self._pages_max:
            completed.append(self._remove(partition))
        return completed

    def flush(self) -> list[Pack]:
        """Return the incomplete packs."""
        return [self._remove(partition) for partition in list(self._pages)]

    def _remove(self, partition: int) -> Pack:
        del self._bytes[partition]
        return Pack(partition, self._pages.pop(partition))


def _packs(
    items: Iterable[Page | Rejected], packer: PagePacker, opened: int, partitions: int
) -> Iterator[Pack | Rejected]:
    """Yield rejected records as they are read, and packs as they fill."""
    for item in items:
        if isinstance(item, Rejected):
            yield item
        else:
            yield from packer.add(_partition(item, partitions), with_time(item, opened))
    yield from packer.flush()


def _partition(page: Page, partitions: int) -> int:
    """Return the partition of a page: that of its URL, so that captures of a URL stay in order.

    A revisit goes to the partition of the URL that it repeats.
    """
    if page.revisit_of is not None:
        with suppress(BadUrl):
            return partition_of(url_key(page.revisit_of), partitions)
    return partition_of(page.key, partitions)


async def _send(producer: Producer, pack: Pack) -> None:
    await producer.send_message(Topic.PAGES, pack.partition, *page_messages.encode_pack(pack.pages))


async def _wait_for_one(in_flight: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until one of these tasks is done; return the others."""
    done, pending = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return pending

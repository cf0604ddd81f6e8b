"""Sending crawl files to the topic of pages, as one sweep."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from state.sweep_life import check_name
from streams.errors import BadUrl
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.page_messages import PageMessage
from streams.kafka.wire.producer import Producer, dead_letter
from streams.kafka.wire.sweep_log import Event, append_event
from streams.operators.routing import partition_of
from streams.page import Page, Rejected
from streams.readers.dispatch import read, total_bytes
from streams.readers.read_limits import ReadLimits
from streams.settings import KafkaSettings, Settings
from streams.urls import url_key

UNDER_WAY_MAX = 100  # messages sent and not yet acknowledged


class Published(msgspec.Struct, frozen=True):
    """What was sent. `rejected` counts records that went to the dead letters, by reason."""

    sweep: str
    pages: int
    rejected: dict[str, int]
    committed: bool


def publish(
    settings: Settings,
    broker: Broker,
    paths: Sequence[str],
    sweep: str,
    *,
    now: int,
    keep_open: bool = False,
    report: Callable[[int, int, int], None] = lambda *_: None,
) -> Published:
    """Read `paths` and send their pages; then ask for the sweep's commit, unless `keep_open`.

    `report` gets bytes read, bytes there are, and pages sent. May be repeated: a page that comes twice changes
    nothing.
    Raises InputError when the broker does not answer or the topics are missing, LostfoundError for what is no name.
    """
    check_name(sweep)
    return asyncio.run(_publish(settings, broker, paths, sweep, now, keep_open, report))


async def _publish(
    settings: Settings,
    broker: Broker,
    paths: Sequence[str],
    sweep: str,
    now: int,
    keep_open: bool,
    report: Callable[[int, int, int], None],
) -> Published:
    kafka, limits = settings.kafka, settings.limits
    counts = await topics.ensure(broker, kafka, partitions=None, create=kafka.create_topics)
    producer = Producer(broker, kafka, settings.scheme.id)
    await producer.start()
    rejected: Counter[str] = Counter()
    sent = 0
    try:
        await append_event(producer, Event(event="open", name=sweep, time=now))
        read_limits = ReadLimits.from_settings(settings)
        reading = read(paths, read_limits)
        all_bytes = total_bytes(paths)
        packs = Packs(kafka)
        under_way: set[asyncio.Task[Any]] = set()
        for _, item in reading:
            if isinstance(item, Rejected):
                rejected[item.reason] += 1
                await producer.send_dead_letters([dead_letter(item)])
                continue
            place = _place(item, limits.url_bytes_max, counts.pages)
            dated = item if item.time else msgspec.structs.replace(item, time=now)
            for pack in packs.add(place, dated, sweep):
                under_way.add(asyncio.create_task(_send(producer, place, pack)))
            sent += 1
            if len(under_way) >= UNDER_WAY_MAX:
                under_way = await _some(under_way)
                report(reading.bytes_read, all_bytes, sent)
        await asyncio.gather(*under_way, *(_send(producer, place, pack) for place, pack in packs.rest()))
        report(all_bytes, all_bytes, sent)
        if not keep_open:
            until = await producer.end_offsets(Topic.PAGES, counts.pages)
            await append_event(producer, Event(event="commit", name=sweep, time=now, until=until))
    finally:
        await producer.stop()
    return Published(sweep, sent, dict(rejected), not keep_open)


class Packs:
    """Pages of each partition, until they fill a message."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._pages_max, self._bytes_max = settings.pack_pages, settings.pack_bytes
        self._held: dict[int, list[PageMessage]] = {}
        self._bytes: Counter[int] = Counter()

    def add(self, place: int, page: Page, sweep: str) -> Iterator[list[PageMessage]]:
        """Take a page; yields what it fills. A page that is larger than a pack goes alone."""
        size = len(page.body or page.text or "")
        if place in self._held and self._bytes[place] + size > self._bytes_max:
            yield self._out(place)
        self._held.setdefault(place, []).append(page_messages.to_message(page, sweep))
        self._bytes[place] += size
        if len(self._held[place]) >= self._pages_max:
            yield self._out(place)

    def _out(self, place: int) -> list[PageMessage]:
        del self._bytes[place]
        return self._held.pop(place)

    def rest(self) -> Iterator[tuple[int, list[PageMessage]]]:
        """What is left, by partition."""
        for place in list(self._held):
            yield place, self._out(place)


async def _send(producer: Producer, place: int, pack: list[PageMessage]) -> None:
    await producer.send_message(Topic.PAGES, place, *page_messages.encode_pack(pack))


async def _some(under_way: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    done, waiting = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return waiting


def _place(page: Page, url_bytes_max: int, partitions: int) -> int:
    """One partition a URL, so that its captures keep their order; a revisit goes where what it repeats went."""
    if page.revisit_of is not None:
        with suppress(BadUrl):
            return partition_of(url_key(page.revisit_of, url_bytes_max), partitions)
    return partition_of(page.key, partitions)

"""Sending crawl files to the topic of pages, as one sweep."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from streams.errors import BadUrl, InputError
from streams.faust_engine import pages, topics
from streams.faust_engine.broker import Broker
from streams.faust_engine.control import Event, append
from streams.faust_engine.messages import Topic
from streams.faust_engine.outbox import Outbox, letter
from streams.operators.routing import partition_of
from streams.readers import ReadLimits, read, size
from streams.settings import Settings
from streams.urls import url_key
from streams.values import Page, Rejected

UNDER_WAY_MAX = 500  # pages sent and not yet acknowledged


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
    Raises InputError when the broker does not answer or the topics are missing.
    """
    if not sweep or len(sweep) > 200 or not sweep.isprintable():
        raise InputError(f"{sweep!r} is no name for a sweep", "use 1 to 200 printable characters, such as 2026-11")
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
    partitions = await topics.ensure(broker, kafka, partitions=None, create=kafka.create_topics)
    outbox = Outbox(broker, kafka, settings.scheme.id)
    await outbox.start()
    rejected: Counter[str] = Counter()
    sent = 0
    try:
        await append(outbox, Event("open", sweep, now))
        read_limits = ReadLimits.of(settings)
        reading = read(paths, read_limits)
        all_bytes = size(paths)
        under_way: set[asyncio.Task[Any]] = set()
        for _, item in reading:
            if isinstance(item, Rejected):
                rejected[item.reason] += 1
                await outbox.refuse([letter(item)])
                continue
            place = _place(item, limits.url_bytes_max, partitions)
            value, headers = pages.encode(item if item.time else msgspec.structs.replace(item, time=now), sweep)
            under_way.add(asyncio.create_task(outbox.raw(Topic.PAGES, place, value, headers)))
            sent += 1
            if len(under_way) >= UNDER_WAY_MAX:
                under_way = await _some(under_way)
                report(reading.bytes_done, all_bytes, sent)
        await asyncio.gather(*under_way)
        report(all_bytes, all_bytes, sent)
        if not keep_open:
            until = await outbox.ends(Topic.PAGES, partitions)
            await append(outbox, Event("commit", sweep, now, until))
    finally:
        await outbox.stop()
    return Published(sweep, sent, dict(rejected), not keep_open)


async def _some(under_way: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    done, waiting = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return waiting


def _place(page: Page, url_bytes_max: int, partitions: int) -> int:
    """One partition a URL, so that its captures keep their order; a revisit goes where what it repeats went."""
    for url in (page.revisit_of, page.url):
        if url is not None:
            with suppress(BadUrl):
                return partition_of(url_key(url, url_bytes_max), partitions)
    return 0  # a worker refuses it there

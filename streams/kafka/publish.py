"""Send the pages of crawl files to the topic `pages`, as one sweep."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import msgspec

from state.sweep_life import check_name
from streams.errors import BadUrl, NoPages
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.broker import Broker
from streams.kafka.wire.consumer_lag import ConsumerLag
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.page_messages import PageMessage
from streams.kafka.wire.producer import Producer, to_dead_letter
from streams.kafka.wire.sweep_log import Event, SweepLog
from streams.manual import manual_command
from streams.operators.routing import partition_of
from streams.page import NotAPage, Page, Rejected, with_default_time
from streams.readers.dispatch import InputReader, list_files, read, total_bytes
from streams.readers.file_counts import POSTPONED_RESPONSES_MAX, FileCounts, join_names
from streams.readers.read_limits import ReadLimits
from streams.readers.read_options import ReadOptions
from streams.settings import KafkaSettings, Policy, Settings
from streams.sketch.content_kind import is_page
from streams.urls import url_key

IN_FLIGHT_MAX = 100  # messages sent but not yet acknowledged
ReportProgress = Callable[[int, int, int], None]  # receives the bytes read, the bytes in total, and the pages sent


class Published(msgspec.Struct, frozen=True):
    """The result of `publish`."""

    sweep: str
    pages: int  # number of pages sent
    rejected: dict[str, int]  # number of records sent as dead letters, by reason
    commit_requested: bool = msgspec.field(name="committed")


class Pack(NamedTuple):
    """The pages of one message, and the partition to which the message is sent."""

    partition: int
    pages: list[PageMessage]


async def publish(
    settings: Settings,
    broker: Broker,
    paths: Sequence[str],
    sweep: str,
    *,
    now: int,
    keep_open: bool = False,
    on_progress: ReportProgress = lambda *_: None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - immutable
) -> Published:
    """Send the pages of the files in `paths`. Then request the commit of the sweep, unless `keep_open`.

    A page without a time gets the sweep's opening time (`now` for a new sweep), so that publishing the same pages
    again changes nothing. Raise NoPages, and do not open the sweep, if the files contain no page. Raise InputError if
    the broker does not answer or topics are missing, and LostfoundError for an invalid sweep name.
    """
    check_name(sweep)
    kafka = settings.kafka
    partition_counts = await topics.ensure(broker, kafka, partitions=None, create=kafka.create_topics)
    producer = Producer(broker, kafka, settings.scheme.id)
    await producer.start()
    pages_sent = 0
    try:
        sweep_log = SweepLog(broker, kafka, producer)
        reader = read(paths, ReadLimits.from_settings(settings), options=options)
        bytes_total = total_bytes(paths, options)
        file_names = [source.name for source in list_files(paths, options)]
        counts = FileCounts()
        read_items = _count_items(reader, counts, settings.policy)
        first_items = await _read_first_page(read_items, producer, settings)
        if not first_items:
            raise NoPages(
                f"no page found in {join_names(file_names)}: {counts.describe(file_names)}",
                f"no sweep was opened or committed; {manual_command('formats-input')} lists the supported formats",
            )
        opened_time = await _open_sweep(sweep_log, sweep, now)
        items = pack_pages(chain(first_items, read_items), kafka, sweep, opened_time, partition_counts.published)
        in_flight: set[asyncio.Task[int]] = set()
        # Files are read and decompressed in a thread, so that the event loop is not blocked.
        while (item := await asyncio.to_thread(next, items, None)) is not None:
            if isinstance(item, Rejected):
                await producer.send_dead_letters([to_dead_letter(item)])
                continue
            value, headers = page_messages.encode_pack(item.pages)
            in_flight.add(asyncio.create_task(producer.send_encoded(Topic.PAGES, item.partition, value, headers)))
            pages_sent += len(item.pages)
            if len(in_flight) >= IN_FLIGHT_MAX:
                done, in_flight = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.gather(*done)  # raises the error of a failed send
            on_progress(reader.bytes_read, bytes_total, pages_sent)
        await asyncio.gather(*in_flight)
        on_progress(bytes_total, bytes_total, pages_sent)
        if not keep_open:
            async with ConsumerLag(broker, kafka, partition_counts) as lag:
                end_offsets = await lag.end_offsets(Topic.PAGES)
            await sweep_log.append(Event(event="commit", name=sweep, time=now, end_offsets=end_offsets))
    finally:
        await producer.stop()
    counts.warn_about_files_without_pages(file_names)
    return Published(sweep, pages_sent, counts.rejections(), not keep_open)


def _count_items(reader: InputReader, counts: FileCounts, policy: Policy) -> Iterator[Page | Rejected]:
    for _, item in reader:
        if isinstance(item, Rejected):
            counts.add_rejected(item)
        elif is_page(item, policy):
            counts.add_page(item.origin.source)
        else:
            counts.add_not_a_page(NotAPage(item.mime, item.origin))
        yield item


async def _read_first_page(items: Iterator[Page | Rejected], producer: Producer, settings: Settings) -> list[Page]:
    """Read up to the first page and send the rejected records before it as dead letters.

    Return the page and the responses before it, which are not pages, or an empty list if no page follows. The sweep
    is opened afterwards, because a sweep without pages would make all known URLs missing. If there are too many such
    responses to keep in memory, the input is accepted as a crawl even without a page.
    """
    postponed: list[Page] = []
    postponed_bytes = 0
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        if isinstance(item, Rejected):
            await producer.send_dead_letters([to_dead_letter(item)])
            continue
        postponed.append(item)
        postponed_bytes += len(item.body or item.text or "")
        is_full = len(postponed) >= POSTPONED_RESPONSES_MAX or postponed_bytes >= settings.ingest.batch_bytes
        if is_full or is_page(item, settings.policy):
            return postponed
    return []


async def _open_sweep(sweep_log: SweepLog, name: str, now: int) -> int:
    """Open the sweep if it does not exist. Return the time in ms when it was opened."""
    await sweep_log.start()
    try:
        await sweep_log.join()
        number = await sweep_log.get_or_open(name, now)
        return sweep_log.table.sweeps[number].opened_time
    finally:
        await sweep_log.stop()


def pack_pages(
    items: Iterable[Page | Rejected], settings: KafkaSettings, sweep: str, opened_time: int, partition_count: int
) -> Iterator[Pack | Rejected]:
    """Group pages by partition into packs and pass on rejections. A page over `pack_bytes` gets its own pack."""
    packs: dict[int, list[PageMessage]] = {}
    pack_sizes: Counter[int] = Counter()
    for item in items:
        if isinstance(item, Rejected):
            yield item
            continue
        partition, page_size = _partition_of_page(item, partition_count), len(item.body or item.text or "")
        if partition in packs and pack_sizes[partition] + page_size > settings.pack_bytes:
            yield Pack(partition, packs.pop(partition))
        if partition not in packs:
            packs[partition], pack_sizes[partition] = [], 0
        packs[partition].append(page_messages.to_message(with_default_time(item, opened_time), sweep))
        pack_sizes[partition] += page_size
        if len(packs[partition]) >= settings.pack_pages:
            yield Pack(partition, packs.pop(partition))
    for partition, pages in packs.items():
        yield Pack(partition, pages)


def _partition_of_page(page: Page, partition_count: int) -> int:
    """Return the partition for the page's URL or, for a revisit, the partition for the URL of the original capture.

    All captures of a URL are sent to one partition, which keeps them in order.
    """
    if page.original_url is not None:
        with suppress(BadUrl):
            return partition_of(url_key(page.original_url), partition_count)
    return partition_of(page.key, partition_count)

"""Test hostile bytes in every field of a record, as written by a producer that bypasses the client's checks."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.record.util import calc_crc32c

from streams.kafka.wire.consumer_lag import CONSUMED_TOPICS
from streams.kafka.wire.packed_messages import VALUE_TYPES
from tests.broker.results import read
from tests.broker.test_crawlers import TEXT, page

BAD_NAME, BAD_NAME_BYTES = "bad-name", b"bad\xffname"
BATCH_BYTES_MAX = 4 << 20
NOW = time.time_ns() // 1_000_000


class Record(NamedTuple):
    value: bytes | None = b"\xff"
    key: bytes | None = b"\xff\0"
    timestamp: int = NOW  # the broker deletes records with old times
    headers: Sequence[tuple[str, bytes | None]] = ()


async def send(collection: Any, topic: str, records: Sequence[Record], codec: str | None = None) -> None:
    """Send one batch to partition 1, or 0 of `sweeps`. The header name BAD_NAME becomes one that is not UTF-8."""
    producer = AIOKafkaProducer(
        bootstrap_servers=collection.bootstrap,
        compression_type=codec,
        max_batch_size=1 << 28,
        max_request_size=1 << 28,
    )
    await producer.start()
    try:
        batch = producer.create_batch()
        for record in records:
            fields = record._asdict() | {"headers": list(record.headers)}
            assert batch.append(**fields) is not None
        data = bytes(batch._build()).replace(BAD_NAME.encode(), BAD_NAME_BYTES)
        batch._buffer = data[:17] + calc_crc32c(data[21:]).to_bytes(4, "big") + data[21:]
        partition = 0 if topic == "sweeps" else 1
        await (await producer.send_batch(batch, f"{collection.prefix}-{topic}", partition=partition))
    finally:
        await producer.stop()


async def allow_any_timestamp(collection: Any) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=collection.bootstrap)
    await admin.start()
    try:
        names = [f"{collection.prefix}-{topic.value}" for topic in CONSUMED_TOPICS]
        configs = {"message.timestamp.after.max.ms": str((1 << 63) - 1), "max.message.bytes": str(1 << 25)}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs) for name in names])
    finally:
        await admin.close()


BATCHES: list[tuple[list[Record], str | None]] = [
    ([Record(headers=[(BAD_NAME, b"\xff")])], None),
    ([Record(headers=[("schema", b"\xff"), ("scheme", b"\xff" * 1000), ("", None)])], None),
    ([Record(headers=[("many", b"")] * 20_000)], None),
    ([Record(headers=[("x" * 100_000, b"x" * 100_000)])], "gzip"),
    ([Record(key=None)], None),
    ([Record(value=None, key=b"")], None),
    ([Record(value=None, key=None)], None),
    ([Record(key=b"k" * (1 << 20))], "lz4"),
    ([Record(value=b"")], None),
    ([Record(value=b"\0" * (1 << 23))], None),
    ([Record(timestamp=-1), Record(timestamp=0), Record(timestamp=1)], None),
    ([Record(timestamp=(1 << 62))], None),
    ([Record(value=b"\0" * (64 << 20))], "zstd"),
    ([Record(value=b"\0" * (64 << 20))], "gzip"),
]
EVENTS: list[bytes | None] = [
    None,
    b"\xff",
    b"[" * 100_000,
    b'{"event": "open", "name": "negative", "time": -1}',
    b'{"event": "open", "name": "huge", "time": 1000000000000000000000}',
    b'{"event": "open", "name": "late", "time": 9223372036854775807}',
    b'{"event": "open", "name": "\\u0000", "time": 1}',
    b'{"event": "open", "name": "", "time": 1}',
    b'{"event": "reached", "name": "live", "time": 1, "captures": -1, "number": 99999999999999999999}',
    b'{"event": "reached", "name": "no sweep", "time": 1, "captures": 9223372036854775807, "number": 4294967295}',
    b'{"event": "cancelled", "name": "live", "time": 1, "number": -1}',
    b'{"event": "commit", "name": "live", "time": 1, "end_offsets": [-1, 36893488147419103232, "x"]}',
    b'{"event": "expired", "time": 1, "partition": -1, "end_offset": 36893488147419103232}',
    b'{"event": "expired", "time": 1, "start_offset": 9, "end_offset": 3}',
]


@pytest.fixture
def collection(make_collection: Callable[..., Any]) -> Any:
    collection = make_collection(2)
    setting = f"batch_bytes_max = {BATCH_BYTES_MAX}\n"
    collection.config.write_text(collection.config.read_text().replace("[kafka]\n", f"[kafka]\n{setting}"))
    asyncio.run(allow_any_timestamp(collection))
    return collection


def test_hostile_records_become_dead_letters_and_stop_no_worker(collection: Any) -> None:
    async def send_all() -> None:
        for topic in CONSUMED_TOPICS:
            for records, codec in BATCHES:
                await send(collection, topic.value, records, codec)
        for value in EVENTS:
            await send(collection, "sweeps", [Record(value=value)])
        await send(collection, "sweeps", [Record(value=b"{}", headers=[(BAD_NAME, b"")])])

    good = [Record(value=page(str(n), text=TEXT * (n + 2)), headers=[("crawler", b"x")]) for n in range(4)]
    good.insert(2, good[0]._replace(headers=[("crawler", b"x"), (BAD_NAME, b"y")]))
    late = page("late", text=TEXT * 9)
    timed = [Record(value=late, timestamp=stamp) for stamp in (-1, 0, 1 << 62)]
    asyncio.run(send(collection, "pages", good))
    asyncio.run(send_all())
    asyncio.run(send(collection, "pages", timed))
    collection.run_workers("a", "b")
    letters = [letter for _, letter in read(collection, "dead-letters")]
    assert all(letter["reason"] and letter["detail"] for letter in letters)
    positions = {(letter["source"].removeprefix(f"{collection.prefix}-"), letter["offset"]) for letter in letters}
    count = sum(len(records) for records, _ in BATCHES)
    assert {topic for topic, _ in positions} == {topic.value for topic in CONSUMED_TOPICS}
    assert {letter["partition"] for letter in letters} == {1}
    for topic in VALUE_TYPES:
        assert {offset for name, offset in positions if name == topic.value} == set(range(count))
    assert {offset for name, offset in positions if name == "pages"} == {2, *range(5, 5 + count), 5 + count + 2}
    (bad_name,) = [letter for letter in letters if letter["offset"] == 2 and letter["source"].endswith("-pages")]
    assert bad_name["detail"] == "the name of a header is not UTF-8: b'bad\\xffname'"
    urls = {url for _, urls in collection.clusters("a", "b") for url in urls}
    assert urls == {f"http://crawled.example/{name}" for name in (*range(4), "late")}


def test_foreign_records_in_the_changelog_are_ignored(collection: Any) -> None:
    asyncio.run(send(collection, "pages", [Record(value=page("a", text=TEXT))]))
    collection.run_workers("a")
    foreign = [records for records, _ in BATCHES[:7]]
    for records in foreign:
        asyncio.run(send(collection, "state-changelog", records))
    asyncio.run(send(collection, "pages", [Record(value=page("b", text=TEXT * 2))]))
    collection.run_workers("a")
    shutil.rmtree(collection.folder / "a")
    collection.run_workers("a")
    urls = {url for _, urls in collection.clusters("a") for url in urls}
    assert urls == {"http://crawled.example/a", "http://crawled.example/b"}
    log = (collection.folder / "a.log").read_text()
    assert "ignoring a changelog record that no worker wrote" in log

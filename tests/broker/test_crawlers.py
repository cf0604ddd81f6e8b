"""Test messages of crawlers: other JSON formats, every compression codec, and pointers to WARC records."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.broker.results import read

TEXT = "Every evening the keeper lit the lamp, wrote the weather into a book and waited for the ships to pass by. "


def page(name: str, **fields: Any) -> bytes:
    return json.dumps({"url": f"http://crawled.example/{name}", **fields}).encode()


async def send(collection: Any, messages: list[tuple[str | None, bytes, list[tuple[str, bytes]]]]) -> None:
    for codec, value, headers in messages:
        producer = AIOKafkaProducer(bootstrap_servers=collection.bootstrap, compression_type=codec)
        await producer.start()
        try:
            await producer.send_and_wait(f"{collection.prefix}-pages", value, key=b"k", partition=1, headers=headers)
        finally:
            await producer.stop()


async def crawl(bootstrap: str, topic: str, partitions: int, values: list[bytes]) -> None:
    """Write like a crawler that does not know lostfound: its own topic and partition count, no keys, no headers."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await admin.start()
    await producer.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
        for number, value in enumerate(values):
            await producer.send_and_wait(topic, value, partition=number % partitions)
    finally:
        await producer.stop()
        await admin.close()


def test_workers_read_a_topic_of_a_crawler(make_collection: Callable[..., Any], tmp_path: Path) -> None:
    collection = make_collection(2)
    topic = f"{collection.prefix}.crawled_firehose"
    setting = f'pages_topic = "{topic}"\ndefault_format = "scrapy-cluster"\n'
    collection.config.write_text(collection.config.read_text().replace("[kafka]\n", f"[kafka]\n{setting}"))
    assert f"the topic {topic} with the crawler's pages does not exist" in collection("topics", "create", code=2)
    values = [page(f"scrapy-{n}", body=f"<p>{n} {TEXT}", status_code=200, crawlid="weekly") for n in range(12)]
    values.append(b"no page")
    asyncio.run(crawl(collection.bootstrap, topic, 5, values))
    assert "with 2 partitions" in collection("topics", "create")
    collection("publish", write_sample(tmp_path), "--sweep", "weekly")
    collection.run_workers("a", "b")
    assert {url for _, urls in collection.clusters("a", "b") for url in urls} == {
        *(f"http://crawled.example/scrapy-{n}" for n in range(12)),
        "http://crawled.example/published",
    }
    ((_, letter),) = read(collection, "dead-letters")
    assert (letter["reason"], letter["source"], letter["partition"]) == ("bad_message", topic, 12 % 5)
    sweep = json.loads(collection.run_until_success("sweep", "list", "--json", "--server", collection.serve("a")))
    assert (sweep["sweep"], sweep["state"], sweep["captures"]) == ("weekly", "committed", 13)


def write_sample(folder: Path) -> Path:
    """Write a crawl file of one page."""
    (folder / "one.jsonl").write_bytes(page("published", text=TEXT * 3) + b"\n")
    return folder / "one.jsonl"


def test_workers_read_the_message_formats_of_crawlers(make_collection: Callable[..., Any], tmp_path: Path) -> None:
    collection = make_collection(2)
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + TEXT.encode()
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://crawled.example/warc\r\n"
        b"WARC-Date: 2020-01-02T03:04:05Z\r\nContent-Type: application/http\r\n"
        b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(block), block)
    )
    (tmp_path / "warcs").mkdir()
    (tmp_path / "warcs" / "a.warc").write_bytes(record)
    config = collection.config.read_text()
    collection.config.write_text(config + f'\n[ingest]\nwarc_folder = "{tmp_path / "warcs"}"\n')
    pointer = {"warc_record_offset": 0, "warc_record_length": len(record)}
    body = base64.b64encode(TEXT.encode()).decode()
    messages: list[tuple[str | None, bytes, list[tuple[str, bytes]]]] = [
        (packed, page(packed or "plain", text=TEXT * 20), []) for packed in (None, "gzip", "snappy", "lz4", "zstd")
    ]
    messages += [
        (None, page("scrapy", body=f"<p>{TEXT}", status_code=200, crawlid=""), [("format", b"scrapy-cluster")]),
        (None, page("ache", content=body, content_type="text/html", fetch_time=5_000), [("format", b"ache")]),
        (None, page("warc", warc_filename="a.warc", **pointer), []),
        (None, page("out", warc_filename="../a.warc", **pointer), []),
        (None, page("net", warc_filename="http://crawled.example/a.warc", **pointer), []),
    ]
    asyncio.run(send(collection, messages))
    collection.run_workers("a")
    urls = {url for _, urls in collection.clusters("a") for url in urls}
    names = ("plain", "gzip", "snappy", "lz4", "zstd", "scrapy", "ache", "warc")
    assert urls == {f"http://crawled.example/{name}" for name in names}
    letters = [message for _, message in read(collection, "dead-letters")]
    assert [(letter["reason"], letter["url"]) for letter in letters] == [
        ("bad_pointer", "http://crawled.example/out"),
        ("bad_pointer", "http://crawled.example/net"),
    ]

"""Messages as crawlers send them: in their own forms, packed by any means, or pointing to a WARC record."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.broker.results import read

TEXT = "Every evening the keeper lit the lamp, wrote the weather into a book and waited for the ships to pass by. "


def page(name: str, **fields: Any) -> bytes:
    return json.dumps({"url": f"http://crawled.example/{name}", **fields}).encode()


async def send(made: Any, messages: list[tuple[str | None, bytes, list[tuple[str, bytes]]]]) -> None:
    for packed_by, value, headers in messages:
        producer = AIOKafkaProducer(bootstrap_servers=made.bootstrap, compression_type=packed_by)
        await producer.start()
        try:
            await producer.send_and_wait(f"{made.prefix}-pages", value, key=b"k", partition=1, headers=headers)
        finally:
            await producer.stop()


def test_pages_come_as_crawlers_send_them(collection: Callable[..., Any], tmp_path: Path) -> None:
    made = collection(2)
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + TEXT.encode()
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://crawled.example/warc\r\n"
        b"WARC-Date: 2020-01-02T03:04:05Z\r\nContent-Type: application/http\r\n"
        b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(block), block)
    )
    (tmp_path / "warcs").mkdir()
    (tmp_path / "warcs" / "a.warc").write_bytes(record)
    config = made.config.read_text()
    made.config.write_text(config + f'\n[ingest]\nwarc_folder = "{tmp_path / "warcs"}"\n')
    pointer = {"warc_record_offset": 0, "warc_record_length": len(record)}
    body = base64.b64encode(TEXT.encode()).decode()
    messages = [
        (packed, page(packed or "plain", text=TEXT * 20), []) for packed in (None, "gzip", "snappy", "lz4", "zstd")
    ]
    messages += [
        (None, page("scrapy", body=f"<p>{TEXT}", status_code=200, crawlid=""), [("format", b"scrapy-cluster")]),
        (None, page("ache", content=body, content_type="text/html", fetch_time=5_000), [("format", b"ache")]),
        (None, page("warc", warc_filename="a.warc", **pointer), []),
        (None, page("out", warc_filename="../a.warc", **pointer), []),
        (None, page("net", warc_filename="http://crawled.example/a.warc", **pointer), []),
    ]
    asyncio.run(send(made, messages))
    made.work("a")
    held = {url for _, urls in made.clusters("a") for url in urls}
    names = ("plain", "gzip", "snappy", "lz4", "zstd", "scrapy", "ache", "warc")
    assert held == {f"http://crawled.example/{name}" for name in names}
    letters = [message for _, message in read(made, "dead-letters")]
    assert [(letter["reason"], letter["url"]) for letter in letters] == [
        ("bad_pointer", "http://crawled.example/out"),
        ("bad_pointer", "http://crawled.example/net"),
    ]

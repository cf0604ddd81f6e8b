"""Test malformed messages of every kind on every partition: workers reject them with a reason and keep running."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from state.changes import Changes
from state.codecs import changelog_record
from state.families import Family
from state.model import Capture
from state.scheme import Scheme
from streams.kafka.wire import packed_messages, page_messages
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import (
    BucketProbe,
    CandidatePair,
    DocumentPayload,
    Sighting,
    SketchedPage,
    VerifyRequest,
)
from streams.page import Origin, Page
from tests.broker.test_worker import SWEEPS, publish_all, read

Poison = tuple[str, bytes | None, list[tuple[str, bytes | None]]]
URL = "http://a.example/"
ID, LATER_ID = b"d" * 16, b"e" * 16
PACKED: list[tuple[str, bytes | None]] = [("content-type", b"application/msgpack")]
NUL, DEEP = b"\0" * 100, 100_000


def json_pages() -> Iterator[bytes | None]:
    yield from (None, b"", b" ", NUL, b"no json", b"\xff\xfe no json", b"[]", b"null", b"7", b'"text"', b"{}")
    yield b"[" * DEEP
    yield b'{"url": ' + b"[" * DEEP
    yield b'{"url": "http://a.example/", "text": "cut off'
    for fields in (
        {"url": 7},
        {"url": None, "text": "a"},
        {"url": "mailto:reader", "text": "a"},
        {"url": "http://a.example/" + "x" * 5000, "text": "a"},
        {"url": "http://[", "text": "a"},
        {"url": URL},
        {"url": URL, "text": 7},
        {"url": URL, "text": ["a"]},
        {"url": URL, "text": "\0" * 50},
        {"url": URL, "html": "<p>" * 100},
        {"url": URL, "body_base64": "***"},
        {"url": URL, "body_base64": "YQ=="[:3]},
        {"url": URL, "text": "a", "fetch_time": "yesterday"},
        {"url": URL, "text": "a", "fetch_time": -5},
        {"url": URL, "text": "a", "fetch_time": 10**30},
        {"url": URL, "text": "a", "fetch_time": "9999-99-99"},
        {"url": URL, "text": "a", "fetch_time": {"now": 1}},
        {"url": URL, "text": "a", "fetch_status": 99999},
        {"url": URL, "text": "a", "fetch_status": "many"},
        {"url": URL, "text": "a", "crawl": "\0"},
        {"url": URL, "text": "a", "crawl": "x" * 5000},
        {"url": URL, "text": "a", "crawl": 7},
        {"url": URL, "text": "a " * 6_000_000},
    ):
        yield json.dumps(fields).encode()
    yield b'{"url": "http://a.example/", "text": "\xc3\x28"}'
    yield b'{"url": "http://a.example/", "text": "\\ud800"}'


def packed_pages() -> Iterator[bytes]:
    yield from (b"", b"\xc1", b"\x80", b"\x90", b"\x91" * DEEP, b"\xdf\xff\xff\xff\xff")
    good = Page(url=URL, time=1_700_000_000_000, text="a few words of text")
    for fields in (
        {"time": -1},
        {"time": 1 << 60},
        {"status": -1},
        {"status": 1 << 20},
        {"original_url": "nowhere"},
        {"original_url": URL, "original_time": -(1 << 60), "text": None},
        {"redirect": "http://a.example/" + "x" * 70_000, "status": 301, "text": None},
        {"url": "\0"},
        {"url": ""},
        {"origin": Origin("s" * 1_000_000, 1, "m" * 1_000_000), "url": "nowhere"},
    ):
        yield msgspec.msgpack.encode(page_messages.to_message(msgspec.structs.replace(good, **fields), "2023-03"))
    good_message = msgspec.msgpack.decode(msgspec.msgpack.encode(page_messages.to_message(good, "2023-03")))
    for bad_fields in ({"time": "now"}, {"url": 7}, {"body": 7}, {"status": None}, {"crawl": "x" * 300}):
        yield msgspec.msgpack.encode(good_message | bad_fields)


def impossible_messages() -> Iterator[tuple[Topic, msgspec.Struct]]:
    """Messages between operators with the right types and impossible values."""
    scheme = Scheme()
    valid = Capture(key=b"example,a)/", url=URL, sweep=1, time=5, status=200, document=None, raw_fingerprint=b"")
    for fields in (
        {"key": b""},
        {"key": b"a\0b"},
        {"sweep": -1},
        {"sweep": 1 << 40},
        {"time": -1},
        {"time": 1 << 62},
        {"status": 1 << 20},
        {"document": b"short"},
        {"raw_fingerprint": b"short"},
        {"redirect": "x" * 70_000},
        {"tiebreaker": 1 << 20},
    ):
        yield Topic.CAPTURES, SketchedPage(capture=msgspec.structs.replace(valid, **fields))
    payload = DocumentPayload(
        document=ID, row=b"\1no row", buckets=b"b" * scheme.bucket_bytes, samples=b"s" * 4, text=b""
    )
    yield Topic.CAPTURES, SketchedPage(capture=msgspec.structs.replace(valid, document=LATER_ID), payload=payload)
    yield Topic.CAPTURES, SketchedPage(capture=valid, payload=None, words=b"cut")
    yield Topic.DOCUMENTS, Sighting(document=b"short", key=b"example,a)/", time=5, words=b"", payload=None)
    yield Topic.DOCUMENTS, Sighting(document=ID, key=b"example,a)/", time=-5, words=b"", payload=None)
    yield Topic.DOCUMENTS, Sighting(document=ID, key=b"example,a)/", time=5, words=b"cut", payload=None)
    yield Topic.DOCUMENTS, Sighting(document=ID, key=b"example,a)/", time=5, words=b"", payload=payload)
    yield (
        Topic.DOCUMENTS,
        Sighting(
            document=ID,
            key=b"example,a)/",
            time=5,
            words=b"",
            payload=msgspec.structs.replace(payload, buckets=b"cut"),
        ),
    )
    yield Topic.DOCUMENTS, CandidatePair(b"short", b"abcde", 1)
    yield Topic.DOCUMENTS, CandidatePair(ID, b"abcdef", 1)
    yield Topic.DOCUMENTS, VerifyRequest(document=ID, row=b"\1no row", prefix=b"abcde")
    yield Topic.BUCKETS, BucketProbe(ID, b"cut")
    yield Topic.BUCKETS, BucketProbe(ID, b"")
    yield Topic.BUCKETS, BucketProbe(b"short", b"b" * scheme.bucket_bytes)
    yield Topic.JOINS, Union(ID, LATER_ID)
    yield Topic.JOINS, Union(ID, ID)
    yield Topic.JOINS, Union(b"short", b"")
    yield Topic.JOINS, MemberTransfer(ID, (b"short",))
    yield Topic.JOINS, MemberTransfer(LATER_ID, (ID,))
    for family, kind in ((Family.META, changelog_record.RETRACTION), (Family.TEXTS, changelog_record.FACTS)):
        changes = Changes()
        changes.put(family, b"changelog", b"\xff" * 8)
        yield Topic.RETRACTIONS, Retraction(changelog_record.encode(changes, kind=kind)[0])
    changes = Changes()
    changes.delete(Family.CAPTURES, b"no key")
    yield Topic.RETRACTIONS, Retraction(changelog_record.encode(changes, kind=changelog_record.RETRACTION)[0])
    yield Topic.RETRACTIONS, Retraction(b"\1\2\xff cut")


def poison() -> list[Poison]:
    messages: list[Poison] = [("pages", value, []) for value in json_pages()]
    messages += [("pages", value, PACKED) for value in packed_pages()]
    good = b'{"url": "http://a.example/", "text": "a"}'
    messages += [
        ("pages", good, [("schema", b"lostfound.pages/9")]),
        ("pages", good, [("schema", None)]),
        ("pages", good, [("schema", b"\xff\xfe" * 100_000)]),
        ("pages", good, [("content-type", b"text/plain")]),
        ("pages", good, [("format", b"unknown")]),
        ("pages", b"{}", [("format", b"ache")]),
        ("pages", b'{"url": "http://a.example/", "html": ["x"], "content_type": ["x"]}', [("format", b"ache")]),
        ("pages", b'{"url": 7, "body": 7}', [("format", b"scrapy-cluster")]),
    ]
    scheme = Scheme().id
    for topic in packed_messages.VALUE_TYPES:
        valid_headers = packed_messages.headers_for(topic, scheme)
        wrong_version = [("schema", f"lostfound.{topic.value}/2".encode()), ("scheme", scheme.encode())]
        messages += [
            (topic.value, b"\x90", []),
            (topic.value, b"\x90", list(wrong_version)),
            (topic.value, None, list(valid_headers)),
        ]
        messages.append((topic.value, b"\x90", [("schema", None), ("scheme", None)]))
        messages.append((topic.value, b"\x90", list(packed_messages.headers_for(topic, "another"))))
        for value in (
            b"\xc1",
            b"{}",
            b"\x91\x92\xcc\xff\xc0",
            b"\xdd\xff\xff\xff\xff",
            b"\x91\x92\0" + b"\x91" * DEEP,
        ):
            messages.append((topic.value, value, list(valid_headers)))
    for topic, message in impossible_messages():
        (packed,) = packed_messages.pack([message], 1 << 25)
        messages.append((topic.value, packed, list(packed_messages.headers_for(topic, scheme))))
    return messages


async def send(collection: Any, messages: list[Poison], partition: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=collection.bootstrap, max_request_size=32 << 20)
    await producer.start()
    try:
        for topic, value, headers in messages:
            # Kafka accepts a record without a value only if it has a key.
            await producer.send_and_wait(
                f"{collection.prefix}-{topic}", value, key=b"k", partition=partition, headers=headers
            )
    finally:
        await producer.stop()


def test_poison_becomes_dead_letters_and_stops_no_worker(
    make_collection: Callable[..., Any], embedded: Callable[..., Any]
) -> None:
    collection = make_collection(3)
    messages = poison()
    asyncio.run(send(collection, messages, 0))
    publish_all(collection)
    for partition in (1, 2):
        asyncio.run(send(collection, messages, partition))
    asyncio.run(
        send(collection, [("sweeps", value, []) for value in (None, b"", b"no json", b"[]", b'{"event": 7}')], 0)
    )
    collection.run_workers("a", "b")
    letters = [json.loads(value) for value in asyncio.run(read(collection, "dead-letters"))]
    assert all(letter["reason"] and letter["detail"] and letter["source"] for letter in letters)
    positions = {(letter["partition"], letter["source"], letter["offset"]) for letter in letters}
    assert len(positions) == 3 * len(messages)
    assert collection.clusters("a", "b") == embedded(SWEEPS)
    collection.check("a", "b")

"""Packing pages into messages, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streams.errors import NoPages
from streams.kafka import publish as publishing
from streams.kafka.publish import Pack, pack_pages
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.broker import from_environment
from streams.operators.routing import partition_of
from streams.page import Origin, Page, Rejected
from streams.readers.read_limits import ReadLimits
from streams.settings import load
from streams.urls import url_key

ORIGIN = Origin("t-pages", 7)
KAFKA = load(overrides={"kafka": {"pack_pages": 3, "pack_bytes": 1024}}).kafka
PARTITIONS = 8


def packed(*items: Page | Rejected, partitions: int = PARTITIONS) -> list[Pack | Rejected]:
    return list(pack_pages(items, KAFKA, "s", 1_700_000_000_000, partitions))


def pages(*packs: Pack | Rejected) -> list[tuple[Page | Rejected, str]]:
    return [
        page
        for pack in packs
        if isinstance(pack, Pack)
        for page in page_messages.decode_pages(*page_messages.encode_pack(pack.pages), ORIGIN, ReadLimits())
    ]


def test_packs_keep_to_their_limits_and_to_the_order_of_pages() -> None:
    sizes = [9, 9, 9, 9, 1020, 2000, 9]
    sent = [Page(url=f"http://a.example/{n}", time=n + 1, text="x" * size) for n, size in enumerate(sizes)]
    packs = packed(*sent, partitions=1)
    assert [len(pack.pages) for pack in packs if isinstance(pack, Pack)] == [3, 1, 1, 1, 1]
    received = pages(*packs)
    assert [page.url for page, _ in received] == [page.url for page in sent]
    assert {sweep for _, sweep in received} == {"s"}


def test_a_page_without_a_time_gets_that_of_the_sweep() -> None:
    undated, dated = Page(url="http://a.example/", time=0, text="x"), Page(url="http://a.example/", time=5, text="x")
    assert [page.time for page, _ in pages(*packed(undated, dated)) if isinstance(page, Page)] == [
        1_700_000_000_000,
        5,
    ]


class RecordingProducer:
    """Records dead letters instead of sending them."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send_dead_letters(self, letters: Iterable[Any]) -> None:
        self.reasons += [letter.reason for letter in letters]


SCRIPT = b'{"url": "https://a.example/x", "mime": "text/javascript", "body": "var x = 1"}\n'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"", "read 2 records and rejected all"),
        (SCRIPT * 2, r"read 2 responses that are not pages \(such as text/javascript\), and rejected 2 records"),
    ],
)
def test_files_without_pages_open_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: bytes, message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines + b'{"url": 7}\n{"url": "nowhere"}\n')
    producer = RecordingProducer()

    async def no_topics(*_: object, **__: object) -> topics.PartitionCounts:
        return topics.PartitionCounts(1, 1)

    async def fail(*_: object) -> int:
        raise AssertionError("a sweep was opened")

    monkeypatch.setattr(topics, "ensure", no_topics)
    monkeypatch.setattr(publishing, "Producer", lambda *_: producer)
    monkeypatch.setattr(publishing, "_open_sweep", fail)
    with pytest.raises(NoPages, match=message):
        asyncio.run(publishing.publish(load(), from_environment(None), [str(path)], "s", now=1))
    assert producer.reasons == ["bad_field", "bad_url"]


@pytest.mark.parametrize(("batch_bytes", "first_count"), [(1 << 20, 4), (20, 3)])
def test_scripts_before_the_first_page_are_published_with_it(batch_bytes: int, first_count: int) -> None:
    """The script that reaches the limit on bytes opens the sweep, even if no page follows."""
    script: dict[str, Any] = {"time": 1, "body": b"var x = 1", "mime": "text/javascript"}
    scripts = [Page(url=f"http://a.example/{n}", **script) for n in range(3)]
    page = Page(url="http://a.example/", time=1, text="words")
    settings = load(overrides={"ingest": {"batch_bytes": batch_bytes}})
    producer: Any = RecordingProducer()
    first = asyncio.run(publishing._read_first_page(iter([*scripts, page]), producer, settings))
    assert first == [*scripts, page][:first_count]


def test_rejected_records_are_passed_on() -> None:
    rejected = Rejected("bad_json", "not JSON", ORIGIN)
    assert packed(rejected) == [rejected]


def test_a_page_goes_to_the_partition_of_its_url_and_a_revisit_to_that_of_the_url_it_repeats() -> None:
    page = Page(url="http://a.example/1", time=1, text="x")
    revisit = Page(url="http://a.example/2", time=1, original_url="http://a.example/3")
    (first,), (second,) = packed(page), packed(revisit)
    assert isinstance(first, Pack)
    assert isinstance(second, Pack)
    assert first.partition == partition_of(page.key, PARTITIONS)
    assert second.partition == partition_of(url_key("http://a.example/3"), PARTITIONS)

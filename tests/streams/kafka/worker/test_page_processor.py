"""Pages of the topic `pages`: dates, sweeps, and unchanged pages that are not sketched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from streams.kafka.wire import page_messages
from streams.kafka.wire.sweep_log import Event
from streams.kafka.worker.page_processor import NO_TIMESTAMP, PageProcessor
from streams.kafka.worker.runner import Message
from streams.kafka.worker.stages import Outcome, process_captures
from streams.operators.messages import SketchedPage
from streams.operators.routing import partition_of
from streams.operators.sketch import SketchOperator, SketchTask
from streams.page import Page
from streams.urls import url_key
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS
from tests.streams.kafka.worker_fixture import commit, make_runner

URL = "https://a.example/x"
TEXT = "a page with a text of some words that stays the same"
OWNER = partition_of(url_key(URL), PARTITIONS)
LIVE = 1  # the number of the sweep


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[PageProcessor]:
    """A processor whose worker owns the URL's partition."""
    pages = PageProcessor(make_runner(tmp_path))
    pages.runner.partitions.open(OWNER)
    pages.runner.partitions.active_numbers = frozenset({OWNER})
    pages.runner.partitions.recovered = True
    yield pages
    pages.close()
    pages.runner.partitions.close_all()


def message(time: int = 5, partition: int = OWNER, offset: int = 0, **fields: Any) -> Message:
    value = json.dumps({"url": URL, "crawl": "live", "text": TEXT} | fields).encode()
    return Message(partition=partition, offset=offset, time=time, value=value, headers=[])


def process(pages: PageProcessor, *messages: Message) -> list[SketchedPage]:
    """Process messages; return the pages that were sketched and sent on."""
    producer: Any = pages.runner.producer
    producer.sent.clear()
    asyncio.run(pages.process(messages))
    assert all(isinstance(page, SketchedPage) for page in producer.sent)
    return list(producer.sent)


def write_captures(pages: PageProcessor, sketched: list[SketchedPage]) -> None:
    partition = pages.runner.partitions.open(OWNER)
    commit(pages.runner, partition, process_captures(partition, sketched, pages.runner.context))


def capture_times(pages: PageProcessor) -> list[int]:
    rows = pages.runner.partitions.open(OWNER).store.scan(Family.CAPTURES)
    return sorted(capture_row.decode(*row).time for row in rows)


def not_sketched(pages: PageProcessor) -> float | None:
    return pages.runner.metrics.registry.get_sample_value("lostfound_pages_not_sketched_total")


def test_a_page_without_any_time_gets_the_opening_time_of_its_sweep(pages: PageProcessor) -> None:
    (without, own) = process(pages, message(NO_TIMESTAMP), message(-5, fetch_time="2024-05-14T10:00:00Z"))
    assert (without.capture.time, own.capture.time) == (1, 1_715_680_800_000)


def test_an_unforeseen_error_in_one_message_rejects_only_this_message(
    pages: PageProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = page_messages.decode_pages

    def fail(value: bytes, *arguments: Any) -> Any:
        if b"fatal" in value:
            raise AttributeError("a bug")
        return decode(value, *arguments)

    monkeypatch.setattr(page_messages, "decode_pages", fail)
    assert len(process(pages, message(5, offset=3, text="fatal"), message(5, offset=4))) == 1
    producer: Any = pages.runner.producer
    assert [(letter.reason, letter.offset) for letter in producer.dead_letters] == [("bad_message", 3)]


@pytest.mark.parametrize("time", [-2, -1_700_000_000_000, 1_700_000_000_000_000, 1 << 62])
@pytest.mark.parametrize("fields", [{}, {"text": None, "status": 302, "redirect": "/y"}])
def test_a_page_whose_message_has_no_time_in_ms_is_refused(
    pages: PageProcessor, time: int, fields: dict[str, Any]
) -> None:
    sketched = process(pages, message(time, offset=0, **fields), message(5, offset=1, **fields))
    producer: Any = pages.runner.producer
    assert [(letter.reason, letter.offset) for letter in producer.dead_letters] == [("bad_time", 0)]
    assert [page.capture.time for page in sketched] == [5]


def test_a_page_of_a_cancelled_or_badly_named_sweep_is_refused(pages: PageProcessor) -> None:
    pages.runner.sweep_log.table.apply(Event(event="open", name="leaving", time=4))
    pages.runner.sweep_log.table.apply(Event(event="cancel", name="leaving", time=5))
    assert process(pages, message(crawl="x" * 300), message(crawl="leaving")) == []
    producer: Any = pages.runner.producer
    assert [letter.reason for letter in producer.dead_letters] == ["bad_sweep", "bad_sweep"]


def test_a_script_is_stored_without_text_and_counted_but_not_rejected(pages: PageProcessor) -> None:
    script: dict[str, Any] = {"text": None, "body": "var x = 1", "mime": "Text/JavaScript; charset=utf-8"}
    (page,) = process(pages, message(5, **script))
    assert (page.capture.document, page.payload) == (None, None)
    producer: Any = pages.runner.producer
    assert producer.dead_letters == []
    assert pages.runner.metrics.registry.get_sample_value("lostfound_not_pages_total") == 1


def test_an_unchanged_page_is_written_and_not_sketched(pages: PageProcessor) -> None:
    write_captures(pages, process(pages, message(5)))
    assert process(pages, message(6), message(7)) == []
    assert capture_times(pages) == [5, 6, 7]
    assert not_sketched(pages) == 2


def test_an_unchanged_page_leaves_the_rows_that_a_sketched_page_would(pages: PageProcessor, tmp_path: Path) -> None:
    first = process(pages, message(5))
    write_captures(pages, first)
    process(pages, message(6))
    shortcut = dict(pages.runner.partitions.open(OWNER).store.scan(Family.CAPTURES))
    other = PageProcessor(make_runner(tmp_path / "other"))
    write_captures(other, first)
    (results,) = SketchOperator(SETTINGS.scheme, SETTINGS.policy, SETTINGS.limits)(
        SketchTask(LIVE, [Page(url=URL, time=6, text=TEXT)])
    )
    write_captures(other, [page for page in results if isinstance(page, SketchedPage)])
    assert dict(other.runner.partitions.open(OWNER).store.scan(Family.CAPTURES)) == shortcut
    other.close()
    other.runner.partitions.close_all()


def test_a_page_delivered_again_is_written_once(pages: PageProcessor) -> None:
    write_captures(pages, process(pages, message(5)))
    for _ in range(2):
        assert process(pages, message(6)) == []
    assert capture_times(pages) == [5, 6]


def test_a_changed_page_is_sketched(pages: PageProcessor) -> None:
    write_captures(pages, process(pages, message(5)))
    (page,) = process(pages, message(6, text=TEXT + " no more"))
    assert page.payload is not None


def test_a_page_from_before_the_last_capture_is_sketched(pages: PageProcessor) -> None:
    write_captures(pages, process(pages, message(5)))
    (page,) = process(pages, message(4))
    assert page.payload is not None


def test_a_page_whose_last_capture_was_deleted_is_sketched(pages: PageProcessor) -> None:
    write_captures(pages, process(pages, message(5)))
    partition = pages.runner.partitions.open(OWNER)
    deletes = Changes()
    for key, _ in partition.store.scan(Family.CAPTURES):
        deletes.delete(Family.CAPTURES, key)
    outcome = Outcome(pages.runner.context)
    outcome.changes, outcome.is_retraction = deletes, True
    commit(pages.runner, partition, outcome)
    (page,) = process(pages, message(6))
    assert page.payload is not None


@pytest.mark.parametrize("state", ["recovering", "standby", "closed", "other partition of pages"])
def test_a_page_is_sketched_without_the_state_of_its_url(pages: PageProcessor, state: str) -> None:
    write_captures(pages, process(pages, message(5)))
    partitions, partition = pages.runner.partitions, OWNER
    if state == "recovering":
        partitions.recovered = False
    elif state == "standby":
        partitions.active_numbers = frozenset()
    elif state == "closed":
        partitions.close(OWNER)
    else:
        partition = 1 - OWNER
    (page,) = process(pages, message(6, partition=partition))
    assert page.payload is not None


def test_a_page_belongs_to_the_sweep_that_was_open_when_it_was_sent(pages: PageProcessor) -> None:
    """The worker has not yet read that the first sweep of this name was cancelled, and another one opened."""
    sweep_log: Any = pages.runner.sweep_log
    sweep_log.unread = [
        Event(event="cancel", name="live", time=5),
        Event(event="cancelled", name="live", time=6, number=LIVE),
        Event(event="open", name="live", time=7),
    ]
    assert [page.capture.sweep for page in process(pages, message())] == [3]


@pytest.mark.parametrize("memberships", [[None, None], [None, 2], [1, None], [1, 2]])
def test_a_former_owner_opens_no_sweep_with_pages_of_a_cancelled_one(
    pages: PageProcessor, memberships: list[int | None]
) -> None:
    """Neither if its session ended before the batch, nor if the partitions were reassigned during the batch."""
    generations = iter(memberships)
    pages.membership = lambda: next(generations)
    with pytest.raises(RuntimeError, match="cancelled sweep"):
        process(pages, message(crawl="gone"))
    assert pages.runner.sweep_log.table.find("gone") is None
    pages.membership = lambda: 2
    process(pages, message(crawl="gone"))
    assert [sweep.number for sweep in pages.runner.sweep_log.table.sweeps.values() if sweep.name == "gone"] == [2, 3]

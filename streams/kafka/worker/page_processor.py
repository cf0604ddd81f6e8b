"""Processes the messages of `pages`: sketches the pages and sends them to the partitions that own their URLs.

A page is unchanged if its URL served the same bytes last time. Such a page is not sketched: a capture that refers to
the stored document is enough. But `forget` or `sweep cancel` may delete the document at any time, and the capture
cannot restore it. A page is therefore checked and written in one step, under the lock of the URL's partition:

- A retraction takes the same lock. If it runs later, readmission finds the capture and stores the document again. If
  it ran earlier, the last capture is gone or refers to a different document, and the page is sketched.
- An earlier page of the same URL may still be waiting in the topic `captures`. This is harmless, because the result
  of the stages does not depend on the order of a URL's pages.
- If a page is delivered twice, the same row is written twice.
- During a rebalance, a partition may be behind its changelog, so all pages are sketched.
- A worker that has not yet noticed the loss of its partition may append a changelog record, which is void, and cannot
  acknowledge the page: offsets are acknowledged only in the generation of the consumer group that delivered the
  message. The new owner therefore processes the page again.

The check needs the state of the URL's partition. `publish` sends a page to the partition of `pages` with the same
number, and Faust assigns both partitions to one worker. A page in any other partition of `pages` is always sketched.

A page with a new document is never written in this way, even if the worker owns its URL, because its document must be
sent in a message. Suppose that the worker stopped after it had sent this message but before it had written the
capture, and that the page's sweep was then cancelled. The page would be dropped when it is delivered again, and its
document would remain. Messages in `captures`, however, are processed before a cancellation removes captures.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import structlog

from state.model import SweepState
from state.partition import Partition
from state.sweep_life import is_valid_name
from streams.engine.sketch_pool import SketchPool
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.producer import DeadLetter, to_dead_letter
from streams.kafka.worker.runner import Message, Runner
from streams.kafka.worker.stages import Outcome, process_captures
from streams.operators import lookups
from streams.operators.capture import find_unchanged
from streams.operators.messages import SketchedPage
from streams.operators.routing import partition_of
from streams.operators.sketch import SketchResults, SketchTask
from streams.page import NotAPage, Origin, Page, Rejected, with_default_time
from streams.readers.read_limits import ReadLimits
from streams.timestamps import MILLIS_MAX

NO_TIMESTAMP = -1  # Kafka's value for a message without a time
log = structlog.get_logger(__name__)


class AcceptedPage(NamedTuple):
    """A page whose sweep accepts pages, and the partition of `pages` from which it came."""

    page: Page
    partition: int


class PageProcessor:
    """Processes the batches of the agent that reads `pages`."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        settings = runner.settings
        self.membership: Callable[[], int | None] = lambda: 0  # see `App.membership`
        self._membership_at_start: int | None = None
        self._kafka = settings.kafka
        self._read_limits = ReadLimits.from_settings(settings)
        self._executor = ThreadPoolExecutor(1, "sketch")  # one thread, because sketching reuses its scratch memory
        processes = max(1, settings.kafka.sketch_processes)
        self._pool = SketchPool(processes, settings.scheme, settings.policy, settings.limits)

    async def process(self, batch: Sequence[Message]) -> None:
        """Process messages, at most `kafka.take_pages` pages at a time. One message may contain many pages.

        Raise StateIncompatible, and process nothing, if a message was sent by a newer version.
        """
        self._membership_at_start = self.membership()
        await self.runner.refuse_newer(Topic.PAGES, batch)
        # A page names its sweep. If a cancellation released the name, and a new sweep has it now, a worker that reads
        # the sweep log late would assign the page to the cancelled sweep, and drop it.
        await self.runner.sweep_log.catch_up()
        pages: list[tuple[page_messages.DecodedPage, Message]] = []
        for message in batch:
            pages += [(decoded, message) for decoded in await self._decode(message)]
            while len(pages) >= self._kafka.take_pages:
                await self._process(pages[: self._kafka.take_pages])
                del pages[: self._kafka.take_pages]
        if pages:
            await self._process(pages)

    def close(self) -> None:
        """Stop the sketch thread and the sketch processes."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._pool.__exit__()

    async def _decode(self, message: Message) -> list[page_messages.DecodedPage]:
        origin = Origin(topics.full_name(self._kafka, Topic.PAGES), message.offset)
        arguments = (message.value, message.headers, origin, self._read_limits, self._kafka.default_format)
        try:
            if not self._read_limits.warc_folder:
                return page_messages.decode_pages(*arguments)
            # The message may point into a WARC file, and reading the file must not block the event loop.
            return await asyncio.to_thread(page_messages.decode_pages, *arguments)
        except Exception as error:  # an unforeseen fault of one message must not stop the collection
            log.exception("cannot decode a message", partition=message.partition, offset=message.offset)
            return [(Rejected("bad_message", repr(error)[:300], origin), "")]

    async def _process(self, batch: Sequence[tuple[page_messages.DecodedPage, Message]]) -> None:
        dead_letters: list[DeadLetter] = []
        by_sweep: defaultdict[int, list[AcceptedPage]] = defaultdict(list)
        for (page, sweep_name), message in batch:
            accepted = await self._accept(page, sweep_name, message.time)
            if isinstance(accepted, Rejected):
                dead_letters.append(to_dead_letter(accepted, message.partition))
            else:
                sweep, timed_page = accepted
                by_sweep[sweep].append(AcceptedPage(timed_page, message.partition))
        sketched: list[SketchedPage] = []
        not_pages = 0
        with self.runner.metrics.time_batch(Topic.PAGES, len(batch)):
            for sweep, pages in by_sweep.items():
                remaining = await self._write_unchanged(sweep, pages)
                results = await self._sketch(SketchTask(sweep, [page for page, _ in remaining]))
                for (_, partition), page_results in zip(remaining, results, strict=True):
                    sketched += [item for item in page_results if isinstance(item, SketchedPage)]
                    rejected = [item for item in page_results if isinstance(item, Rejected)]
                    dead_letters += [to_dead_letter(item, partition) for item in rejected]
                    not_pages += sum(isinstance(item, NotAPage) for item in page_results)
        outcome = Outcome(self.runner.context)
        outcome.queue(sketched)
        await self.runner.send(outcome, dead_letters)
        self.runner.metrics.add_counts({"pages": len(batch), "not_pages": not_pages})

    async def _accept(self, page: Page | Rejected, sweep_name: str, message_time: int) -> tuple[int, Page] | Rejected:
        """Return the number of the page's sweep and the page with a time, or a rejection.

        A page without a time gets that of its message or, if the message has none, the opening time of the sweep.
        """
        if isinstance(page, Rejected):
            return page
        has_no_time = not with_default_time(page, 0).time
        if has_no_time and message_time != NO_TIMESTAMP and not 0 <= message_time <= MILLIS_MAX:
            return Rejected(
                "bad_time", f"the message time {message_time} (ms) is out of range", page.origin, page.url
            )
        name = sweep_name or self._kafka.default_sweep
        if is_valid_name(name):
            if self.runner.sweep_log.table.is_released(name):
                self._check_membership()
            number = await self.runner.sweep_log.get_or_open(name)
            if self._accepts_pages(number):
                opened_time = self.runner.sweep_log.table.sweeps[number].opened_time
                return number, with_default_time(page, opened_time if message_time == NO_TIMESTAMP else message_time)
        return Rejected("bad_sweep", f"{name[:200]!r} is not a sweep that accepts pages", page.origin, page.url)

    def _check_membership(self) -> None:
        """Raise RuntimeError if the partitions may have been reassigned since the batch began.

        A former owner that continues after a sweep was cancelled would open a sweep with the old pages.
        """
        if self._membership_at_start is None or self._membership_at_start != self.membership():
            raise RuntimeError("another worker may have processed these pages of a cancelled sweep")

    def _accepts_pages(self, sweep: int) -> bool:
        """Return whether a sweep is open, or is committed, which still allows late pages."""
        return self.runner.sweep_log.table.sweeps[sweep].state in (SweepState.OPEN, SweepState.COMMITTED)

    async def _write_unchanged(self, sweep: int, pages: Sequence[AcceptedPage]) -> list[AcceptedPage]:
        """Write the captures of unchanged pages (see the module docstring). Return the other pages in order."""
        partitions, partition_count = self.runner.partitions, self.runner.context.partition_count
        indexes_by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for index, (page, number) in enumerate(pages):
            if partition_of(page.key, partition_count) == number:
                indexes_by_partition[number].append(index)
        written: set[int] = set()
        for number, indexes in indexes_by_partition.items():
            async with partitions.locks[number]:
                partition = partitions.recovered_partition(number)
                if partition is None or not self._accepts_pages(sweep):
                    continue
                await self.runner.claim(partition)
                unchanged = self._find_unchanged(partition, sweep, {index: pages[index].page for index in indexes})
                if unchanged:
                    outcome = process_captures(partition, list(unchanged.values()), self.runner.context)
                    outcome.counts["pages_not_sketched"] = len(unchanged)
                    await self.runner.commit(partition, outcome)
                    written |= unchanged.keys()
        return [page for index, page in enumerate(pages) if index not in written]

    def _find_unchanged(self, partition: Partition, sweep: int, pages: Mapping[int, Page]) -> dict[int, SketchedPage]:
        """Return the captures of the pages that have not changed, by index."""
        own_pages = list(pages.values())
        last_captures = lookups.read_last_captures(partition.store, sorted({page.key for page in own_pages}))
        captures = find_unchanged(own_pages, last_captures, sweep, self.runner.settings.policy)
        return {index: capture for index, capture in zip(pages, captures, strict=True) if capture is not None}

    async def _sketch(self, task: SketchTask) -> SketchResults:
        if not task.pages:
            return []
        submit = self._pool.submit
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: submit(task).result())

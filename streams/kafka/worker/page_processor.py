"""Processes the messages of `pages`: sketches pages and sends them to the partitions that own their URLs.

Unchanged pages, those whose URL served the same bytes last time, are not sketched. Their document is stored already,
so a capture that names it is enough. Whether that is still so when the capture is written must not be in doubt: a
document may be deleted by `forget` or `sweep cancel` at any time, and a capture without a payload cannot bring it
back. So the check and the write are one step under the lock of the state partition that owns the URL, as in the
stage `captures`:

- A retraction takes the same lock. Before it, the capture is written, and readmission finds it: a document that is
  deleted while a capture still names it is stored again from the deleted rows. After it, the URL's last capture is
  gone or names another document, and the page is sketched.
- A page of the same URL that is still in the topic `captures` is written after this one. The stages give the same
  result for any order of a URL's pages.
- A page delivered twice finds its own capture and writes the same row again.
- During a rebalance the copy of a partition may be behind its changelog, and its captures may have been deleted. All
  pages are then sketched.
- A worker that has lost the partition without knowing it writes a changelog record that its new owner does not read
  until it recovers. But it cannot acknowledge the page either: offsets are acknowledged only in the generation of the
  consumer group that delivered the message. The new owner of the page processes it by its own state and writes the
  same capture, with the document's payload if the document has been deleted.

The check needs the state of the URL's partition. `publish` puts a page into the partition of `pages` with the number
of the state partition that owns its URL, and Faust assigns both to one worker. Any other page is sketched.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from state.model import SweepState
from state.sweep_life import is_valid_name
from streams.engine.sketch_pool import SketchPool
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.producer import DeadLetter, dead_letter
from streams.kafka.worker.runner import Message, Runner
from streams.kafka.worker.stages import process_captures, route_pages
from streams.operators import lookups
from streams.operators.messages import SketchedPage
from streams.operators.routing import partition_of
from streams.operators.sketch import SketchResults, Task
from streams.operators.unchanged import find_unchanged
from streams.page import Origin, Page, Rejected, with_time
from streams.readers.read_limits import ReadLimits
from streams.timestamps import MILLIS_MAX


class AcceptedPage(NamedTuple):
    """A page whose sweep takes pages, and the partition of `pages` that it came from."""

    page: Page
    partition: int


class PageProcessor:
    """Processes the batches of the agent that reads `pages`."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        settings = runner.settings
        self._kafka = settings.kafka
        self._read_limits = ReadLimits.from_settings(settings)
        # One thread, because a sketch stage reuses its scratch memory.
        self._thread = ThreadPoolExecutor(1, "sketch")
        processes = max(1, settings.kafka.sketch_processes)
        self._pool = SketchPool(processes, settings.scheme, settings.policy, settings.limits)

    async def process(self, batch: Sequence[Message]) -> None:
        """Process messages, `kafka.take_pages` pages at a time: one message may contain several."""
        decoded: list[tuple[page_messages.Decoded, Message]] = []
        for message in batch:
            decoded += [(page, message) for page in await self._decode(message)]
            while len(decoded) >= self._kafka.take_pages:
                await self._process(decoded[: self._kafka.take_pages])
                del decoded[: self._kafka.take_pages]
        if decoded:
            await self._process(decoded)

    def close(self) -> None:
        """Stop the threads and processes that sketch."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._pool.__exit__()

    async def _decode(self, message: Message) -> list[page_messages.Decoded]:
        origin = Origin(topics.full_name(self._kafka, Topic.PAGES), message.offset)
        arguments = (message.value, message.headers, origin, self._read_limits, self._kafka.default_format)
        if not self._read_limits.warc_folder:
            return page_messages.decode_pages(*arguments)
        # The message may point into a WARC file; reading it must not block the event loop.
        return await asyncio.to_thread(page_messages.decode_pages, *arguments)

    async def _process(self, batch: Sequence[tuple[page_messages.Decoded, Message]]) -> None:
        dead_letters: list[DeadLetter] = []
        by_sweep: defaultdict[int, list[AcceptedPage]] = defaultdict(list)
        for (page, sweep_name), message in batch:
            accepted = page if isinstance(page, Rejected) else with_time(page, max(0, message.time))
            if isinstance(accepted, Page) and accepted.time > MILLIS_MAX:
                detail = f"the message's time {accepted.time} is not a time in ms"
                accepted = Rejected("bad_time", detail, accepted.origin, accepted.url)
            if isinstance(accepted, Page):
                sweep = await self._sweep(sweep_name)
                if sweep is not None:
                    by_sweep[sweep].append(AcceptedPage(accepted, message.partition))
                    continue
                detail = f"{sweep_name[:200]!r} is not a sweep that takes pages"
                accepted = Rejected("bad_sweep", detail, accepted.origin, accepted.url)
            dead_letters.append(dead_letter(accepted, message.partition))
        sketched: list[SketchedPage] = []
        with self.runner.metrics.time_batch(Topic.PAGES, len(batch)):
            for sweep, pages in by_sweep.items():
                changed = await self._write_unchanged(sweep, pages)
                results = await self._sketch(Task(sweep, [page for page, _ in changed]))
                for (_, partition), page_results in zip(changed, results, strict=True):
                    sketched += [item for item in page_results if isinstance(item, SketchedPage)]
                    dead_letters += [
                        dead_letter(item, partition) for item in page_results if isinstance(item, Rejected)
                    ]
        await self.runner.send(route_pages(sketched, self.runner.context), dead_letters)
        self.runner.metrics.count({"pages": len(batch)})

    async def _sweep(self, name: str) -> int | None:
        """Return the number of a sweep, or None if it takes no pages; a committed one takes late pages."""
        name = name or self._kafka.default_sweep
        if not is_valid_name(name):
            return None
        number = await self.runner.sweep_log.get_or_open(name)
        return number if self._takes_pages(number) else None

    def _takes_pages(self, sweep: int) -> bool:
        return self.runner.sweep_log.table.sweeps[sweep].state in (SweepState.OPEN, SweepState.COMMITTED)

    async def _write_unchanged(self, sweep: int, pages: Sequence[AcceptedPage]) -> list[AcceptedPage]:
        """Write the captures of unchanged pages; return all other pages, in their order. See the module docstring."""
        partitions, count = self.runner.partitions, self.runner.context.partitions
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for index, (page, number) in enumerate(pages):
            if partition_of(page.key, count) == number:
                by_partition[number].append(index)
        written: set[int] = set()
        for number, indexes in by_partition.items():
            async with partitions.locks[number]:
                partition = partitions.recovered_partition(number)
                if partition is None or not self._takes_pages(sweep):
                    continue
                candidates = [pages[index].page for index in indexes]
                last = lookups.read_last_captures(partition.store, sorted({page.key for page in candidates}))
                captures = zip(indexes, find_unchanged(candidates, last, sweep), strict=True)
                unchanged = {index: capture for index, capture in captures if capture is not None}
                if unchanged:
                    outcome = process_captures(partition, list(unchanged.values()), self.runner.context)
                    outcome.counts["pages_not_sketched"] = len(unchanged)
                    await self.runner.commit(partition, outcome)
                    written |= unchanged.keys()
        return [page for index, page in enumerate(pages) if index not in written]

    async def _sketch(self, task: Task) -> SketchResults:
        if not task.pages:
            return []
        if self._pool.count > 1:
            return await asyncio.wrap_future(self._pool.submit(task))
        submit = self._pool.submit
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: submit(task).result())

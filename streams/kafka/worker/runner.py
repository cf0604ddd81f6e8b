"""One worker at work: batches of messages through the stages, in the order that loses nothing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import structlog

from state.model import SweepState
from state.sweep_life import is_valid_name
from streams.engine.sketch_pool import Workers
from streams.kafka.wire import page_messages, topics
from streams.kafka.wire.packed_messages import BadMessage, Headers, Topic, unpack
from streams.kafka.wire.producer import DeadLetter, Producer, dead_letter
from streams.kafka.wire.sweep_log import SweepLog
from streams.kafka.worker.metrics import Metrics
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.stages import STAGES, Context, Outcome, sketched
from streams.operators.messages import SketchedPage
from streams.operators.sketch import Sketched, Task
from streams.page import Origin, Page, Rejected
from streams.readers.read_limits import ReadLimits
from streams.settings import Settings
from streams.timestamps import MILLIS_MAX

log = structlog.get_logger(__name__)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs of a message."""

    partition: int
    offset: int
    time: int  # ms since the epoch, UTC, as the broker or the producer set it
    value: bytes | None
    headers: Headers


class Runner:
    """What the agents call; knows the order of the four steps."""

    def __init__(
        self,
        settings: Settings,
        partitions: OpenPartitions,
        producer: Producer,
        sweep_log: SweepLog,
        metrics: Metrics,
    ) -> None:
        self.settings, self.partitions, self.producer, self.sweep_log = settings, partitions, producer, sweep_log
        self.metrics = metrics
        self.context = Context(settings, partitions.count)
        self._read_limits = ReadLimits.from_settings(settings)
        # One thread: a stage that sketches keeps scratch of its own.
        self._thread = ThreadPoolExecutor(1, "sketch")
        self._workers = Workers(settings.kafka.sketch_processes, settings.scheme, settings.policy, settings.limits)

    async def process(self, topic: Topic, batch: Sequence[Message]) -> None:
        """Take packed messages of one topic through its stage; partitions at the same time, each in order."""
        by_partition: defaultdict[int, list[Message]] = defaultdict(list)
        for message in batch:
            by_partition[message.partition].append(message)
        await asyncio.gather(*(self._take(topic, number, part) for number, part in by_partition.items()))

    async def _take(self, topic: Topic, number: int, batch: Sequence[Message]) -> None:
        values, letters = self._unpacked(topic, batch)
        if topic is Topic.CAPTURES:
            values = [value for value in values if not self._taken_back(value)]
        async with self.partitions.locks[number]:
            partition = self.partitions.by_number.get(number)
            if partition is None or number not in self.partitions.active:
                # Acknowledging it would lose it; a worker that starts again gets it, or whoever owns it now.
                raise RuntimeError(f"a message of partition {number} came, which this worker does not hold")
            with self.metrics.time_batch(topic, len(values)):
                outcome = STAGES[topic](partition, values, self.context)
            await self._send(outcome, letters, number)
            if len(outcome.changes):
                offsets = await self.producer.append_changelog(number, outcome.changes, retraction=outcome.retraction)
                partition.write(outcome.changes, offsets, retraction=outcome.retraction)
        self.metrics.count(outcome.counts)

    def _taken_back(self, page: msgspec.Struct) -> bool:
        """Whether a page's sweep is gone: a worker that had lost `pages` and did not know has sent it again."""
        assert isinstance(page, SketchedPage)
        sweep = self.sweep_log.table.sweeps.get(page.capture.sweep)
        return sweep is not None and sweep.state is SweepState.CANCELLED

    def _unpacked(self, topic: Topic, batch: Iterable[Message]) -> tuple[list[msgspec.Struct], list[DeadLetter]]:
        values: list[msgspec.Struct] = []
        letters = []
        source = topics.full_name(self.settings.kafka, topic)
        for message in batch:
            try:
                found, faults = unpack(topic, message.value, message.headers, self.settings.scheme)
                values += found
                more = f"{len(faults)} of {len(found) + len(faults)} values, such as: "
                reason, detail = ("bad_message", more + faults[0]) if faults else ("", "")
            except BadMessage as error:
                reason, detail = error.reason, error.detail
            if reason:
                letters.append(
                    DeadLetter(
                        reason=reason,
                        detail=detail,
                        url="",
                        source=source,
                        member="",
                        offset=message.offset,
                        partition=message.partition,
                    )
                )
        return values, letters

    async def _send(self, outcome: Outcome, letters: list[DeadLetter], number: int) -> None:
        letters = letters + [dead_letter(item, number) for item in outcome.rejected]
        await self.producer.send(outcome.sends)
        await self.producer.send_results(outcome.results)
        await self.producer.send_dead_letters(letters)
        self.metrics.count_dead_letters(each.reason for each in letters)
        self.metrics.count_results(each.topic for each in outcome.results)

    async def process_pages(self, batch: Sequence[Message]) -> None:
        """Sketch pages and send them to the owners of their URLs, so many at a time: a message may hold several."""
        waiting: list[tuple[page_messages.Decoded, Message]] = []
        for message in batch:
            origin = Origin(topics.full_name(self.settings.kafka, Topic.PAGES), message.offset)
            waiting += [(each, message) for each in await self._decoded(message, origin)]
            while len(waiting) >= self.settings.kafka.take_pages:
                await self._take_some(waiting[: self.settings.kafka.take_pages])
                del waiting[: self.settings.kafka.take_pages]
        if waiting:
            await self._take_some(waiting)

    async def _take_some(self, taken: Sequence[tuple[page_messages.Decoded, Message]]) -> None:
        rejected: list[tuple[Rejected, int]] = []
        by_sweep: defaultdict[int, list[tuple[Page, int]]] = defaultdict(list)
        for (page, name), message in taken:
            if isinstance(page, Rejected):
                rejected.append((page, message.partition))
                continue
            dated = page if page.time else msgspec.structs.replace(page, time=max(0, message.time))
            if dated.time > MILLIS_MAX:
                said = f"the message's time {dated.time} is no time in ms"
                rejected.append((Rejected("bad_time", said, page.origin, page.url), message.partition))
            elif (number := await self._sweep(name)) is not None:
                by_sweep[number].append((dated, message.partition))
            else:
                said = f"{name[:200]!r} is no sweep that takes pages"
                rejected.append((Rejected("bad_sweep", said, page.origin, page.url), message.partition))
        found: list[SketchedPage] = []
        with self.metrics.time_batch(Topic.PAGES, len(taken)):
            for number, held in by_sweep.items():
                task = Task(number, [page for page, _ in held])
                for (_, place), results in zip(held, await self._sketch(task), strict=True):
                    found += [item for item in results if isinstance(item, SketchedPage)]
                    rejected += [(item, place) for item in results if isinstance(item, Rejected)]
        outcome = sketched(found, self.context)
        await self._send(outcome, [dead_letter(item, place) for item, place in rejected], 0)
        self.metrics.count({"pages": len(taken)})

    async def _decoded(self, message: Message, origin: Origin) -> list[page_messages.Decoded]:
        arguments = (message.value, message.headers, origin, self._read_limits, self.settings.kafka.default_format)
        if not self._read_limits.warc_folder:
            return page_messages.decode_pages(*arguments)
        # It may have to read a file, for which nobody else should wait.
        return await asyncio.to_thread(page_messages.decode_pages, *arguments)

    async def _sweep(self, name: str) -> int | None:
        """The number of a sweep that may still be filled; one that is committed takes what comes late."""
        name = name or self.settings.kafka.default_sweep
        if not is_valid_name(name):
            return None
        number = await self.sweep_log.get_or_open(name)
        open_for_pages = self.sweep_log.table.sweeps[number].state in (SweepState.OPEN, SweepState.COMMITTED)
        return number if open_for_pages else None

    async def _sketch(self, task: Task) -> Sketched:
        if self._workers.count > 1:
            return await asyncio.wrap_future(self._workers.submit(task))
        submit = self._workers.submit
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: submit(task).result())

    def close(self) -> None:
        """Let go of threads and processes."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._workers.__exit__()

"""Ingest: crawl files in, one sweep, micro-batch by micro-batch.

    read ─▶ batch ─▶ (unchanged? ─▶) sketch in workers ─▶ Engine.apply: state + cursor in one write

The cursor says how far the input was taken; it is committed with every batch, as is the length of the dead letters. A
run that was cut short goes on behind the last committed batch; dead letters written after it are cut off by the next
run, whatever that reads, so none is double and none is lost. With the cursor goes a mark that tells the input from
another of the same name: a file that has grown is read on, one that was written anew is read from its start.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path

import mmh3
import msgspec
import structlog

from state import meta, sweeps
from state.changes import Changes
from state.codecs.text_row import train
from state.families import Family
from state.model import Capture, Sweep, SweepState
from state.store import Store
from state.view import View
from streams.engine.dead_letters import DeadLetters
from streams.engine.embedded import BatchReport, Engine
from streams.engine.sketch_pool import Workers
from streams.engine.sweep_commands import finish_cancelling
from streams.errors import BadRecord, InputError
from streams.operators import lookups
from streams.operators.messages import SketchedPage
from streams.operators.sketch import Sketched, Task
from streams.operators.unchanged import find_unchanged
from streams.page import Page, Rejected, with_time
from streams.readers import sources
from streams.readers.dispatch import InputReader, read, total_bytes
from streams.readers.input_mark import InputMark
from streams.readers.position import Position
from streams.readers.read_limits import ReadLimits
from streams.settings import Settings

log = structlog.get_logger(__name__)
TRAIN_FROM = 1_000  # documents kept before a dictionary is learned from them


class Cursor(msgspec.Struct):
    """Where one input of one sweep stands; committed with every batch."""

    position: Position | None = None
    mark: InputMark | None = None  # of the position; there is none in a state of an old release
    finished: bool = False
    pages: int = 0
    new: int = 0
    copies: int = 0
    unchanged: int = 0
    near: int = 0
    textless: int = 0
    rejected: dict[str, int] = {}


class Progress(msgspec.Struct, frozen=True):
    """How far an ingest is: bytes of input read, and the counts so far."""

    bytes_read: int
    bytes_all: int  # 0 when not known
    counts: Cursor
    read_now: int = 0  # pages of this run


class Summary(msgspec.Struct, frozen=True):
    """What an ingest did. `status` is "ingested", "resumed" or "nothing to do"."""

    sweep: str
    status: str
    committed: bool
    pages: int
    read_now: int  # of these, pages of this run
    new: int
    copies: int
    unchanged: int
    near_duplicates: int
    redirects_and_errors: int
    rejected: dict[str, int]
    dead_letters: str


class _Batch(msgspec.Struct):
    """A micro-batch on its way: pages known to be unchanged, and the others while they are sketched."""

    slots: list[SketchedPage | Rejected | None]  # None: the next page of the sketched
    last: dict[bytes, Capture]  # the last captures of its URLs, when the engine had applied so many batches:
    batches: int
    sketched: Future[Sketched]
    position: Position
    mark: InputMark | None
    bytes_read: int


def ingest(
    store: Store,
    settings: Settings,
    paths: Sequence[str],
    sweep_name: str,
    *,
    now: int,
    keep_open: bool = False,
    fail_on_rejected: bool = False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Summary:
    """Read `paths` into a sweep, opened if it is not there, and commit it unless `keep_open`.

    `now` is ms since the epoch: the sweep's time of opening and committing. Pages that do not say theirs have that of
    the opening.
    What was read before is not read again; an open sweep takes what has come behind it, and a file that was written
    anew from its start. Raises InputError for a committed sweep and other or more input; BadRecord at the first bad
    record when `fail_on_rejected`: the batches before its own are kept, what came before it in its batch is not.
    """
    finish_cancelling(store)
    engine = Engine(store, settings)
    names = names_of(_absolute(paths), store.path)
    sweep = _sweep(store, sweep_name, now)
    name = f"{sweep.number}:{mmh3.hash_bytes(chr(0).join(names)).hex()}"
    held = meta.cursor(store, name)
    cursor = msgspec.json.decode(held, type=Cursor) if held else Cursor()
    letters = DeadLetters(store.path / meta.DEAD_LETTERS, sweep_name)
    _cut(store, letters)
    status, read_now = "nothing to do", 0
    if sweep.state is SweepState.OPEN:
        _note_threshold(store, settings.policy.threshold)
        if cursor.finished and names == ["-"]:
            cursor = Cursor()  # another pipe
        run = _Run(engine, sweep, names, name, cursor, letters, fail_on_rejected, report)
        finished = cursor.finished
        run.take_all()
        cursor, read_now = run.cursor, run.read_now
        if read_now or not finished:
            status = "resumed" if run.input_unchanged else "ingested"
        if not keep_open:
            sweep = sweeps.commit(store, sweep, now)
    elif not cursor.finished or _holds_more(names, settings, cursor):
        raise InputError(
            f"sweep {sweep_name!r} is committed: it takes no more pages", "choose another name with --sweep"
        )
    return Summary(
        sweep.name,
        status,
        sweep.state is SweepState.COMMITTED,
        cursor.pages,
        read_now,
        cursor.new,
        cursor.copies,
        cursor.unchanged,
        cursor.near,
        cursor.textless,
        cursor.rejected,
        str(letters.path),
    )


def _reading(names: Sequence[str], settings: Settings, cursor: Cursor) -> InputReader:
    return read(names, ReadLimits.from_settings(settings), cursor.position, cursor.mark)


def _holds_more(names: Sequence[str], settings: Settings, cursor: Cursor) -> bool:
    """Whether an input that was read to its end holds more now, or is another; not to be told without a mark."""
    if cursor.position is not None and cursor.mark is None:
        return False
    return next(_reading(names, settings, cursor), None) is not None


def _note_threshold(store: Store, threshold: float) -> None:
    """Keep from which resemblance on all pairs are known, for clusters by another policy."""
    held = meta.threshold(store)
    if held is not None and held != threshold:
        log.warning("pages of this state were joined by different thresholds", before=held, now=threshold)
    if held is None or threshold > held:
        changes = Changes()
        meta.put_threshold(changes, threshold)
        store.write(changes)


def _cut(store: Store, letters: DeadLetters) -> None:
    """Cut off letters of a batch that was not committed; where the file was taken away, its length begins anew."""
    held = meta.dead_letter_bytes(store)
    left = letters.cut(held)
    if left != held:
        changes = Changes()
        meta.put_dead_letter_bytes(changes, left)
        store.write(changes, sync=True)


def _sweep(store: Store, name: str, now: int) -> Sweep:
    return sweeps.named(store, name) or sweeps.open_sweep(store, name, now)


def names_of(paths: Sequence[str], state: Path) -> list[str]:
    """The files to read into the state in a folder.

    Raises ReadError for one that is not there, InputError for none and for a name we cannot keep. The state's own
    folder is no input where it lies below one: reading the dead letters writes more of them, without end. A folder in
    it that is named is; the dead letters are not even then.
    """
    letters = state / meta.DEAD_LETTERS
    own = sources.file_identity(letters)
    for path in paths:
        if own and sources.file_identity(path) == own:
            raise InputError(
                f"{path} is where this state keeps what it refuses, and would grow while it is read",
                "mend the input that its lines name, and ingest that",
            )
    names = [source.name for source in sources.list_sources(paths, without=(state, letters))]
    if not names:
        raise InputError(f"there is no crawl file in {', '.join(paths)}", "docs/formats-input.md says what is read")
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"the name of the file {name!r} is not UTF-8", "rename it") from None
    return names


def _absolute(paths: Sequence[str]) -> list[str]:
    return [path if path == "-" else os.path.abspath(path) for path in paths]  # noqa: PTH100 - keeps symlinks


class _Run:
    """One pass over an input, from its cursor to its end."""

    def __init__(
        self,
        engine: Engine,
        sweep: Sweep,
        names: Sequence[str],
        name: str,
        cursor: Cursor,
        letters: DeadLetters,
        fail_on_rejected: bool,
        report: Callable[[Progress], None],
    ) -> None:
        self.engine, self.sweep, self.name = engine, sweep, name
        self.cursor, self.letters, self.fail_on_rejected, self.report = cursor, letters, fail_on_rejected, report
        self.bytes_all = total_bytes(names)
        self.reading = _reading(names, engine.settings, cursor)
        self.read_now = 0  # pages
        self.dictionaries = meta.dictionaries(engine.store)

    @property
    def input_unchanged(self) -> bool:
        """Whether an earlier run had read a part of this input."""
        return self.cursor.pages > self.read_now

    def take_all(self) -> None:
        """Read, sketch and apply until the input ends."""
        settings = self.engine.settings
        wanted = settings.ingest.workers or len(os.sched_getaffinity(0))
        count = wanted if self.bytes_all == 0 or self.bytes_all >= settings.ingest.workers_from_bytes else 1
        with Workers(count, self.engine.scheme, settings.policy, settings.limits) as workers:
            self._take_batches(workers)
        self.cursor.finished = True
        changes = Changes()
        self._put_cursor(changes)
        self.engine.store.write(changes, sync=True)

    def _take_batches(self, workers: Workers) -> None:
        under_way: deque[_Batch] = deque()
        for position, mark, bytes_read, items in self._batches():
            under_way.append(self._start(workers, position, mark, bytes_read, items))
            if len(under_way) > (workers.count + 1 if workers.count > 1 else 0):
                self._finish(under_way.popleft())
        while under_way:
            self._finish(under_way.popleft())

    def _batches(self) -> Iterator[tuple[Position, InputMark | None, int, list[Page | Rejected]]]:
        most, reading = self.engine.settings.ingest, self.reading
        items: list[Page | Rejected] = []
        weight = 0
        position: Position | None = None
        for position, item in reading:
            items.append(item)
            if isinstance(item, Page):
                weight += len(item.body or item.text or "")
            if len(items) >= most.batch_pages or weight >= most.batch_bytes:
                yield position, reading.mark(), reading.bytes_read, items
                items, weight = [], 0
        if items and position is not None:
            yield position, reading.mark(), reading.bytes_read, items

    def _start(
        self,
        workers: Workers,
        position: Position,
        mark: InputMark | None,
        bytes_read: int,
        items: list[Page | Rejected],
    ) -> _Batch:
        # The opening of the sweep, and not the present: a page read again is then the same capture.
        dated = [with_time(item, self.sweep.opened) if isinstance(item, Page) else item for item in items]
        pages = [item for item in dated if isinstance(item, Page)]
        batches = self.engine.batches
        last = lookups.last_captures(self.engine.store, sorted({page.key for page in pages}))
        unchanged = find_unchanged(pages, last, self.sweep.number)
        results = iter(unchanged)
        slots = [next(results) if isinstance(item, Page) else item for item in dated]
        changed = [page for page, sketched in zip(pages, unchanged, strict=True) if sketched is None]
        newest = max(self.dictionaries, default=0)
        task = Task(self.sweep.number, changed, newest, self.dictionaries.get(newest, b""))
        return _Batch(slots, last, batches, workers.submit(task), position, mark, bytes_read)

    def _finish(self, batch: _Batch) -> None:
        results = iter(batch.sketched.result())
        pages: list[SketchedPage] = []
        rejected: list[Rejected] = []
        for slot in batch.slots:
            for result in [slot] if slot is not None else next(results):
                if isinstance(result, Rejected):
                    rejected.append(result)
                else:
                    pages.append(result)
        last = batch.last if batch.batches == self.engine.batches else None
        changes, report = self.engine.apply(self.sweep, pages, rejected, last)
        if report.rejected and self.fail_on_rejected:
            raise _bad_record(report.rejected[0])
        self._count(batch, report)
        meta.put_dead_letter_bytes(changes, self.letters.write(report.rejected))
        self._put_cursor(changes)
        self.engine.store.write(changes)
        self.report(Progress(batch.bytes_read, self.bytes_all, self.cursor, self.read_now))
        self._learn()

    def _count(self, batch: _Batch, report: BatchReport) -> None:
        if not self.read_now and not self.reading.input_unchanged:
            self.cursor = Cursor()
        cursor, pages = self.cursor, len(batch.slots)
        self.read_now += pages
        cursor.position, cursor.mark, cursor.finished = batch.position, batch.mark, False
        cursor.pages += pages
        cursor.new += report.new
        cursor.copies += report.copies
        cursor.unchanged += report.unchanged
        cursor.near += report.near
        cursor.textless += pages - report.new - report.copies - report.unchanged - len(report.rejected)
        reasons = Counter(item.reason for item in report.rejected)
        cursor.rejected = dict(Counter(cursor.rejected) + reasons)

    def _put_cursor(self, changes: Changes) -> None:
        meta.put_cursor(changes, self.name, msgspec.json.encode(self.cursor))

    def _learn(self) -> None:
        """Learn a dictionary for kept texts, once there are enough of them to learn from."""
        engine = self.engine
        if self.dictionaries or not engine.settings.policy.keep_texts:
            return
        if engine.counters["documents"] < TRAIN_FROM:
            return
        view = View(engine.store)
        rows = islice(engine.store.scan(Family.TEXTS), TRAIN_FROM)
        data = train([view.decode_text(value)[1] for _, value in rows])
        # An empty one says that there was nothing to learn, so that it is not tried again.
        self.dictionaries = {1: data} if data else {0: b""}
        if data:
            changes = Changes()
            meta.put_dictionary(changes, 1, data)
            engine.store.write(changes, sync=True)


def _bad_record(item: Rejected) -> BadRecord:
    origin = item.origin
    place = f"{origin.source}{':' + origin.member if origin.member else ''} at {origin.offset}"
    return BadRecord(
        f"{place}: {item.reason}: {item.detail}",
        "mend the input and run the same command again, or leave --bad-records to keep it in the dead letters",
    )

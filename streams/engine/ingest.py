"""Ingest crawl files into a sweep, one micro-batch after another.

    read ─▶ batch ─▶ (unchanged? ─▶) sketch in processes ─▶ Engine.apply ─▶ commit changes and cursor in one write

The cursor tells how far the input was read. It is committed with every batch, as is the length of the dead letters.
An interrupted run resumes after the last committed batch. Dead letters written past that point are truncated by the
next run, so none is duplicated or lost. A mark is stored with the cursor and identifies the input: a file that has
grown is read from where the last run stopped, a file that was rewritten is read from its start.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import mmh3
import msgspec
import structlog

from state import meta, sweeps
from state.changes import Changes
from state.model import Capture, Sweep, SweepState
from state.store import Store
from streams.engine.batcher import Batch, Batcher
from streams.engine.cursor import Cursor
from streams.engine.dead_letters import DeadLetters
from streams.engine.dictionary import TextDictionary
from streams.engine.embedded import Engine
from streams.engine.sketch_pool import SketchPool
from streams.engine.sweep_commands import finish_cancelling
from streams.errors import BadRecord, InputError
from streams.operators import lookups
from streams.operators.messages import SketchedPage
from streams.operators.sketch import SketchResults, Task
from streams.operators.unchanged import find_unchanged
from streams.page import Page, Rejected, with_time
from streams.readers import sources
from streams.settings import Settings

log = structlog.get_logger(__name__)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an ingest: bytes of input read, and the counts so far."""

    bytes_read: int
    bytes_all: int  # 0 if not known
    counts: Cursor
    read_now: int = 0  # pages of this run


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an ingest. `status` is "ingested", "resumed" or "nothing to do"."""

    sweep: str
    status: str
    committed: bool
    pages: int
    read_now: int  # pages of this run
    new: int
    copies: int
    unchanged: int
    near_duplicates: int
    redirects_and_errors: int
    rejected: dict[str, int]
    dead_letters: str


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same during a run."""

    engine: Engine
    sweep: Sweep
    cursor_name: str
    letters: DeadLetters
    fail_on_rejected: bool
    report: Callable[[Progress], None]


class _PendingBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch whose changed pages are being sketched."""

    batch: Batch
    slots: list[SketchedPage | Rejected | None]  # one per item; None: take the next result of `sketched`
    last: dict[bytes, Capture]  # the last capture per URL, read when `read_at` batches were committed
    read_at: int
    sketched: Future[SketchResults]


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
    """Read `paths` into a sweep, which is opened if necessary and committed unless `keep_open`.

    `now` is in ms since the epoch: the time of opening and committing. A page without a time has that of the opening.
    Input that was read before is not read again; an open sweep takes what was added to the input since, and all of a
    file that was rewritten. Raises InputError for a committed sweep with different or additional input, and BadRecord
    at the first bad record if `fail_on_rejected`: the batches before it are stored, its own is not.
    """
    finish_cancelling(store)
    engine = Engine(store, settings)
    names = input_names(_absolute(paths), store.path)
    sweep = sweeps.named(store, sweep_name) or sweeps.open_sweep(store, sweep_name, now)
    job = _Job(
        engine=engine,
        sweep=sweep,
        cursor_name=f"{sweep.number}:{mmh3.hash_bytes(chr(0).join(names)).hex()}",
        letters=DeadLetters(store.path / meta.DEAD_LETTERS, sweep_name),
        fail_on_rejected=fail_on_rejected,
        report=report,
    )
    stored = meta.cursor(store, job.cursor_name)
    cursor = msgspec.json.decode(stored, type=Cursor) if stored else Cursor()
    _truncate(store, job.letters)
    status, pages_read = "nothing to do", 0
    if sweep.state is SweepState.OPEN:
        _store_threshold(store, settings.policy.threshold)
        was_finished = cursor.finished
        if was_finished and names == ["-"]:
            cursor = Cursor()  # another pipe
        cursor, pages_read = _run(job, Batcher(names, settings, cursor.position, cursor.mark), cursor)
        if pages_read or not was_finished:
            status = "resumed" if cursor.pages > pages_read else "ingested"
        if not keep_open:
            sweep = sweeps.commit(store, sweep, now)
    elif not cursor.finished or Batcher(names, settings, cursor.position, cursor.mark).has_items():
        raise InputError(
            f"sweep {sweep_name!r} is committed and accepts no more pages", "choose another name with --sweep"
        )
    return _summarise(job, sweep, cursor, status, pages_read)


def _summarise(job: _Job, sweep: Sweep, cursor: Cursor, status: str, pages_read: int) -> Summary:
    return Summary(
        sweep=sweep.name,
        status=status,
        committed=sweep.state is SweepState.COMMITTED,
        pages=cursor.pages,
        read_now=pages_read,
        new=cursor.new,
        copies=cursor.copies,
        unchanged=cursor.unchanged,
        near_duplicates=cursor.near,
        redirects_and_errors=cursor.textless,
        rejected=cursor.rejected,
        dead_letters=str(job.letters.path),
    )


def input_names(paths: Sequence[str], state: Path) -> list[str]:
    """Return the names of the files to read into the state in folder `state`.

    The files of the state are not input when its folder lies below a path: reading the dead letters would write more
    of them, without end. A folder in the state may be named itself, but never the file of dead letters.

    Raises ReadError for a path that does not exist, InputError without any crawl file or if a name is not UTF-8.
    """
    letters = state / meta.DEAD_LETTERS
    identity = sources.file_identity(letters)
    for path in paths:
        if identity and sources.file_identity(path) == identity:
            raise InputError(
                f"{path} is this state's own dead-letter file",
                "fix the records it lists in the original input and ingest those",
            )
    names = [source.name for source in sources.list_sources(paths, without=(state, letters))]
    if not names:
        raise InputError(
            f"no crawl file found in {', '.join(paths)}", "docs/formats-input.md lists the formats and file names"
        )
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"the file name {name!r} is not UTF-8", "rename the file") from None
    return names


def _absolute(paths: Sequence[str]) -> list[str]:
    return [path if path == "-" else os.path.abspath(path) for path in paths]  # noqa: PTH100 - keeps symlinks


def _store_threshold(store: Store, threshold: float) -> None:
    """Record the resemblance from which all pairs are known; other policies cannot go below it."""
    stored = meta.threshold(store)
    if stored is not None and stored != threshold:
        log.warning("pages of this state were joined by different thresholds", before=stored, now=threshold)
    if stored is None or threshold > stored:
        changes = Changes()
        meta.put_threshold(changes, threshold)
        store.write(changes)


def _truncate(store: Store, letters: DeadLetters) -> None:
    """Remove dead letters of a batch that was not committed; store the length of a file that was replaced."""
    stored = meta.dead_letter_bytes(store)
    length = letters.truncate(stored)
    if length != stored:
        changes = Changes()
        meta.put_dead_letter_bytes(changes, length)
        store.write(changes, sync=True)


def _run(job: _Job, batcher: Batcher, cursor: Cursor) -> tuple[Cursor, int]:
    """Process the input to its end; return the cursor there and the number of pages read."""
    engine, settings = job.engine, job.engine.settings
    dictionary = TextDictionary(engine.store, keep_texts=settings.policy.keep_texts)
    large = batcher.bytes_total == 0 or batcher.bytes_total >= settings.ingest.workers_from_bytes
    processes = (settings.ingest.workers or len(os.sched_getaffinity(0))) if large else 1
    pages_read = 0
    with SketchPool(processes, engine.scheme, settings.policy, settings.limits) as pool:
        for pending in _sketch_ahead(job, batcher, pool, dictionary):
            if not pages_read and not batcher.input_unchanged:
                cursor = Cursor()
            cursor = _apply(job, pending, cursor)
            pages_read += len(pending.batch.items)
            job.report(
                Progress(
                    bytes_read=pending.batch.bytes_read,
                    bytes_all=batcher.bytes_total,
                    counts=cursor,
                    read_now=pages_read,
                )
            )
            dictionary.train_if_due(engine.counters["documents"])
    cursor = msgspec.structs.replace(cursor, finished=True)
    changes = Changes()
    meta.put_cursor(changes, job.cursor_name, msgspec.json.encode(cursor))
    engine.store.write(changes, sync=True)
    return cursor, pages_read


def _sketch_ahead(
    job: _Job, batcher: Batcher, pool: SketchPool, dictionary: TextDictionary
) -> Iterator[_PendingBatch]:
    """Yield the batches in order, while the pool works on the following ones."""
    ahead = pool.count + 1 if pool.count > 1 else 0
    pending: deque[_PendingBatch] = deque()
    for batch in batcher:
        pending.append(_submit(job, batch, pool, dictionary))
        if len(pending) > ahead:
            yield pending.popleft()
    yield from pending


def _submit(job: _Job, batch: Batch, pool: SketchPool, dictionary: TextDictionary) -> _PendingBatch:
    # The opening of the sweep, and not the present: a page read again is then the same capture.
    items = [with_time(item, job.sweep.opened) if isinstance(item, Page) else item for item in batch.items]
    pages = [item for item in items if isinstance(item, Page)]
    read_at = job.engine.batches
    last = lookups.read_last_captures(job.engine.store, sorted({page.key for page in pages}))
    unchanged = find_unchanged(pages, last, job.sweep.number)
    captures = iter(unchanged)
    slots = [next(captures) if isinstance(item, Page) else item for item in items]
    changed = [page for page, capture in zip(pages, unchanged, strict=True) if capture is None]
    sketched = pool.submit(Task(job.sweep.number, changed, dictionary.number, dictionary.data))
    return _PendingBatch(batch=batch, slots=slots, last=last, read_at=read_at, sketched=sketched)


def _apply(job: _Job, pending: _PendingBatch, cursor: Cursor) -> Cursor:
    """Commit a batch with its cursor; return that cursor. Raises BadRecord before anything is written."""
    results = iter(pending.sketched.result())
    pages: list[SketchedPage] = []
    rejected: list[Rejected] = []
    for slot in pending.slots:
        for result in [slot] if slot is not None else next(results):
            if isinstance(result, Rejected):
                rejected.append(result)
            else:
                pages.append(result)
    applied = job.engine.apply(job.sweep, pages, rejected, pending.last, pending.read_at)
    if applied.report.rejected and job.fail_on_rejected:
        raise _bad_record(applied.report.rejected[0])
    cursor = cursor.advanced(pending.batch, applied.report)
    meta.put_dead_letter_bytes(applied.changes, job.letters.append(applied.report.rejected))
    meta.put_cursor(applied.changes, job.cursor_name, msgspec.json.encode(cursor))
    job.engine.commit(applied)
    return cursor


def _bad_record(item: Rejected) -> BadRecord:
    origin = item.origin
    file = f"{origin.source}:{origin.member}" if origin.member else origin.source
    return BadRecord(
        f"{file} at {origin.offset}: {item.reason}: {item.detail}",
        "repair the input and run the same command again, or omit --bad-records to skip such records",
    )

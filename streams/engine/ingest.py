"""Ingest crawl files into a sweep, one micro-batch after another.

    read ─▶ batch ─▶ sketch changed pages in worker processes ─▶ Engine.prepare ─▶ commit changes and cursor

The cursor contains the position up to which the input was read. One write stores a batch's changes, the cursor and
the length of the dead-letter file. After an interruption, the next run resumes after the last committed batch and
removes dead letters past the stored length, so that no line is duplicated or lost. The cursor also contains a mark,
which identifies the input: data appended to a file is read, and a rewritten file is read again from the start.

Nothing is stored before the first page: the write of its batch also opens the sweep. An input without pages therefore
leaves the state unchanged, because a sweep without pages would make all known URLs missing. Responses that are not
pages, such as images, stay in memory until the first page. An input with `POSTPONED_RESPONSES_MAX` of them is a
crawl, even without a page.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import mmh3
import msgspec
import structlog

from state import meta, sweeps
from state.changes import Changes
from state.model import Capture, Sweep, SweepState
from state.rows import RowReader
from state.store import Store
from streams import forgetting
from streams.engine.batcher import Batch, Batcher
from streams.engine.dead_letters import DeadLetters
from streams.engine.dictionary import TextDictionary
from streams.engine.embedded import BatchReport, Engine
from streams.engine.sketch_pool import SketchPool
from streams.errors import BadRecord, InputError, NoPages
from streams.manual import manual_command
from streams.operators import lookups
from streams.operators.capture import find_unchanged
from streams.operators.messages import SketchedPage
from streams.operators.sketch import SketchResults, SketchTask
from streams.page import NotAPage, Page, Rejected, with_default_time
from streams.readers import sources
from streams.readers.dispatch import list_files
from streams.readers.file_counts import POSTPONED_RESPONSES_MAX, FileCounts, join_names
from streams.readers.html_folder import contains_html
from streams.readers.position import InputMark, Position
from streams.readers.read_options import ReadOptions
from streams.settings import Settings

log = structlog.get_logger(__name__)


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of reading one input into one sweep. Position and mark are None before the first batch."""

    position: Position | None = None
    mark: InputMark | None = None
    finished: bool = False  # whether the end of the input was reached
    pages: int = 0  # including rejected records
    new: int = 0
    copies: int = 0
    unchanged: int = 0
    near_duplicates: int = msgspec.field(default=0, name="near")
    redirects_and_errors: int = msgspec.field(default=0, name="textless")
    not_pages: int = 0
    rejected: dict[str, int] = {}  # by reason

    def advanced(self, batch: Batch, report: BatchReport) -> Cursor:
        """Return the cursor after a batch."""
        pages_read = len(batch.items)
        with_document = report.new + report.copies + report.unchanged
        without_text = pages_read - with_document - report.not_pages - len(report.rejected)
        return Cursor(
            position=batch.position,
            mark=batch.mark,
            pages=self.pages + pages_read,
            new=self.new + report.new,
            copies=self.copies + report.copies,
            unchanged=self.unchanged + report.unchanged,
            near_duplicates=self.near_duplicates + report.near_duplicates,
            redirects_and_errors=self.redirects_and_errors + without_text,
            not_pages=self.not_pages + report.not_pages,
            rejected=dict(Counter(self.rejected) + Counter(item.reason for item in report.rejected)),
        )


class Progress(msgspec.Struct, frozen=True):
    """A progress report of an ingest."""

    bytes_read: int
    bytes_total: int  # 0 if unknown
    cursor: Cursor
    pages_read: int = 0  # in this run


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an ingest. `status` is "ingested", "resumed" or "nothing to do"."""

    sweep: str
    status: str
    committed: bool
    pages: int
    pages_read: int = msgspec.field(name="read_now")  # in this run
    new: int
    copies: int
    unchanged: int
    near_duplicates: int
    redirects_and_errors: int
    not_pages: int
    rejected: dict[str, int]
    files_without_pages: int  # of the files read in this run
    older_than: str | None = None  # the previous sweep of the same hosts, if its newest capture is newer
    dead_letters: str


class _PendingBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch whose changed pages are being sketched."""

    batch: Batch
    known_results: list[SketchedPage | Rejected | None]  # one per item; None if the page is being sketched
    last_captures: dict[bytes, Capture]  # the last capture of each URL
    commits_at_read: int  # the engine's number of commits when `last_captures` was read
    sketch_results: Future[SketchResults]


def ingest(
    store: Store,
    settings: Settings,
    paths: Sequence[str],
    sweep_name: str,
    *,
    now: int,
    keep_open: bool = False,
    fail_on_rejected: bool = False,
    report_progress: Callable[[Progress], None] = lambda _: None,
    report_read: Callable[[int], None] = lambda _: None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - immutable
) -> Summary:
    """Read `paths` into a sweep, which is opened if necessary and committed unless `keep_open`.

    `now` (ms) is the time at which the sweep is opened or committed. A page without a time gets the opening time.
    Input that was read before is skipped. While the sweep is open, data appended to a file is read, and a rewritten
    file is read again from the start.

    `report_progress` is called after each batch. Until the first batch is stored, `report_read` is called for each
    page, with the number of pages read.

    Raise NoPages, and leave the state unchanged, if the input contains no page: no record of a fetch, with or without
    text, apart from images and other responses that are not pages. Raise InputError if the sweep is committed and the
    input differs or has grown. With `fail_on_rejected`, raise BadRecord at the first bad record: earlier batches are
    stored, but not the batch of the bad record.
    """
    forgetting.commit_removals(forgetting.finish_interrupted_removals(store), partial(store.write, sync=True))
    engine = Engine(store, settings)
    absolute_paths = [path if path == "-" else os.path.abspath(path) for path in paths]  # noqa: PTH100 - keeps symlinks
    file_names = list_input_files(absolute_paths, store.path, options)
    stored_sweep = sweeps.named(store, sweep_name)
    sweep = stored_sweep or sweeps.new_sweep(store, sweep_name, now)
    identity = [*file_names, *filter(None, [options.identity()])]
    cursor_name = f"{sweep.number}:{mmh3.hash_bytes(chr(0).join(identity)).hex()}"
    stored_cursor = meta.cursor(store, cursor_name)
    cursor = msgspec.json.decode(stored_cursor, type=Cursor) if stored_cursor else Cursor()
    dead_letters = _open_dead_letters(store, sweep_name)
    status, pages_read, files_without_pages = "nothing to do", 0, 0
    if sweep.state is SweepState.OPEN:
        was_finished = cursor.finished
        if was_finished and file_names == ["-"]:
            cursor = Cursor()  # each run has different data on standard input
        run = _Run(
            engine, sweep, now, cursor_name, cursor, dead_letters, fail_on_rejected, report_progress, report_read
        )
        run.is_sweep_stored, run.has_pages = stored_sweep is not None, cursor.pages > 0
        files_without_pages = run.process(file_names, options)
        sweep, cursor, pages_read = run.sweep, run.cursor, run.pages_read
        if pages_read or not was_finished:
            status = "resumed" if cursor.pages > pages_read else "ingested"
        if not keep_open:
            sweep = sweeps.commit(store, sweep, now)
    elif not cursor.finished or Batcher(file_names, settings, cursor.position, cursor.mark, options).has_more():
        raise InputError(
            f"sweep {sweep_name!r} is committed and accepts no more pages", "choose another name with --sweep"
        )
    predecessor = sweeps.newer_predecessor(store, sweep)
    summary = _summarise(sweep, cursor, status, pages_read, files_without_pages, dead_letters.path)
    return msgspec.structs.replace(summary, older_than=predecessor.name if predecessor else None)


def _summarise(
    sweep: Sweep, cursor: Cursor, status: str, pages_read: int, files_without_pages: int, dead_letters: Path
) -> Summary:
    return Summary(
        sweep=sweep.name,
        status=status,
        committed=sweep.state is SweepState.COMMITTED,
        pages=cursor.pages,
        pages_read=pages_read,
        new=cursor.new,
        copies=cursor.copies,
        unchanged=cursor.unchanged,
        near_duplicates=cursor.near_duplicates,
        redirects_and_errors=cursor.redirects_and_errors,
        not_pages=cursor.not_pages,
        rejected=cursor.rejected,
        files_without_pages=files_without_pages,
        dead_letters=str(dead_letters),
    )


def list_input_files(
    paths: Sequence[str],
    state_folder: Path,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - immutable
) -> list[str]:
    """Return the names of the files to read.

    If a path contains `state_folder`, the state's own files are skipped, because reading dead letters would produce
    new ones forever. A path may be a folder inside `state_folder`, but not the dead-letter file.

    Raise ReadError if a path does not exist. Raise InputError if no crawl file is found or a name is not UTF-8.
    """
    dead_letter_file = state_folder / meta.DEAD_LETTER_FILE
    identity = sources.file_identity(dead_letter_file)
    for path in paths:
        if identity and sources.file_identity(path) == identity:
            raise InputError(
                f"{path} is this state's own dead-letter file",
                "fix the listed records in the original input, then ingest that input",
            )
    names = [source.name for source in list_files(paths, options, exclude=(state_folder, dead_letter_file))]
    if not names and options.html_folder is None and any(map(contains_html, paths)):
        raise InputError(
            f"no crawl file found in {', '.join(paths)}, but HTML files, as in a built site",
            "give the URL at which the folder is served, such as --base-url https://docs.example.org/",
        )
    if not names:
        raise InputError(
            f"no crawl file found in {', '.join(paths)}",
            f"{manual_command('formats-input')} lists the supported formats and file names",
        )
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"the file name {name!r} is not UTF-8", "rename the file") from None
    return names


def _open_dead_letters(store: Store, sweep_name: str) -> DeadLetters:
    """Open the dead-letter file, without the lines of an uncommitted batch.

    If the user has replaced or shortened the file, store its new length.
    """
    dead_letters = DeadLetters(store.path / meta.DEAD_LETTER_FILE, sweep_name)
    stored_length = meta.dead_letter_bytes(store)
    if (length := dead_letters.truncate(stored_length)) != stored_length:
        changes = Changes()
        meta.put_dead_letter_bytes(changes, length)
        store.write(changes, sync=True)
    return dead_letters


def _put_threshold(store: RowReader, changes: Changes, threshold: float) -> None:
    """Store the highest threshold used so far. Pairs below it may be missing, so no policy may go below it."""
    stored = meta.threshold(store)
    if stored is not None and stored != threshold:
        log.warning("the clusters of this state were joined at different thresholds", before=stored, now=threshold)
    if stored is None or threshold > stored:
        meta.put_threshold(changes, threshold)


class _Run(msgspec.Struct):
    """Ingests one input, from the cursor to the end."""

    engine: Engine
    sweep: Sweep
    now: int  # ms since the epoch
    cursor_name: str
    cursor: Cursor
    dead_letters: DeadLetters
    fail_on_rejected: bool
    report_progress: Callable[[Progress], None]
    report_read: Callable[[int], None]
    pages_read: int = 0
    is_sweep_stored: bool = False
    has_pages: bool = False  # whether this input has yielded a page, in this run or an earlier one
    has_committed: bool = False  # whether this run has committed a batch
    postponed: list[SketchedPage] = []  # responses before the first page, which are not pages
    file_counts: FileCounts = msgspec.field(default_factory=FileCounts)

    def process(self, file_names: Sequence[str], options: ReadOptions) -> int:
        """Sketch and commit all batches, and mark the cursor as finished. Return the number of files without pages.

        Raise NoPages if neither this run nor an earlier one has found a page in the input.
        """
        engine, settings = self.engine, self.engine.settings
        position = self.cursor.position
        batcher = Batcher(file_names, settings, position, self.cursor.mark, options)
        dictionary = TextDictionary(engine.store, keep_texts=settings.policy.keep_texts)
        process_count = self._process_count(batcher.bytes_total)
        batcher.report_read = self.report_read
        with SketchPool(process_count, engine.scheme, settings.policy, settings.limits) as pool:
            for pending in self._sketch_ahead(batcher, pool, dictionary):
                if not self.pages_read and not batcher.input_unchanged:
                    self._start_again(file_names)  # the input was rewritten
                self._commit_batch(pending)
                batcher.report_read = None
                self.pages_read += len(pending.batch.items)
                self.report_progress(
                    Progress(pending.batch.bytes_read, batcher.bytes_total, self.cursor, self.pages_read)
                )
                dictionary.train_if_due(engine.counters["documents"])
        if not self.pages_read and not batcher.input_unchanged:
            self._start_again(file_names)
        if not self.has_pages:
            self.dead_letters.truncate(meta.dead_letter_bytes(engine.store))
            raise NoPages(
                f"no page found in {join_names(file_names)}: {self.file_counts.describe(file_names)}",
                f"the state is unchanged; {manual_command('formats-input')} lists the supported formats",
            )
        self._finish()
        # Part of the file at the position was read in an earlier run, and so were the files before it.
        resumed_at = file_names.index(position.source) if position is not None else -1
        return self.file_counts.warn_about_files_without_pages(file_names[resumed_at + 1 :])

    def _start_again(self, file_names: Sequence[str]) -> None:
        """Reset the cursor, because the file at its position, or one before it, was rewritten."""
        position = self.cursor.position
        # The pages of an earlier file are still in the sweep.
        self.has_pages = position is not None and position.source != file_names[0]
        self.cursor = Cursor()

    def _finish(self) -> None:
        self.cursor = msgspec.structs.replace(self.cursor, finished=True)
        changes = Changes()
        meta.put_cursor(changes, self.cursor_name, msgspec.json.encode(self.cursor))
        self.engine.store.write(changes, sync=True)

    def _process_count(self, input_bytes: int) -> int:
        """Return the number of processes that sketch an input of `input_bytes`."""
        settings = self.engine.settings.ingest
        is_large = input_bytes >= settings.workers_from_bytes
        return (settings.workers or len(os.sched_getaffinity(0))) if is_large else 1

    def _sketch_ahead(
        self, batcher: Batcher, pool: SketchPool, dictionary: TextDictionary
    ) -> Iterator[_PendingBatch]:
        """Yield the batches in order while the pool sketches the following batches."""
        pending: deque[_PendingBatch] = deque()
        content_bytes = 0
        for batch in batcher:
            content_bytes += batch.content_bytes
            if batcher.bytes_total == 0 and pool.process_count == 1:  # standard input, whose size is unknown
                pool.start_processes(self._process_count(content_bytes))
            batches_ahead = pool.process_count + 1 if pool.process_count > 1 else 0
            pending.append(self._submit(batch, pool, dictionary))
            if len(pending) > batches_ahead:
                yield pending.popleft()
        yield from pending

    def _submit(self, batch: Batch, pool: SketchPool, dictionary: TextDictionary) -> _PendingBatch:
        # Pages without a time get the opening time, not the current time: a page read twice yields the same capture.
        opened = self.sweep.opened_time
        items = [with_default_time(item, opened) if isinstance(item, Page) else item for item in batch.items]
        pages = [item for item in items if isinstance(item, Page)]
        commits_at_read = self.engine.commits
        last_captures = lookups.read_last_captures(self.engine.store, sorted({page.key for page in pages}))
        policy = self.engine.settings.policy
        unchanged_pages = find_unchanged(pages, last_captures, self.sweep.number, policy)
        changed_pages = [page for page, result in zip(pages, unchanged_pages, strict=True) if result is None]
        page_results = iter(unchanged_pages)
        known_results = [next(page_results) if isinstance(item, Page) else item for item in items]
        task = SketchTask(self.sweep.number, changed_pages, dictionary.number, dictionary.data)
        return _PendingBatch(
            batch=batch,
            known_results=known_results,
            last_captures=last_captures,
            commits_at_read=commits_at_read,
            sketch_results=pool.submit(task),
        )

    def _commit_batch(self, pending: _PendingBatch) -> None:
        """Commit the changes of a batch and the cursor in one write, or raise BadRecord and write nothing.

        Before the first page, commit nothing. The dead letters are written, but past the stored length of their file.
        """
        sketched = iter(pending.sketch_results.result())  # per page, a list of one or two results
        results: SketchResults = [[known] if known is not None else next(sketched) for known in pending.known_results]
        pages = [item for items in results for item in items if isinstance(item, SketchedPage)]
        rejected = [item for items in results for item in items if isinstance(item, Rejected)]
        not_pages = sum(isinstance(items[-1], NotAPage) for items in results)
        commits_at_read = pending.commits_at_read
        if not self.has_pages:
            pages = self._postpone(pages, not_pages)
            commits_at_read = -1  # `last_captures` lacks the URLs of earlier batches
        prepared = self.engine.prepare(
            self.sweep, pages, rejected, pending.last_captures, commits_at_read, not_pages=not_pages
        )
        if prepared.report.rejected and self.fail_on_rejected:
            raise _bad_record(prepared.report.rejected[0])
        self.cursor = self.cursor.advanced(pending.batch, prepared.report)
        self._count_files(results, prepared.report.rejected)
        dead_letter_bytes = self.dead_letters.append(prepared.report.rejected)
        if not self.has_pages:
            self.engine.count_only(prepared)
            return
        if not self.has_committed:
            _put_threshold(self.engine.store, prepared.changes, self.engine.settings.policy.threshold)
        newest = max(self.sweep.newest_time, self._newest_time(pages))
        if not self.is_sweep_stored or newest > self.sweep.newest_time:
            self.sweep = msgspec.structs.replace(self.sweep, newest_time=newest)
            sweeps.put(prepared.changes, self.sweep)
            self.is_sweep_stored = True
        meta.put_dead_letter_bytes(prepared.changes, dead_letter_bytes)
        meta.put_cursor(prepared.changes, self.cursor_name, msgspec.json.encode(self.cursor))
        self.engine.commit(prepared)
        self.has_committed = True

    def _postpone(self, pages: list[SketchedPage], not_pages: int) -> list[SketchedPage]:
        """Postpone responses until the first page. Return the responses to store now: all postponed ones, or none."""
        self.postponed += pages
        self.has_pages = len(pages) > not_pages or len(self.postponed) >= POSTPONED_RESPONSES_MAX
        released: list[SketchedPage] = []
        if self.has_pages:
            released, self.postponed = self.postponed, released
        return released

    def _newest_time(self, pages: Sequence[SketchedPage]) -> int:
        """Return the time of the newest capture. Ignore the time that pages without a time get, and future times."""
        times = (page.capture.time for page in pages)
        return max((time for time in times if time != self.sweep.opened_time and time <= self.now), default=0)

    def _count_files(self, results: SketchResults, rejected: Sequence[Rejected]) -> None:
        for first, *others in results:
            if others and isinstance(others[0], NotAPage):
                self.file_counts.add_not_a_page(others[0])
            elif isinstance(first, SketchedPage):
                self.file_counts.add_page(first.origin.source)
        for item in rejected:
            self.file_counts.add_rejected(item)


def _bad_record(item: Rejected) -> BadRecord:
    origin = item.origin
    file = f"{origin.source}:{origin.member}" if origin.member else origin.source
    match sources.format_from_name(origin.member or origin.source):
        case "jsonl":
            position = f"line {origin.offset + 1}"
        case "":
            position = f"record at {origin.offset}"
        case _:
            position = f"byte {origin.offset}"
    return BadRecord(
        f"{file}, {position}: {item.reason}: {item.detail}",
        "fix the input and run the same command again, or omit --bad-records to skip such records",
    )

"""Progress on stderr: a line with a bar if stderr is a terminal, otherwise a plain line every `LINE_SECONDS`.

A command updates its meter while it works, and a thread shows the meter. The display therefore changes even while a
single step of the command takes long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.cells import cell_len
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.terminal.escape import escape_text, format_rate, pluralise
from streams.terminal.layout import console

if TYPE_CHECKING:
    from state.row_counter import RowCounter
    from streams.engine import ingest
    from streams.forgetting import Removal

LINE_SECONDS = 10.0  # between the lines that are written if stderr is not a terminal
BAR_WIDTH = 20
TITLE_WIDTH_MAX = 20

M = TypeVar("M", bound="Meter")
T = TypeVar("T")


@dataclass
class Meter:
    """The progress of one command. The command updates the meter, and the display reads it."""

    title: str
    noun: str = "page"  # what `count` counts
    count: int = 0
    count_at_start: int = 0  # counted by an earlier run, so excluded from the rate
    position: int = 0  # how much of `total` is done
    total: int = 0  # 0 if unknown
    activity: str = ""  # shown instead of the count while nothing is counted
    details: list[str] = field(default_factory=list)  # shown if there is space, the most important one first
    poll: Callable[[Meter], None] = lambda _: None  # updates the meter before it is shown
    started: float = field(default_factory=time.monotonic)
    _first_position: tuple[float, int] | None = None  # the time when a position was first known, and this position

    def figures(self, now: float) -> list[str]:
        """Return the figures to show after the bar, the most important one first. `now` is a monotonic time in s."""
        self.poll(self)
        figures = [_format_duration(now - self.started)]
        if self.total:
            figures = [f"{self.share:.0%}", f"{self._format_remaining(now)} left"]
        counted = self.count - self.count_at_start
        if counted > 0 or not self.activity:
            figures += [pluralise(self.count, self.noun), format_rate(counted, now - self.started)]
        else:
            figures += [self.activity]
        return [*figures, *self.details]

    @property
    def share(self) -> float:
        """Return how much of the total is done, at most 1 even if a file grows while it is read."""
        return min(1.0, self.position / self.total) if self.total else 0.0

    def _format_remaining(self, now: float) -> str:
        if self._first_position is None and self.position:
            self._first_position = (now, self.position)
        first_time, first_position = self._first_position or (now, self.position)
        if self.position >= self.total:
            return "0:00:00"
        if self.position <= first_position:
            return "-:--:--"
        seconds_per_unit = (now - first_time) / (self.position - first_position)
        return _format_duration((self.total - self.position) * seconds_per_unit)


def bar_line(meter: Meter, now: float, width: int) -> Table:
    """Return the line for a terminal. If the terminal is narrow, omit the details, then the rate, then the count."""
    essential_count = 2 if meter.total else 1
    title = Text(escape_text(meter.title), no_wrap=True)
    title.truncate(TITLE_WIDTH_MAX, overflow="ellipsis")
    figures = meter.figures(now)
    shown = figures[:essential_count]
    used_width = (
        title.cell_len + sum(cell_len(figure) + 2 for figure in shown) + (BAR_WIDTH + 2 if meter.total else 0)
    )
    for figure in figures[essential_count:]:
        used_width += cell_len(figure) + 2
        if used_width >= width:
            break
        shown.append(figure)
    bars = [ProgressBar(total=1.0, completed=meter.share, width=BAR_WIDTH)] if meter.total else []
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_row(title, *bars, Text("  ".join(shown), no_wrap=True))
    return line


def plain_line(meter: Meter, now: float) -> str:
    """Return the line for a file or a pipe, with all figures."""
    return f"{escape_text(meter.title)}: {', '.join(meter.figures(now))}"


@contextmanager
def show(meter: M, *, quiet: bool = False) -> Iterator[M]:
    """Show a meter on stderr until the block ends. With `quiet`, show nothing."""
    if quiet:
        yield meter
    elif sys.stderr.isatty():
        stderr = console(stderr=True)

        def render() -> Table:
            return bar_line(meter, time.monotonic(), stderr.width)

        # If stdout is also the terminal, its text is printed above the bar. Otherwise, it must not go to stderr.
        redirect_stdout = sys.stdout.isatty()
        with Live(console=stderr, get_renderable=render, transient=True, redirect_stdout=redirect_stdout):
            yield meter
    else:
        stopped = Event()

        def write_lines() -> None:
            while not stopped.wait(LINE_SECONDS):
                click.echo(plain_line(meter, time.monotonic()), err=True)

        thread = Thread(target=write_lines, daemon=True)
        thread.start()
        try:
            yield meter
        finally:
            stopped.set()
            thread.join()


@dataclass
class IngestMeter(Meter):
    """The progress of an ingest."""

    compilation: str = ""

    def show_compiling(self, compilation: str) -> None:
        """Show that the first batch has to wait for the compiler, unless `compilation` is empty."""
        self.compilation = compilation
        self.count_read(0)

    def count_read(self, pages: int) -> None:
        """Show how many pages have been read. Only needed until the first batch is stored, which may take long."""
        self.activity = "; ".join(filter(None, (self.compilation, f"{pluralise(pages, 'page')} read")))

    def update(self, progress: ingest.Progress) -> None:
        """Show a committed batch."""
        cursor = progress.cursor
        self.position, self.total = progress.bytes_read, progress.bytes_total
        self.count, self.count_at_start = cursor.pages, cursor.pages - progress.pages_read
        self.details = [
            f"{name} {count:,}"
            for name, count in (
                ("new", cursor.new),
                ("copies", cursor.copies),
                ("unchanged", cursor.unchanged),
                ("near-duplicate", cursor.near_duplicates),
                ("not a page", cursor.not_pages),
                ("rejected", sum(cursor.rejected.values())),
            )
        ]


def ingest_meter(sweep_name: str, *, quiet: bool = False) -> AbstractContextManager[IngestMeter]:
    """Show an ingest: how much of the input has been read, the remaining time, the rate, and the counts."""
    return show(IngestMeter(f"sweep {sweep_name}", activity="opening the state"), quiet=quiet)


@dataclass
class PublishMeter(Meter):
    """The progress of `publish`."""

    def update(self, bytes_read: int, bytes_total: int, pages: int) -> None:
        self.position, self.total, self.count = bytes_read, bytes_total, pages


def publish_meter(sweep_name: str, *, quiet: bool = False) -> AbstractContextManager[PublishMeter]:
    """Show how many bytes and pages have been read."""
    return show(PublishMeter(f"publish {sweep_name}", activity="connecting"), quiet=quiet)


@dataclass
class RemovalMeter(Meter):
    """The progress of `forget` and `sweep cancel`."""

    def update(self, removal: Removal) -> None:
        """Count the captures of a committed removal."""
        self.count += removal.captures
        self.position = self.count


@contextmanager
def removal_meter(title: str, captures: int = 0, *, quiet: bool = False) -> Iterator[RemovalMeter]:
    """Show how many captures have been removed, of a total number that may be unknown (0)."""
    with show(RemovalMeter(title, "capture", total=captures, activity="searching"), quiet=quiet) as meter:
        yield meter


@dataclass
class DownloadMeter(Meter):
    """The progress of a download of several archives."""

    _lock: Lock = field(default_factory=Lock)

    def advance(self) -> None:
        """Count one more archive. Several threads may call this."""
        with self._lock:
            self.count += 1
            self.position = self.count


def download_meter(total: int) -> AbstractContextManager[DownloadMeter]:
    """Show how many archives have been downloaded."""
    return show(DownloadMeter("download", "archive", total=total))


@dataclass
class ExportMeter(Meter):
    """The progress of an export."""

    def count_rows(self, rows: int) -> None:
        """Count rows that were read."""
        self.count += rows
        self.position = self.count

    def show_step(self, step: str) -> None:
        """Show what the workers are writing."""
        self.activity = f"workers are writing {step}"

    def show_waiting(self) -> None:
        """Show that the export waits for a program that reads the old files."""
        self.details = ["waiting for a program that reads the old files"]


def export_meter(rows: int, *, quiet: bool = False) -> AbstractContextManager[ExportMeter]:
    """Show how many rows of the state have been read, of an estimated total."""
    return show(ExportMeter("export", "row", total=rows, activity="opening the state"), quiet=quiet)


@dataclass
class AnalysisMeter(Meter):
    """The progress of an analysis."""

    noun: str = "row"
    activity: str = "opening the state"

    def begin(self, activity: str) -> None:
        """Show a new activity, until rows are counted."""
        self.activity, self.count = activity, 0

    def count_rows(self, rows: int) -> None:
        """Count exported rows."""
        self.count += rows


def row_meter(title: str, counter: RowCounter[Any]) -> Meter:
    """Return a meter for a command that reads many rows, which `counter` counts."""

    def count_rows(meter: Meter) -> None:
        meter.count = counter.count

    return Meter(title, "row", poll=count_rows)


def copy_meter(source: Path, target: Path) -> Meter:
    """Return a meter for copying a folder. It shows the size of the copy, compared with the size of the source."""

    def measure_copy(meter: Meter) -> None:
        # RocksDB copies into a temporary folder, and then renames it.
        meter.position = _folder_bytes(target) or _folder_bytes(target.with_name(f"{target.name}.tmp"))
        meter.count = meter.position // 1_000_000

    return Meter("state backup", "MB", total=_folder_bytes(source), poll=measure_copy)


def _folder_bytes(folder: Path) -> int:
    """Return the size of a folder's files, even while files are created, renamed or deleted."""
    size_bytes = 0
    with suppress(FileNotFoundError):
        for file in folder.iterdir():
            size_bytes += file.stat().st_size
    return size_bytes


def iterate(items: Iterable[T], meter: Meter, *, quiet: bool = False) -> Generator[T, None, None]:
    """Yield the items. Show the meter until the last item is consumed or the generator is closed."""
    with show(meter, quiet=quiet):
        yield from items


def _format_duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"

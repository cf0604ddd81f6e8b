"""Progress bars on stderr, shown only if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from streams.terminal.escape import pluralise
from streams.terminal.layout import console

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from streams.engine import ingest


def _new_progress(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    common_columns = (TextColumn("{task.description}", markup=False), BarColumn(24))
    disable = quiet or not sys.stderr.isatty()
    return Progress(*common_columns, *columns, console=console(stderr=True), disable=disable, transient=True)


@contextmanager
def ingest_bar(sweep_name: str, *, quiet: bool) -> Iterator[Callable[[ingest.Progress], None]]:
    """Show how much of the input has been read, the rate, and the counts. Yield a function that updates them."""
    columns = (TextColumn("{task.fields[counts]}", markup=False), TimeRemainingColumn(compact=True))
    with _new_progress(*columns, quiet=quiet) as bar:
        task = bar.add_task(f"sweep {sweep_name}", total=None, counts="")

        def update(progress: ingest.Progress) -> None:
            cursor = progress.cursor
            counts = (
                f"{pluralise(cursor.pages, 'page')}  {format_rate(progress.pages_read, bar.tasks[task].elapsed)}"
                f"  new {cursor.new:,}  copies {cursor.copies:,}  unchanged {cursor.unchanged:,}"
                f"  near-duplicate {cursor.near_duplicates:,}  rejected {sum(cursor.rejected.values()):,}"
            )
            bar.update(task, completed=progress.bytes_read, total=progress.bytes_total or None, counts=counts)

        yield update


@contextmanager
def publish_bar(sweep_name: str, *, quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Show how many bytes and pages have been read. Yield a function that updates them."""
    with _new_progress(TextColumn("{task.fields[pages]}", markup=False), quiet=quiet) as bar:
        task = bar.add_task(f"publish {sweep_name}", total=None, pages="")

        def update(bytes_read: int, bytes_total: int, pages: int) -> None:
            bar.update(task, completed=bytes_read, total=bytes_total or None, pages=pluralise(pages, "page"))

        yield update


@contextmanager
def download_bar(total: int) -> Iterator[Callable[[], None]]:
    """Show how many archives have been downloaded. Yield a function to call after each download."""
    with _new_progress(MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("archives", total=total)
        yield lambda: bar.advance(task)


def format_rate(pages: int, seconds: float | None) -> str:
    """Return pages per second, with one decimal place for low rates."""
    rate = pages / (seconds or 1e-9)
    return f"{rate:,.0f}/s" if rate >= 10 or not pages else f"{rate:.1f}/s"

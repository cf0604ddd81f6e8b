"""Building blocks of terminal output: consoles, columns, formatted numbers and URL lists.

If stdout is not a terminal, the output has the same words without colours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.align import AlignMethod
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from streams.terminal.escape import escape_text, symbol
from streams.timestamps import format_iso

PIPE_WIDTH = 160  # line width if the output is not a terminal; so large that few lines are wrapped
URLS_SHOWN = 3  # per document or cluster; --json lists all
ID_DIGITS_SHOWN = 10  # first digits of a document id; `lostfound cluster` accepts no fewer
GREEN_MIN, YELLOW_MIN = 0.8, 0.5  # minimum shares for these colours

Row = tuple[Sequence[str | Text], Sequence[Text]]  # the cells, and the lines below them


def console(*, stderr: bool = False) -> Console:
    """Return a console for stdout or stderr. It prints text literally, even if the text looks like markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width, soft_wrap=False)


def print_to_stdout(*parts: RenderableType) -> None:
    """Print to stdout. Text outside tables is not wrapped, because users copy paths and URLs from it."""
    stdout = console()
    for part in parts:
        stdout.print(part, soft_wrap=isinstance(part, Text), crop=False)


def format_day(ms: int) -> str:
    """Return the UTC date of a time in ms since the epoch, or an empty string for 0, which means unknown."""
    return (format_iso(ms) or "")[:10] if ms else ""


def format_share(value: float | None) -> Text:
    """Return a share with two decimal places, coloured by its size. Only a share of exactly 1 is shown as 1.00."""
    if value is None:
        return Text("")
    style = "green" if value >= GREEN_MIN else "yellow" if value >= YELLOW_MIN else "dim"
    return Text(f"{value if value >= 1 else min(value, 0.99):.2f}", style=style)


def format_estimate(value: float, standard_error: float) -> Text:
    """Return a share with its standard error. Leave out an error that would be shown as ±0.00."""
    share = format_share(value)
    return share.append(f" {symbol('±')}{standard_error:.2f}", style="dim") if standard_error >= 0.005 else share


def format_id(document: str | None) -> str:
    return (document or "")[:ID_DIGITS_SHOWN]


def first_urls(urls: Sequence[str], total: int | None = None) -> Text:
    """Return the first URLs, one per line, and how many more there are. `total` defaults to the number of `urls`."""
    remaining = (total if total is not None else len(urls)) - min(len(urls), URLS_SHOWN)
    lines = Text("\n".join(map(escape_text, urls[:URLS_SHOWN])))
    return lines.append(f"\nand {remaining:,} more", style="dim") if remaining > 0 else lines


def unbreakable(text: Text) -> Text:
    """Mark a text so that it is never truncated or wrapped, not even on a narrow terminal. Return the same text."""
    text.overflow, text.no_wrap = "ignore", True
    return text


def new_table(*columns: str) -> Table:
    """Return an empty table without borders. A column is right-aligned if its name starts with `>`."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        is_right = name.startswith(">")
        alignment: AlignMethod = "right" if is_right else "left"
        table.add_column(name.removeprefix(">"), justify=alignment, no_wrap=is_right, overflow="fold")
    return table


class BlockTable:
    """A table that can have lines below the cells of each row, for URLs that a narrow column would wrap.

    A column is right-aligned if its name starts with `>`. Ids and URLs are never truncated or wrapped, so that users
    can copy them. Lines have no trailing spaces, because the output may go to a pipe. Text in the last column is
    truncated if it has `overflow="ellipsis"`. Lines below the cells are wrapped at spaces unless `no_wrap` is set.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        self._headings = [name.removeprefix(">") for name in columns]
        self._alignments: list[AlignMethod] = ["right" if name.startswith(">") else "left" for name in columns]
        self._rows = [([_to_text(cell) for cell in cells], lines_below) for cells, lines_below in rows]
        cells_by_column = zip(map(_to_text, self._headings), *(cells for cells, _ in self._rows), strict=True)
        # Cells that may be truncated do not widen their column.
        self._widths: list[int] = [
            max(cell.cell_len for cell in column if cell.overflow != "ellipsis") for column in cells_by_column
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line_width = options.max_width
        cells_width, gap_count = sum(self._widths), len(self._widths) - 1
        # Separate columns by one space instead of two if the lines do not fit otherwise.
        gap_width = 1 if cells_width + gap_count <= line_width < cells_width + 2 * gap_count else 2
        yield self._line([Text(heading, style="dim") for heading in self._headings], gap_width, line_width)
        for cells, lines_below in self._rows:
            yield self._line(cells, gap_width, line_width)
            for text in filter(None, lines_below):
                text.overflow = "ignore"
                for line in text.wrap(console, max(line_width - 4, 20)):
                    line.rstrip()
                    yield unbreakable(Text("    ")).append(line)

    def _line(self, cells: Sequence[Text], gap_width: int, line_width: int) -> Text:
        line = unbreakable(Text())
        for cell, width, alignment in zip(cells, self._widths, self._alignments, strict=True):
            aligned = cell.copy()
            aligned.align(alignment, max(width, cell.cell_len))
            line.append(aligned).append(" " * gap_width)
        line.rstrip()
        if cells[-1].overflow == "ellipsis":
            line.truncate(line_width, overflow="ellipsis")
        return line


def _to_text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)

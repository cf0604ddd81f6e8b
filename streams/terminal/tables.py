"""Answers on a terminal: tables that stay aligned, colour only where it means something.

Everything here turns values into rich renderables; `out` prints them to stdout. Colour and boxes vanish when stdout
is not a terminal; the words stay the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.align import AlignMethod
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streams.terminal.escape import counted, plain
from streams.timestamps import iso

if TYPE_CHECKING:
    from state.model import Sweep
    from state.stats import Hot, Stats
    from streams.engine import ingest
    from streams.find.answer import Answer, Candidate
    from streams.query import Cluster, Match, Member, UrlCapture

PLAIN_WIDTH = 160  # columns where stdout is no terminal: URLs should not be folded for a pipe
URLS_SHOWN = 3  # of one document or cluster in a table; --json has all
DOCUMENT_DIGITS = 10  # of an id in a table: enough to hand back to `cluster`

SURE, LIKELY = 0.8, 0.5  # confidences from which a figure is shown green, and yellow
UNLIKELY = 0.05  # candidates below this are for --json
ALIKE = 0.1  # a resemblance from which it is a reason


def console(*, stderr: bool = False) -> Console:
    """The terminal, or a wide plain page where there is none; text is shown as it is, whatever brackets it holds."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width, soft_wrap=False)


def out(*parts: RenderableType) -> None:
    """Print to stdout. Bare text is not wrapped: it names paths and URLs that someone will copy."""
    to = console()
    for part in parts:
        to.print(part, soft_wrap=isinstance(part, Text), crop=False)


def day(ms: int) -> str:
    """Milliseconds since the epoch as a day, or nothing for 0."""
    return (iso(ms) or "")[:10] if ms else ""


def table(*columns: str) -> Table:
    """A table of the house: no box, quiet heads; a column named `>so` stands on the right."""
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(
            name.removeprefix(">"),
            justify="right" if name.startswith(">") else "left",
            no_wrap=name.startswith(">"),
            overflow="fold",
        )
    return made


def figure(value: float | None) -> Text:
    """A share with two digits, coloured by how much it says; only the whole reads 1.00."""
    if value is None:
        return Text("")
    style = "green" if value >= SURE else "yellow" if value >= LIKELY else "dim"
    return Text(f"{value if value >= 1 else min(value, 0.99):.2f}", style=style)


def measured(value: float, error: float) -> Text:
    """A figure with its standard error, or alone when it was counted."""
    shown = figure(value)
    return shown.append(f" ±{error:.2f}", style="dim") if error >= 0.005 else shown  # below, it would read ±0.00


def some(urls: Sequence[str], count: int | None = None) -> Text:
    """The first URLs, one a line, and how many more there are."""
    more = (count if count is not None else len(urls)) - min(len(urls), URLS_SHOWN)
    shown = Text("\n".join(map(plain, urls[:URLS_SHOWN])))
    return shown.append(f"\nand {more:,} more", style="dim") if more > 0 else shown


@contextmanager
def ingest_bar(sweep: str, quiet: bool) -> Iterator[Callable[[ingest.Progress], None]]:
    """A progress bar on stderr, when that is a terminal: share of the input, pages/s, what became of them."""
    to = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        TextColumn("{task.fields[said]}", markup=False),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=to, disable=quiet or not sys.stderr.isatty(), transient=True) as bar:
        at = bar.add_task(f"sweep {sweep}", total=None, said="")

        def report(progress: ingest.Progress) -> None:
            counts = progress.counts
            said = (
                f"{counts.pages:,} pages  {_rate(progress.read_now, bar.tasks[at].elapsed)}  new {counts.new:,}"
                f"  copies {counts.copies:,}  unchanged {counts.unchanged:,}  near-duplicate {counts.near:,}"
                f"  rejected {sum(counts.rejected.values()):,}"
            )
            bar.update(at, completed=progress.bytes_read, total=progress.bytes_all or None, said=said)

        yield report


@contextmanager
def bytes_bar(title: str, quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """A progress bar on stderr, when that is a terminal: of bytes read, and pages so far."""
    to = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        TextColumn("{task.fields[said]}", markup=False),
    )
    with Progress(*columns, console=to, disable=quiet or not to.is_terminal, transient=True) as bar:
        at = bar.add_task(title, total=None, said="")

        def report(done: int, everything: int, pages: int) -> None:
            bar.update(at, completed=done, total=everything or None, said=counted(pages, "page"))

        yield report


def _rate(pages: int, seconds: float | None) -> str:
    rate = pages / (seconds or 1e-9)
    return f"{rate:,.0f}/s" if rate >= 10 or not pages else f"{rate:.1f}/s"


def ingested(summary: ingest.Summary, seconds: float) -> Text:
    """What an ingest did."""
    state = "committed" if summary.committed else "still open"
    if summary.status == "nothing to do":
        pages = counted(summary.pages, "page")
        return Text(f"sweep {summary.sweep} holds this input already ({pages}, {state}): nothing to do")
    head = Text.assemble(
        (f"sweep {summary.sweep}", "bold"),
        f"  {counted(summary.pages, 'page')}",
        (f", {summary.read_now:,} of them now," if summary.status == "resumed" else "", "dim"),
        f" in {seconds:.1f} s ({_rate(summary.read_now, seconds)}), {state}",
    )
    others = f"   redirects and errors {summary.redirects_and_errors:,}" if summary.redirects_and_errors else ""
    body = Text(
        f"  new {summary.new:,}   copies {summary.copies:,}   unchanged {summary.unchanged:,}"
        f"   near-duplicate {summary.near_duplicates:,}{others}   rejected {sum(summary.rejected.values()):,}"
    )
    if not summary.rejected:
        return Text("\n").join([head, body])
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(summary.rejected.items()))
    refused = Text(f"  rejected: {reasons}; each is in {summary.dead_letters}", style="yellow")
    return Text("\n").join([head, body, refused])


def sweeps(found: Sequence[Sweep]) -> RenderableType:
    """All sweeps, a line each."""

    def row(each: Sweep) -> Row:
        captures = f"{each.captures:,}" if each.committed else ""
        times = (iso(each.opened) or "", iso(each.committed or None) or "")
        return (plain(each.name), each.state.name.lower(), *times, captures), ()

    return Blocks(("sweep", "state", "opened", "committed", ">captures"), map(row, found))


Row = tuple[Sequence[str | Text], Sequence[Text]]  # cells, and what stands under them


class Blocks:
    """Rows of short figures, each with lines under it: URLs, which a column of their own would fold to pieces.

    A column `>so` stands on the right. Ids and URLs are neither cut nor broken, so that they can be copied; and lines
    are not padded, as they may go into a pipe. The last column is cut where it says `overflow="ellipsis"`, and what
    stands below is wrapped, at blanks, where it does not say `no_wrap`.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        self._heads = [name.removeprefix(">") for name in columns]
        self._sides: list[AlignMethod] = ["right" if name.startswith(">") else "left" for name in columns]
        self._rows = [([_text(cell) for cell in cells], below) for cells, below in rows]
        columns_of = zip(map(_text, self._heads), *(cells for cells, _ in self._rows), strict=True)
        # What is cut needs no room of its own.
        self._widths: list[int] = [
            max(cell.cell_len for cell in held if cell.overflow != "ellipsis") for held in columns_of
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        room = options.max_width
        taken, gaps = sum(self._widths), len(self._widths) - 1
        gap = 1 if taken + gaps <= room < taken + 2 * gaps else 2  # closer together where that makes the lines fit
        yield self._line([Text(head, style="dim") for head in self._heads], gap, room)
        for cells, below in self._rows:
            yield self._line(cells, gap, room)
            for text in filter(None, below):
                text.overflow = "ignore"
                for part in text.wrap(console, max(room - 4, 20)):
                    part.rstrip()
                    yield _whole(Text("    ")).append(part)

    def _line(self, cells: Sequence[Text], gap: int, room: int) -> Text:
        made = _whole(Text())
        for cell, width, side in zip(cells, self._widths, self._sides, strict=True):
            aligned = cell.copy()
            aligned.align(side, max(width, cell.cell_len))
            made.append(aligned).append(" " * gap)
        made.rstrip()
        if cells[-1].overflow == "ellipsis":
            made.truncate(room, overflow="ellipsis")
        return made


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _whole(text: Text) -> Text:
    """The text, never to be cut or broken, however narrow the terminal."""
    text.overflow, text.no_wrap = "ignore", True
    return text


def _title(text: str) -> Text:
    return Text(plain(text), overflow="ellipsis")


def clusters(found: Sequence[Cluster], titles: Callable[[str], str]) -> RenderableType:
    """Clusters with their first URLs; `titles` gives a document's title."""

    def row(each: Cluster) -> Row:
        title = next((title for document in each.documents[:20] if (title := titles(document))), "")
        counts = (f"{each.document_count:,}", f"{each.url_count:,}")
        return (each.cluster[:DOCUMENT_DIGITS], *counts, _title(title)), [_whole(some(each.urls, each.url_count))]

    return Blocks(("cluster", ">documents", ">urls", "title"), map(row, found))


def cluster(found: Cluster, members: Sequence[Member]) -> RenderableType:
    """One cluster: its members, most like the asked document first."""
    counts = f"  {counted(found.document_count, 'document')} at {counted(found.url_count, 'URL')}"
    head = _whole(Text.assemble(("cluster ", "dim"), (found.cluster, "bold"), counts))

    def row(each: Member) -> Row:
        figures = (figure(each.resemblance), figure(each.containment), figure(each.contained))
        seen = (day(each.first_seen), day(each.last_seen))
        return (each.document[:DOCUMENT_DIGITS], *figures, *seen, _title(each.title)), [_whole(some(each.urls))]

    columns = ("document", ">resemblance", ">in it", ">of it", "first seen", "last seen", "title")
    return Group(head, Text(), Blocks(columns, map(row, members)))


def matches(found: Sequence[Match]) -> RenderableType:
    """Documents like the asked one."""

    def row(each: Match) -> Row:
        figures = (
            measured(each.resemblance, each.resemblance_error),
            measured(each.containment, each.containment_error),
            measured(each.contained, each.contained_error),
        )
        seen = (day(each.first_seen), day(each.last_seen))
        cells = (each.document[:DOCUMENT_DIGITS], *figures, *seen, each.cluster[:DOCUMENT_DIGITS])
        return cells, [_whole(some(each.urls, each.url_count))]

    columns = ("document", ">resemblance", ">in it", ">of it", "first seen", "last seen", "cluster")
    return Blocks(columns, map(row, found))


def history(found: Sequence[UrlCapture]) -> RenderableType:
    """The captures of a URL, in the order of their sweeps."""

    def row(each: UrlCapture) -> Row:
        same = each.resemblance == 1.0
        likeness = Text("unchanged", style="dim") if same else figure(each.resemblance)
        document = (each.document or "")[:DOCUMENT_DIGITS]
        target = _whole(Text(f"→ {plain(each.redirect)}" if each.redirect else ""))
        return (plain(each.sweep), iso(each.time) or "", str(each.status), document, likeness), [target]

    return Blocks(("sweep", "time", ">status", "document", ">like the one before"), map(row, found))


# What each kind of evidence says, for people; figure and detail follow.
REASONS = {
    "redirect": "redirects there",
    "redirect_of_many": "redirects there, as many others do",
    "suspected_soft_404": "serves an error page",
    "target_missing": "which is missing too",
    "not_captured": "which no sweep holds",
    "stop": "by way of",
    "folded_in": "folded in",
    "words": "words",
    "appeared": "appeared just then",
    "stood_beside": "stood beside it",
    "copied_tree": "a copied tree",
    "path": "path",
    "rule": "rule",
    "same_domain": "same domain",
    "other_domain": "other domain",
}


def reasons(found: Candidate, *, in_full: bool = False) -> Text:
    """A candidate's evidence in a line; in full with the rules and URLs that it names."""
    said = []
    if not in_full and found.resemblance is not None and found.resemblance >= ALIKE:
        said.append(f"alike {found.resemblance:.2f}")
    for each in found.evidence:
        if each.kind == "same_host":  # goes without saying
            continue
        words = [REASONS.get(each.kind, each.kind)]
        if each.value is not None:
            words.append(f"{each.value:.2f}")
        if in_full and each.detail and each.kind in {"rule", "stop"}:
            words.append(plain(each.detail))
        said.append(" ".join(words))
    return Text(" · ".join(said), style="dim")


MET = {"redirect", "redirect_of_many"}  # by the crawler at the URL itself: told whatever comes of it
SERVES_AN_ERROR = "serves an error page now: the same as many unrelated URLs of its host"
STATUS_STYLES = {"alive": "green", "moved": "bold green", "gone": "red", "unknown": "dim"}


def answer(found: Answer) -> RenderableType:
    """One answer with its likelier candidates, and the evidence for each; what the crawler met is always told."""
    seen = f", last seen {found.last_seen[:10]}" if found.last_seen else ""
    head = Text.assemble(plain(found.url), "  ", (found.status, STATUS_STYLES[found.status]), seen)
    parts: list[RenderableType] = [_whole(head)]
    if _serves_an_error(found):
        parts.append(Text(f"  {SERVES_AN_ERROR}", style="yellow"))
    candidates = [each for each in found.candidates if not _is_soft_404(each)]
    shown = [each for each in candidates if each.confidence >= UNLIKELY or _kinds(each) & MET] or candidates[:1]

    def row(each: Candidate) -> Row:
        figures = (figure(each.confidence), figure(each.resemblance), figure(each.containment))
        since = (each.first_seen or "")[:10]
        return (*figures, since, Text(plain(each.url), style="bold")), [reasons(each, in_full=True)]

    if shown:
        columns = (">confidence", ">resemblance", ">in it", "since", "candidate")
        parts += [Text(), Blocks(columns, map(row, shown))]
    if rest := len(candidates) - len(shown):
        parts.append(Text(f"{rest:,} less likely", style="dim"))
    return Group(*parts)


def answers(found: Sequence[Answer]) -> RenderableType:
    """Many answers, each with its best candidate under it."""

    def row(each: Answer) -> Row:
        below = [Text(SERVES_AN_ERROR, style="yellow")] if _serves_an_error(each) else []
        best = each.candidates[0] if each.status == "moved" else None
        if best is not None:
            below += [_whole(Text(f"→ {plain(best.url)}", style="bold")), reasons(best)]
        status = Text(each.status, style=STATUS_STYLES[each.status])
        return (status, figure(best.confidence if best else None), plain(each.url)), below

    return Blocks(("", ">confidence", "url"), map(row, found))


def _kinds(candidate: Candidate) -> set[str]:
    return {each.kind for each in candidate.evidence}


def _is_soft_404(candidate: Candidate) -> bool:
    """It is no target but the URL asked for: a redirect to an error page has `redirect` beside it."""
    return _kinds(candidate) == {"suspected_soft_404"}


def _serves_an_error(found: Answer) -> bool:
    return any(map(_is_soft_404, found.candidates))


def stats(found: Stats) -> RenderableType:
    """The state by column family, and its counters."""
    families = table("column family", ">keys (about)", ">on disk")
    for family in found.families:
        families.add_row(family.family, f"{family.keys_estimated:,}", _size(family.bytes_on_disk))
    families.add_row("all", "", _size(sum(family.bytes_on_disk for family in found.families)), style="bold")
    counters = table("counter", ">since the state was made")
    for name, count in sorted(found.counters.items()):
        counters.add_row(name, f"{count:,}")
    held = ", ".join(f"{count:,} {state}" for state, count in found.sweeps.items() if count) or "none"
    head = Text(f"{found.path}  scheme {found.scheme}  {found.documents:,} documents  sweeps: {held}")
    return Group(head, Text(), families, Text(), counters)


def hot(found: Sequence[Hot]) -> RenderableType:
    """Buckets and samples at their limits, the fullest first."""
    shown = table("kind", "key", ">documents")
    for each in sorted(found, key=lambda each: -each.documents):
        shown.add_row(each.kind, each.key, f"{each.documents:,}")
    return shown


def _size(count: int) -> str:
    """Bytes in MB, and what is little in kB, so that something never reads as nothing."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"

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

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streams.plain import plain
from streams.values import iso

if TYPE_CHECKING:
    from state.stats import Hot, Stats
    from state.values import Sweep
    from streams import ingest
    from streams.find.answer import Answer, Candidate
    from streams.members import Member
    from streams.query import Cluster, Match, Version

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
        to.print(part, soft_wrap=isinstance(part, Text))


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
            seconds = bar.tasks[at].elapsed or 1e-9
            counts = progress.counts
            said = (
                f"{counts.pages:,} pages  {counts.pages / seconds:,.0f}/s  new {counts.new:,}"
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
            bar.update(at, completed=done, total=everything or None, said=f"{pages:,} pages")

        yield report


def _pages(count: int) -> str:
    return f"{count:,} page{'' if count == 1 else 's'}"


def ingested(summary: ingest.Summary, seconds: float) -> Text:
    """What an ingest did."""
    state = "committed" if summary.committed else "still open"
    if summary.status == "nothing to do":
        return Text(
            f"sweep {summary.sweep} holds this input already ({_pages(summary.pages)}, {state}): nothing to do"
        )
    rate = f"{summary.pages / seconds:,.0f}/s" if seconds else ""
    head = Text.assemble(
        (f"sweep {summary.sweep}", "bold"),
        f"  {_pages(summary.pages)} in {seconds:.1f} s ({rate}), {state}",
        (", after a stop" if summary.status == "resumed" else "", "dim"),
    )
    body = Text(
        f"  new {summary.new:,}   copies {summary.copies:,}   unchanged {summary.unchanged:,}"
        f"   near-duplicate {summary.near_duplicates:,}   rejected {sum(summary.rejected.values()):,}"
    )
    if not summary.rejected:
        return Text("\n").join([head, body])
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(summary.rejected.items()))
    refused = Text(f"  rejected: {reasons}; each is in {summary.dead_letters}", style="yellow")
    return Text("\n").join([head, body, refused])


def sweeps(found: Sequence[Sweep]) -> RenderableType:
    """All sweeps, a line each."""
    shown = table("sweep", "state", "opened", "committed", ">captures")
    for sweep in found:
        captures = f"{sweep.captures:,}" if sweep.committed else ""
        shown.add_row(
            sweep.name,
            sweep.state.name.lower(),
            iso(sweep.opened) or "",
            iso(sweep.committed or None) or "",
            captures,
        )
    return shown


def blocks(columns: Sequence[tuple[str, int]], rows: Iterable[tuple[Sequence[str | Text], Text]]) -> RenderableType:
    """Rows of short figures, each with URLs under it, which would be folded to pieces in a column of their own.

    A column is its name and width in characters; a name `>so` stands on the right, the last column needs no width.
    """

    def line(cells: Sequence[str | Text], style: str = "") -> Text:
        made = Text(style=style, no_wrap=True, overflow="ellipsis")
        for (name, width), cell in zip(columns, cells, strict=True):
            text = cell.copy() if isinstance(cell, Text) else Text(cell)
            text.align("right" if name.startswith(">") else "left", max(width, len(text)))
            made.append(text).append("  ")
        made.rstrip()
        return made

    parts: list[RenderableType] = [line([name.removeprefix(">") for name, _ in columns], "dim")]
    for cells, below in rows:
        parts += [line(cells), Padding(below, (0, 0, 0, 4), expand=False)]
    return Group(*parts)


def clusters(found: Sequence[Cluster], titles: Callable[[str], str]) -> RenderableType:
    """Clusters with their first URLs; `titles` gives a document's title."""

    def row(each: Cluster) -> tuple[Sequence[str | Text], Text]:
        title = next((title for document in each.documents[:20] if (title := titles(document))), "")
        counts = (f"{each.document_count:,}", f"{each.url_count:,}")
        return (each.cluster[:DOCUMENT_DIGITS], *counts, plain(title)), some(each.urls, each.url_count)

    return blocks((("cluster", DOCUMENT_DIGITS), (">documents", 9), (">urls", 5), ("title", 0)), map(row, found))


def cluster(found: Cluster, members: Sequence[Member]) -> RenderableType:
    """One cluster: its members, most like the asked document first."""
    counts = f"  {found.document_count:,} documents at {found.url_count:,} URLs"
    head = Text.assemble(("cluster ", "dim"), (found.cluster, "bold"), counts)

    def row(each: Member) -> tuple[Sequence[str | Text], Text]:
        figures = (figure(each.resemblance), figure(each.containment), figure(each.contained))
        seen = (day(each.first_seen), day(each.last_seen))
        return (each.document[:DOCUMENT_DIGITS], *figures, *seen, plain(each.title)), some(each.urls)

    figures = (("document", DOCUMENT_DIGITS), (">resemblance", 11), (">in it", 5), (">of it", 5))
    seen = (("first seen", 10), ("last seen", 10), ("title", 0))
    return Group(head, Text(), blocks((*figures, *seen), map(row, members)))


def matches(found: Sequence[Match]) -> RenderableType:
    """Documents like the asked one."""

    def row(each: Match) -> tuple[Sequence[str | Text], Text]:
        figures = (
            measured(each.resemblance, each.resemblance_error),
            measured(each.containment, each.containment_error),
            measured(each.contained, each.contained_error),
        )
        seen = (day(each.first_seen), day(each.last_seen))
        return (each.document[:DOCUMENT_DIGITS], *figures, *seen, each.cluster[:DOCUMENT_DIGITS]), some(
            each.urls, each.url_count
        )

    figures = (("document", DOCUMENT_DIGITS), (">resemblance", 11), (">in it", 10), (">of it", 10))
    seen = (("first seen", 10), ("last seen", 10), ("cluster", 0))
    return blocks((*figures, *seen), map(row, found))


def history(found: Sequence[Version]) -> RenderableType:
    """The captures of a URL, in the order of their sweeps."""
    shown = table("sweep", "time", ">status", "document", ">like the one before", "")
    for each in found:
        note = f"→ {plain(each.redirect)}" if each.redirect else ""
        shown.add_row(
            each.sweep,
            iso(each.time) or "",
            str(each.status),
            (each.document or "")[:DOCUMENT_DIGITS],
            Text("unchanged", style="dim") if each.resemblance == 1.0 else figure(each.resemblance),
            note,
        )
    return shown


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


STATUS_STYLES = {"alive": "green", "moved": "bold green", "gone": "red", "unknown": "dim"}


def answer(found: Answer) -> RenderableType:
    """One answer with its likelier candidates, and the evidence for each."""
    seen = f", last seen {found.last_seen[:10]}" if found.last_seen else ""
    head = Text.assemble(plain(found.url), "  ", (found.status, STATUS_STYLES[found.status]), seen)
    if not found.candidates:
        return head
    likely = [each for each in found.candidates if each.confidence >= UNLIKELY] or found.candidates[:1]
    shown = table(">confidence", ">resemblance", ">in it", "since", "candidate")
    for each in likely:
        shown.add_row(
            figure(each.confidence),
            figure(each.resemblance),
            figure(each.containment),
            (each.first_seen or "")[:10],
            Text.assemble((plain(each.url), "bold"), "\n", reasons(each, in_full=True)),
        )
    rest = len(found.candidates) - len(likely)
    return Group(head, Text(), shown, *([Text(f"{rest} less likely", style="dim")] if rest else []))


def answers(found: Sequence[Answer]) -> RenderableType:
    """Many answers, each with its best candidate under it."""
    shown = table("", ">confidence", "url")
    for each in found:
        best = each.candidates[0] if each.status == "moved" else None
        where = Text(plain(each.url))
        if best is not None:
            where.append("\n→ ").append(plain(best.url), style="bold").append("\n  ").append(reasons(best))
        status = Text(each.status, style=STATUS_STYLES[each.status])
        shown.add_row(status, figure(best.confidence if best else None), where)
    return shown


def stats(found: Stats) -> RenderableType:
    """The state by column family, and its counters."""
    families = table("column family", ">keys (about)", ">on disk")
    for family in found.families:
        families.add_row(family.family, f"{family.keys_estimated:,}", _mega(family.bytes_on_disk))
    families.add_row("all", "", _mega(sum(family.bytes_on_disk for family in found.families)), style="bold")
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


def _mega(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"

"""Tables of clusters, captures, sweeps and the state; `find_tables` has those of `lostfound find`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from streams.terminal.escape import escape_text, pluralise
from streams.terminal.layout import (
    BlockTable,
    Row,
    first_urls,
    format_day,
    format_estimate,
    format_id,
    format_share,
    format_title,
    new_table,
    unbreakable,
)
from streams.terminal.progress_bars import format_rate
from streams.timestamps import iso

if TYPE_CHECKING:
    from state.model import Sweep
    from state.stats import Hot, Stats
    from streams.engine.ingest import Summary
    from streams.query import Cluster, Match, Member, UrlCapture

TITLES_READ = 20  # documents of a cluster that are searched for a title
_FIGURES = (">resemblance", ">containment", ">contained")


def ingest_summary(summary: Summary, seconds: float) -> Text:
    """Summarise an ingest in two lines, or three if records were rejected."""
    state = "committed" if summary.committed else "still open"
    pages = pluralise(summary.pages, "page")
    if summary.status == "nothing to do":
        return Text(f"sweep {summary.sweep} already contains this input ({pages}, {state}): nothing to do")
    heading = Text.assemble(
        (f"sweep {summary.sweep}", "bold"),
        f"  {pages}",
        (f", {summary.read_now:,} of them in this run," if summary.status == "resumed" else "", "dim"),
        f" in {seconds:.1f} s ({format_rate(summary.read_now, seconds)}), {state}",
    )
    others = f"   redirects and errors {summary.redirects_and_errors:,}" if summary.redirects_and_errors else ""
    counts = Text(
        f"  new {summary.new:,}   copies {summary.copies:,}   unchanged {summary.unchanged:,}"
        f"   near-duplicate {summary.near_duplicates:,}{others}   rejected {sum(summary.rejected.values()):,}"
    )
    if not summary.rejected:
        return Text("\n").join([heading, counts])
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(summary.rejected.items()))
    rejected = Text(f"  rejected: {reasons}; details in {summary.dead_letters}", style="yellow")
    return Text("\n").join([heading, counts, rejected])


def sweeps_table(sweeps: Sequence[Sweep]) -> RenderableType:
    def row(sweep: Sweep) -> Row:
        captures = f"{sweep.captures:,}" if sweep.committed else ""
        times = (iso(sweep.opened) or "", iso(sweep.committed or None) or "")
        return (escape_text(sweep.name), sweep.state.name.lower(), *times, captures), ()

    return BlockTable(("sweep", "state", "opened", "committed", ">captures"), map(row, sweeps))


def clusters_table(clusters: Sequence[Cluster], title_of: Callable[[str], str]) -> RenderableType:
    """List clusters, each with its first URLs and a title; `title_of` returns the title of a document id."""

    def row(cluster: Cluster) -> Row:
        title = next((title for document in cluster.documents[:TITLES_READ] if (title := title_of(document))), "")
        counts = (f"{cluster.document_count:,}", f"{cluster.url_count:,}")
        urls = unbreakable(first_urls(cluster.urls, cluster.url_count))
        return (format_id(cluster.cluster), *counts, format_title(title)), [urls]

    return BlockTable(("cluster", ">documents", ">urls", "title"), map(row, clusters))


def cluster_table(cluster: Cluster, members: Sequence[Member]) -> RenderableType:
    """List the members of one cluster in the order given."""
    counts = f"  {pluralise(cluster.document_count, 'document')} at {pluralise(cluster.url_count, 'URL')}"
    heading = unbreakable(Text.assemble(("cluster ", "dim"), (cluster.cluster, "bold"), counts))

    def row(member: Member) -> Row:
        figures = map(format_share, (member.resemblance, member.containment, member.contained))
        days = (format_day(member.first_seen), format_day(member.last_seen))
        urls = unbreakable(first_urls(member.urls))
        return (format_id(member.document), *figures, *days, format_title(member.title)), [urls]

    columns = ("document", *_FIGURES, "first seen", "last seen", "title")
    return Group(heading, Text(), BlockTable(columns, map(row, members)))


def similar_table(matches: Sequence[Match]) -> RenderableType:
    def row(match: Match) -> Row:
        figures = (
            format_estimate(match.resemblance, match.resemblance_error),
            format_estimate(match.containment, match.containment_error),
            format_estimate(match.contained, match.contained_error),
        )
        days = (format_day(match.first_seen), format_day(match.last_seen))
        urls = unbreakable(first_urls(match.urls, match.url_count))
        return (format_id(match.document), *figures, *days, format_id(match.cluster)), [urls]

    return BlockTable(("document", *_FIGURES, "first seen", "last seen", "cluster"), map(row, matches))


def captures_table(captures: Sequence[UrlCapture]) -> RenderableType:
    def row(capture: UrlCapture) -> Row:
        unchanged = capture.resemblance == 1.0
        resemblance = Text("unchanged", style="dim") if unchanged else format_share(capture.resemblance)
        target = unbreakable(Text(f"→ {escape_text(capture.redirect)}" if capture.redirect else ""))
        cells = (escape_text(capture.sweep), iso(capture.time) or "", str(capture.status))
        return (*cells, format_id(capture.document), resemblance), [target]

    columns = ("sweep", "time", ">status", "document", ">resemblance to previous")
    return BlockTable(columns, map(row, captures))


def stats_tables(stats: Stats) -> RenderableType:
    """Show the sizes of the column families and all counters."""
    families = new_table("column family", ">keys (estimate)", ">on disk")
    for family in stats.families:
        families.add_row(family.family, f"{family.keys_estimated:,}", _format_size(family.bytes_on_disk))
    bytes_total = sum(family.bytes_on_disk for family in stats.families)
    families.add_row("all", "", _format_size(bytes_total), style="bold")
    counters = new_table("counter", ">total")
    for name, count in sorted(stats.counters.items()):
        counters.add_row(name, f"{count:,}")
    sweeps = ", ".join(f"{count:,} {state}" for state, count in stats.sweeps.items() if count) or "none"
    documents = pluralise(stats.documents, "document")
    heading = Text(f"{stats.path}  scheme {stats.scheme}  {documents}  sweeps: {sweeps}")
    return Group(heading, Text(), families, Text(), counters)


def hot_table(results: Sequence[Hot]) -> RenderableType:
    """List buckets and samples at their limit, the fullest first."""
    table = new_table("kind", "key", ">documents")
    for result in sorted(results, key=lambda result: -result.documents):
        table.add_row(result.kind, result.key, f"{result.documents:,}")
    return table


def _format_size(size_bytes: int) -> str:
    """Return a size in MB, or in kB below 1 MB, so that a small size is not shown as 0.0."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:,.1f} kB"

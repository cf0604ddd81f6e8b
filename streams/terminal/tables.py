"""The tables of all commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.text import Text

from streams.terminal import layout
from streams.terminal.escape import escape_text, escape_url, format_rate, pluralise
from streams.terminal.layout import BlockTable, Row
from streams.timestamps import format_iso

if TYPE_CHECKING:
    from state.model import Sweep
    from state.stats import HotKey, Stats
    from streams.decisions import ListedDecision
    from streams.engine.ingest import Summary
    from streams.export.run_export import ExportedTable
    from streams.find.answer import Answer, Candidate, Copy, Evidence
    from streams.query import Cluster, Match, Member, StoredLink, UrlCapture

TITLES_READ = 20  # a title is searched for in at most this many documents of a cluster
CONFIDENCE_SHOWN_MIN = 0.05  # weaker candidates are counted, not listed; --json lists all
RESEMBLANCE_SHOWN_MIN = 0.1  # lower resemblances are not shown as evidence
_FIGURE_COLUMNS = (">resemblance", ">containment", ">contained")

# What to print for each kind of evidence, before its value and detail.
EVIDENCE = {
    "redirect": "redirects there",
    "redirect_of_many": "redirects there, as many other URLs do",
    "suspected_soft_404": "suspected error page",
    "decision": "decided",
    "target_missing": "target is missing too",
    "not_captured": "target was never captured",
    "stop": "through a hop",
    "mirror": "same path on a mirror",
    "folded_in": "contains the old page",
    "words": "similar words",
    "appeared": "new when the old page vanished",
    "stood_beside": "existed alongside the old page",
    "copied_tree": "part of a copied tree",
    "path": "similar path",
    "rule": "rewrite rule",
    "anchors": "has the words of links to the old page",
    "same_anchor": "pages link to it with the same words",
    "canonical": "named as canonical by the old page",
    "script": "a script of the old page led there",
    "refresh": "a refresh of the old page led there",
    "alternate": "version in another language",
    "same_domain": "same domain",
    "other_domain": "other domain",
}
_ALWAYS_LISTED = {"redirect", "redirect_of_many"}  # observed by the crawler, so listed at any confidence
_SOFT_404 = "suspected error page: many unrelated URLs of its host changed to this page or near-copies of it"
_STATUS_STYLES = {
    "alive": "green",
    "moved": "bold green",
    "gone": "red",
    "unknown": "dim",
    "never_seen": "yellow",
    "copy": "cyan",
}


def ingest_summary(summary: Summary, seconds: float) -> Text:
    """Summarise an ingest in one line if there was nothing to do, otherwise in two or three."""
    state = "committed" if summary.committed else "still open"
    pages = pluralise(summary.pages, "page")
    if summary.status == "nothing to do":
        return Text(f"sweep {summary.sweep} already contains this input ({pages}, {state}): nothing to do")
    heading = Text.assemble(
        (f"sweep {summary.sweep}", "bold"),
        f"  {pages}",
        (f", {summary.pages_read:,} of them in this run," if summary.status == "resumed" else "", "dim"),
        f" in {seconds:.1f} s ({format_rate(summary.pages_read, seconds)}), {state}",
    )
    redirects = f"   redirects and errors {summary.redirects_and_errors:,}" if summary.redirects_and_errors else ""
    not_pages = f"   not a page {summary.not_pages:,}" if summary.not_pages else ""
    counts = Text(
        f"  new {summary.new:,}   copies {summary.copies:,}   unchanged {summary.unchanged:,}"
        f"   near-duplicate {summary.near_duplicates:,}{redirects}{not_pages}"
        f"   rejected {sum(summary.rejected.values()):,}"
    )
    lines = [heading, counts]
    if summary.rejected:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(summary.rejected.items()))
        lines.append(Text(f"  rejected: {reasons}; details in {summary.dead_letters}", style="yellow"))
    return Text("\n").join(lines)


def sweeps_table(sweeps: Sequence[Sweep]) -> RenderableType:
    def row(sweep: Sweep) -> Row:
        captures = f"{sweep.captures:,}" if sweep.committed_time else ""
        times = (format_iso(sweep.opened_time) or "", format_iso(sweep.committed_time or None) or "")
        newest = layout.format_day(sweep.newest_time)
        expired = (f"{sweep.expired_messages:,}",) if has_expired else ()
        return (escape_text(sweep.name), sweep.state.name.lower(), *times, captures, newest, *expired), ()

    has_expired = any(sweep.expired_messages for sweep in sweeps)
    columns = ("sweep", "state", "opened", "committed", ">captures", "newest", *([">expired"] if has_expired else []))
    return BlockTable(columns, map(row, sweeps))


def clusters_table(clusters: Sequence[Cluster], title_of: Callable[[str], str]) -> RenderableType:
    """List clusters, each with a title and its first URLs. `title_of` returns the title for a document id."""

    def row(cluster: Cluster) -> Row:
        title = next((title for document in cluster.documents[:TITLES_READ] if (title := title_of(document))), "")
        counts = (f"{cluster.document_count:,}", f"{cluster.url_count:,}")
        urls = layout.unbreakable(layout.first_urls(cluster.urls, cluster.url_count))
        return (layout.format_id(cluster.cluster), *counts, Text(escape_text(title), overflow="ellipsis")), [urls]

    return BlockTable(("cluster", ">documents", ">urls", "title"), map(row, clusters))


def cluster_table(cluster: Cluster, members: Sequence[Member]) -> RenderableType:
    counts = f"  {pluralise(cluster.document_count, 'document')} at {pluralise(cluster.url_count, 'URL')}"
    heading = layout.unbreakable(Text.assemble(("cluster ", "dim"), (cluster.cluster, "bold"), counts))

    def row(member: Member) -> Row:
        figures = map(layout.format_share, (member.resemblance, member.containment, member.contained))
        days = (layout.format_day(member.first_seen), layout.format_day(member.last_seen))
        urls = layout.unbreakable(layout.first_urls(member.urls))
        title = Text(escape_text(member.title), overflow="ellipsis")
        return (layout.format_id(member.document), *figures, *days, title), [urls]

    columns = ("document", *_FIGURE_COLUMNS, "first seen", "last seen", "title")
    return Group(heading, Text(), BlockTable(columns, map(row, members)))


def similar_table(matches: Sequence[Match]) -> RenderableType:
    def row(match: Match) -> Row:
        figures = (
            layout.format_estimate(match.resemblance, match.resemblance_error),
            layout.format_estimate(match.containment, match.containment_error),
            layout.format_estimate(match.contained, match.contained_error),
        )
        days = (layout.format_day(match.first_seen), layout.format_day(match.last_seen))
        urls = layout.unbreakable(layout.first_urls(match.urls, match.url_count))
        return (layout.format_id(match.document), *figures, *days, layout.format_id(match.cluster)), [urls]

    return BlockTable(("document", *_FIGURE_COLUMNS, "first seen", "last seen", "cluster"), map(row, matches))


def links_table(links: Sequence[StoredLink], *, incoming: bool) -> RenderableType:
    def row(link: StoredLink) -> Row:
        other_url = layout.unbreakable(Text(escape_url(link.source if incoming else link.target)))
        flags = {link.kind: link.kind != "anchor", "nofollow": link.nofollow, "navigation": link.navigation}
        notes = [name for name, is_set in flags.items() if is_set]
        times = (format_iso(link.first_seen) or "", format_iso(link.last_seen) or "")
        return (Text(escape_text(link.anchor)), *times, ", ".join(notes)), [other_url]

    return BlockTable(("link text", "first seen", "last seen", "notes"), map(row, links))


def captures_table(captures: Sequence[UrlCapture]) -> RenderableType:
    def row(capture: UrlCapture) -> Row:
        unchanged = capture.resemblance == 1.0
        resemblance = Text("unchanged", style="dim") if unchanged else layout.format_share(capture.resemblance)
        target = layout.unbreakable(Text(f"→ {escape_text(capture.redirect)}" if capture.redirect else ""))
        cells = (escape_text(capture.sweep), format_iso(capture.time) or "", str(capture.status))
        return (*cells, layout.format_id(capture.document), resemblance), [target]

    columns = ("sweep", "time", ">status", "document", ">resemblance to previous")
    return BlockTable(columns, map(row, captures))


def evidence_line(candidate: Candidate, *, details: bool = False) -> Text:
    """Return a candidate's evidence on one line. With `details`, name rules and hops, but omit the resemblance."""
    parts = []
    if not details and (candidate.resemblance or 0) >= RESEMBLANCE_SHOWN_MIN:
        parts.append(f"resemblance {candidate.resemblance:.2f}")
    for evidence in candidate.evidence:
        if evidence.kind == "same_host":  # the usual case, not worth a mention
            continue
        value = "" if evidence.value is None else f" {evidence.value:.2f}"
        has_detail = evidence.kind == "decision" or (details and evidence.kind in {"rule", "stop"})
        detail = f" {escape_text(evidence.detail or '')}" if has_detail else ""
        if evidence.kind == "link_substitution":
            parts.append(_describe_substitution(evidence))
            continue
        parts.append(f"{EVIDENCE.get(evidence.kind, evidence.kind)}{value}{detail}".rstrip())
    return Text(" · ".join(parts), style="dim")


def _describe_substitution(evidence: Evidence) -> str:
    pages, anchor = evidence.pages or 0, escape_text(evidence.anchor or "")
    return f"{pluralise(pages, 'page')} that linked to it as '{anchor}' now {'links' if pages == 1 else 'link'} here"


def find_table(answers: Sequence[Answer], sweep_order: str) -> RenderableType:
    """Show the answers of `find`: one in detail, or several as a list. `sweep_order` is part of the heading."""
    if len(answers) == 1:
        return answer_table(answers[0], sweep_order)
    return Group(_to_dim_line(sweep_order), Text(), answers_table(answers))


def answer_table(answer: Answer, sweep_order: str = "") -> RenderableType:
    """Show one answer with its likely candidates and their evidence. `sweep_order` is part of the heading."""
    last_seen = f", last seen {answer.last_seen[:10]}" if answer.last_seen else ""
    status = (answer.status, _STATUS_STYLES[answer.status])
    parts: list[RenderableType] = [
        layout.unbreakable(Text.assemble(escape_text(answer.url), "  ", status, last_seen))
    ]
    parts += [*_known_as(answer), *_mention_decision(answer), *([_to_dim_line(sweep_order)] if sweep_order else [])]
    if _serves_soft_404(answer):
        parts.append(Text(f"  {_SOFT_404}", style="yellow"))
    candidates = [candidate for candidate in answer.candidates if not _is_soft_404(candidate)]
    likely = [
        candidate
        for candidate in candidates
        if candidate.confidence >= CONFIDENCE_SHOWN_MIN or any(e.kind in _ALWAYS_LISTED for e in candidate.evidence)
    ]
    shown = likely or candidates[:1]

    def row(candidate: Candidate) -> Row:
        figures = map(layout.format_share, (candidate.confidence, candidate.resemblance, candidate.containment))
        url = Text(escape_text(candidate.url), style="bold")
        return (*figures, (candidate.first_seen or "")[:10], url), [
            evidence_line(candidate, details=True),
            *map(_copy_line, candidate.copies),
        ]

    if shown:
        columns = (">confidence", ">resemblance", ">containment", "first seen", "candidate")
        parts += [Text(), BlockTable(columns, map(row, shown))]
    if remaining := len(candidates) - len(shown):
        parts.append(Text(f"{pluralise(remaining, 'weaker candidate')} not shown", style="dim"))
    return Group(*parts)


def answers_table(answers: Sequence[Answer]) -> RenderableType:
    """List answers. Show the best candidate of a moved page below the page's URL."""

    def row(answer: Answer) -> Row:
        lines_below = [*_known_as(answer), *_mention_decision(answer)]
        lines_below += [Text(_SOFT_404, style="yellow")] if _serves_soft_404(answer) else []
        best = answer.candidates[0] if answer.status in {"moved", "copy"} else None
        if best is not None:
            lines_below += [layout.unbreakable(Text(f"→ {escape_text(best.url)}", style="bold")), evidence_line(best)]
        status = Text(answer.status, style=_STATUS_STYLES[answer.status])
        return (status, layout.format_share(best.confidence if best else None), escape_text(answer.url)), lines_below

    return BlockTable(("status", ">confidence", "url"), map(row, answers))


def _to_dim_line(text: str) -> Text:
    return layout.unbreakable(Text(text, style="dim"))


def _known_as(answer: Answer) -> list[Text]:
    """Return a line that names the captured URL if it differs from the requested one."""
    if answer.known_url is None:
        return []
    return [
        layout.unbreakable(
            Text(f"captured as {escape_text(answer.known_url)}, which differs only by tracking parameters")
        )
    ]


def _mention_decision(answer: Answer) -> list[Text]:
    """Return a line about the decision of an editor, unless the first candidate mentions the decision."""
    decision = answer.decision
    if decision is None or answer.status == "moved":
        return []
    outcome = f"moved to {escape_text(decision.new)}" if decision.new is not None else "is gone"
    return [layout.unbreakable(Text(f"on {decision.decided_at[:10]}, an editor recorded that the page {outcome}"))]


def decisions_table(decisions: Sequence[ListedDecision]) -> RenderableType:
    """List decisions. Show the new URL below the old one."""

    def row(decision: ListedDecision) -> Row:
        rank = (f"{decision.rank or ''}",) if has_rank else ()
        name = "gone" if decision.new is None else "moved"
        status = Text(name, style=_STATUS_STYLES[name])
        lines_below = [] if decision.new is None else [layout.unbreakable(Text(f"→ {escape_text(decision.new)}"))]
        return (layout.format_day(decision.decided_at), status, *rank, escape_text(decision.old)), lines_below

    has_rank = any(decision.rank is not UNSET for decision in decisions)
    return BlockTable(("decided", "status", *((">rank",) if has_rank else ()), "url"), map(row, decisions))


def stats_tables(stats: Stats) -> RenderableType:
    """Show the size of each column family, and all counters."""
    families = layout.new_table("column family", ">keys (estimate)", ">on disk")
    for family in stats.families:
        families.add_row(family.family, f"{family.keys_estimated:,}", _format_size(family.bytes_on_disk))
    bytes_total = sum(family.bytes_on_disk for family in stats.families)
    families.add_row("all", "", _format_size(bytes_total), style="bold")
    counters = layout.new_table("counter", ">total")
    for name, count in sorted(stats.counters.items()):
        counters.add_row(name, f"{count:,}")
    sweeps = ", ".join(f"{count:,} {state}" for state, count in stats.sweeps.items() if count) or "none"
    documents = pluralise(stats.documents, "document")
    heading = Text(f"{stats.path}  scheme {stats.scheme}  {documents}  sweeps: {sweeps}")
    return Group(heading, Text(), families, Text(), counters)


def hot_table(results: Sequence[HotKey]) -> RenderableType:
    """List full buckets and sampled shingles by their number of documents, largest first."""
    table = layout.new_table("kind", "key", ">documents")
    for result in sorted(results, key=lambda result: -result.documents):
        table.add_row(result.kind, result.key, f"{result.documents:,}")
    return table


def export_table(results: Sequence[ExportedTable]) -> RenderableType:
    """List the tables of a data set, with the sweeps that an export wrote."""
    table = layout.new_table("table", "sweep", ">rows", ">size", "written")
    for result in results:
        sweep = escape_text(result.sweep or "")
        size, written = _format_size(result.bytes), "yes" if result.written else "no"
        table.add_row(result.table, sweep, f"{result.rows:,}", size, written)
    return table


def _format_size(size_bytes: int) -> str:
    """Format a size in MB, or in kB if it is below 1 MB, so that small sizes are not shown as 0.0."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:,.1f} kB"


def _copy_line(copy: Copy) -> Text:
    labels = [f"version {copy.version}" if copy.version else "", f"on {copy.host}" if copy.host else ""]
    label = escape_text(" ".join(["copy", *filter(None, labels)]))
    return Text.assemble((f"{label}: ", "dim"), escape_text(copy.url))


def _is_soft_404(candidate: Candidate) -> bool:
    """Return whether the candidate is the missing URL itself, which probably serves an error page."""
    # A redirect target that serves an error page also has `redirect` evidence.
    return {evidence.kind for evidence in candidate.evidence} == {"suspected_soft_404"}


def _serves_soft_404(answer: Answer) -> bool:
    return any(map(_is_soft_404, answer.candidates))

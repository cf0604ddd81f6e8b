"""Prints the results of the demo: sweeps, clusters, moved pages, pages that are gone, and a redirect map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from streams import query
from streams.find.redirect_maps import redirect_map, render
from streams.terminal import find_tables, layout
from streams.terminal.escape import escape_text
from streams.urls import url_key

if TYPE_CHECKING:
    from state.view import View
    from streams.engine.ingest import Summary
    from streams.find.answer import Answer

CLUSTERS_SHOWN = 6
MOVES_SHOWN = 12
GONE_SHOWN = 8
REDIRECTS_SHOWN = 3
CLUSTERS_READ = 100_000


def print_sweeps(description: str, summaries: Sequence[Summary], seconds: float) -> None:
    """Print how many pages of each sweep were read and how many of them changed."""
    pages = sum(summary.pages for summary in summaries)
    ingested_before = all(summary.status == "nothing to do" for summary in summaries)
    _print_heading(description, f"{pages:,} pages, {'ingested before' if ingested_before else f'{seconds:.1f} s'}")
    table = layout.new_table("sweep", ">pages", ">new", ">unchanged", ">near-duplicate", ">rejected")
    for summary in summaries:
        rejected = sum(summary.rejected.values())
        counts = (summary.pages, summary.new, summary.unchanged, summary.near_duplicates, rejected)
        table.add_row(summary.sweep, *(f"{count:,}" if count else Text("·", style="dim") for count in counts))
    _print_indented(table)


def print_clusters(view: View, base_url: str) -> None:
    """Print the clusters over the most URLs: copies. Most other clusters are the editions of one page."""
    clusters = list(islice(query.clusters(view, min_size=2), CLUSTERS_READ))
    copies = sorted((cluster for cluster in clusters if cluster.url_count > 1), key=lambda copy: -copy.url_count)
    _print_heading("What is a copy of what", f"{len(clusters):,} clusters, {len(copies):,} of them over several URLs")
    table = layout.new_table(">urls", ">documents", "title", "pages")
    for cluster in copies[:CLUSTERS_SHOWN]:
        titles = (view.title(bytes.fromhex(document)) for document in cluster.documents)
        urls = [_shorten(url, base_url) for url in cluster.urls]
        table.add_row(
            f"{cluster.url_count:,}",
            f"{cluster.document_count:,}",
            escape_text(next(filter(None, titles), "")),
            layout.first_urls(urls, cluster.url_count),
        )
    _print_indented(table)


def print_moves(answers: Sequence[Answer], base_url: str) -> None:
    """Print where missing pages moved and why, the most certain first."""
    moved = [answer for answer in answers if answer.status == "moved"]
    moved.sort(key=lambda answer: -answer.candidates[0].confidence)
    _print_heading("Where pages moved", f"{len(moved):,} of {len(answers):,} missing URLs")
    table = layout.new_table("", "")
    table.show_header = False
    for answer in moved[:MOVES_SHOWN]:
        best = answer.candidates[0]
        move = Text.assemble(_shorten(answer.url, base_url), " → ", (_shorten(best.url, base_url), "bold"), "\n")
        table.add_row(layout.format_share(best.confidence), move.append(find_tables.evidence_line(best)))
    _print_indented(table)
    _print_remaining(len(moved) - MOVES_SHOWN)


def print_gone(view: View, answers: Sequence[Answer], base_url: str) -> None:
    """Print the pages that live nowhere any more, in one line per subtree."""
    gone = sorted((answer for answer in answers if answer.status == "gone"), key=lambda answer: answer.url)
    subtrees: list[list[Answer]] = []
    for answer in gone:
        if subtrees and answer.url.startswith(subtrees[-1][0].url):
            subtrees[-1].append(answer)
        else:
            subtrees.append([answer])
    subtrees.sort(key=lambda subtree: (-len(subtree), subtree[0].url))
    _print_heading("Gone", f"{len(gone):,} missing URLs whose text is not in the last sweep")
    table = layout.new_table("missing", "last seen", "title")
    for top, *below in subtrees[:GONE_SHOWN]:
        count = f" and {len(below)} below it" if below else ""
        url = Text(_shorten(top.url, base_url)).append(count, style="dim")
        table.add_row(url, (top.last_seen or "")[:10], _last_title(view, top))
    _print_indented(table)
    _print_remaining(sum(len(subtree) for subtree in subtrees[GONE_SHOWN:]))


def write_redirects(answers: Sequence[Answer], target: Path, confidence_min: float) -> None:
    """Write the redirect map of the moves, and print its first lines."""
    redirects = redirect_map(answers, confidence_min)
    text, left_out = render(redirects, "nginx")
    target.write_text(text, encoding="utf-8")
    _print_heading("Redirect map for nginx", f"{len(redirects.moves) - len(left_out):,} redirects in {target}")
    lines = [line.strip() for line in text.splitlines() if '" "http' in line]
    _print_indented(Text("\n".join(lines[:REDIRECTS_SHOWN]), style="dim", no_wrap=True, overflow="ellipsis"))


def print_next_commands(data_dir: Path, answers: Sequence[Answer]) -> None:
    """Print commands to try on the demo's state."""
    moved = [answer for answer in answers if answer.status == "moved"]
    url = min((answer.url for answer in moved), key=len, default="URL")
    _print_heading("Try next", "")
    for command in (f"find {url}", f"captures {url}", "clusters --min-size 6", "find --missing --csv"):
        layout.print_to_stdout(Text(f"  lostfound --data-dir {data_dir} {command}"))


def _print_heading(text: str, summary: str) -> None:
    layout.print_to_stdout(Text(), Text.assemble((text, "bold cyan"), "  ", (summary, "dim")))


def _print_indented(content: RenderableType) -> None:
    layout.print_to_stdout(Padding(content, (0, 0, 0, 2), expand=False))


def _print_remaining(count: int) -> None:
    if count > 0:
        layout.print_to_stdout(Text(f"  and {count:,} more", style="dim"))


def _shorten(url: str, base_url: str) -> str:
    """Return the path of a URL of the site; other URLs stay whole."""
    return escape_text("/" + url.removeprefix(base_url) if url.startswith(base_url) else url)


def _last_title(view: View, answer: Answer) -> str:
    """Return the title of the last document captured at a URL."""
    documents = [capture.document for capture in view.captures(url_key(answer.url)) if capture.document]
    return escape_text(view.title(documents[-1])) if documents else ""

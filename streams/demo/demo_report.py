"""What `lostfound demo` prints: sweeps, clusters, moves with their evidence, what is gone, and a redirect map."""

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
from streams.terminal import tables
from streams.terminal.escape import plain
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


def sweeps(about: str, summaries: Sequence[Summary], seconds: float) -> None:
    """What was read, sweep by sweep."""
    pages = sum(each.pages for each in summaries)
    done = "read before" if all(each.status == "nothing to do" for each in summaries) else f"{seconds:.1f} s"
    _head(about, f"{pages:,} pages, {done}")
    shown = tables.table("sweep", ">pages", ">new", ">unchanged", ">near-duplicate", ">rejected")
    for each in summaries:
        counts = (each.pages, each.new, each.unchanged, each.near_duplicates, sum(each.rejected.values()))
        shown.add_row(each.sweep, *(f"{count:,}" if count else Text("·", style="dim") for count in counts))
    _indented(shown)


def clusters(view: View, prefix: str) -> None:
    """Clusters over the most URLs: the copies; most others are the editions of one page."""
    found = list(islice(query.clusters(view, min_size=2), CLUSTERS_READ))
    several = sorted((each for each in found if each.url_count > 1), key=lambda each: -each.url_count)
    _head("What is a copy of what", f"{len(found):,} clusters, {len(several):,} of them over several URLs")
    shown = tables.table(">urls", ">documents", "title", "pages")
    for each in several[:CLUSTERS_SHOWN]:
        titles = (view.title(bytes.fromhex(document)) for document in each.documents)
        urls = [_short(url, prefix) for url in each.urls]
        shown.add_row(
            f"{each.url_count:,}",
            f"{each.document_count:,}",
            plain(next(filter(None, titles), "")),
            tables.some(urls, each.url_count),
        )
    _indented(shown)


def moves(answers: Sequence[Answer], prefix: str) -> None:
    """Where missing pages went, the surest first, and why."""
    moved = [each for each in answers if each.status == "moved"]
    moved.sort(key=lambda each: -each.candidates[0].confidence)
    _head("Where pages went", f"of {len(answers):,} URLs that are missing, {len(moved):,} moved")
    shown = tables.table("", "")
    shown.show_header = False
    for each in moved[:MOVES_SHOWN]:
        best = each.candidates[0]
        where = Text.assemble(_short(each.url, prefix), " → ", (_short(best.url, prefix), "bold"), "\n")
        shown.add_row(tables.figure(best.confidence), where.append(tables.reasons(best)))
    _indented(shown)
    _rest(len(moved) - MOVES_SHOWN)


def gone(view: View, answers: Sequence[Answer], prefix: str) -> None:
    """What lives nowhere any more, the pages below another one with it."""
    lost = sorted((each for each in answers if each.status == "gone"), key=lambda each: each.url)
    trees: list[list[Answer]] = []
    for each in lost:
        if trees and each.url.startswith(trees[-1][0].url):
            trees[-1].append(each)
        else:
            trees.append([each])
    trees.sort(key=lambda tree: (-len(tree), tree[0].url))
    _head("Gone", f"nothing in the last sweep holds the text of {len(lost):,} more")
    shown = tables.table("missing", "last seen", "title")
    for first, *below in trees[:GONE_SHOWN]:
        more = f" and {len(below)} below it" if below else ""
        where = Text(_short(first.url, prefix)).append(more, style="dim")
        shown.add_row(where, (first.last_seen or "")[:10], _last_title(view, first))
    _indented(shown)
    _rest(sum(len(tree) for tree in trees[GONE_SHOWN:]))


def redirects(answers: Sequence[Answer], target: Path, confidence_min: float) -> None:
    """Write the redirect map of the moves, and show its first lines."""
    found = redirect_map(answers, confidence_min)
    text, left_out = render(found, "nginx")
    target.write_text(text, encoding="utf-8")
    _head("Redirect map for nginx", f"{len(found.moves) - len(left_out):,} redirects in {target}")
    lines = [line.strip() for line in text.splitlines() if '" "http' in line]
    _indented(Text("\n".join(lines[:REDIRECTS_SHOWN]), style="dim", no_wrap=True, overflow="ellipsis"))


def farewell(data_dir: Path, answers: Sequence[Answer]) -> None:
    """What to ask next."""
    moved = [each for each in answers if each.status == "moved"]
    url = min((each.url for each in moved), key=len, default="URL")
    _head("Ask on", "")
    for words in (f"find {url}", f"captures {url}", "clusters --min-size 6", "find --missing --csv"):
        tables.out(Text(f"  lostfound --data-dir {data_dir} {words}"))


def _head(text: str, said: str) -> None:
    tables.out(Text(), Text.assemble((text, "bold cyan"), "  ", (said, "dim")))


def _indented(shown: RenderableType) -> None:
    tables.out(Padding(shown, (0, 0, 0, 2), expand=False))


def _rest(count: int) -> None:
    if count > 0:
        tables.out(Text(f"  and {count:,} more", style="dim"))


def _short(url: str, prefix: str) -> str:
    """A URL without what all pages of the site share."""
    return plain("/" + url.removeprefix(prefix) if url.startswith(prefix) else url)


def _last_title(view: View, answer: Answer) -> str:
    held = [capture.document for capture in view.captures(url_key(answer.url)) if capture.document]
    return plain(view.title(held[-1])) if held else ""

"""Run the demo: ingest its sweeps, and print copies, moved pages, pages that are gone, and a redirect map."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from state import meta
from state.errors import StateIncompatible
from state.store import Store
from state.view import View
from streams import query
from streams.demo import manuals
from streams.engine.ingest import Summary, ingest
from streams.errors import InputError
from streams.find import Finder, possibly_missing_urls, warm_up
from streams.find.answer import Answer
from streams.find.redirect_maps import build_redirect_map, render
from streams.settings import Settings
from streams.sketch.compile_cache import describe_compilation
from streams.terminal import layout, progress_bars, tables
from streams.terminal.escape import escape_text
from streams.urls import url_key

CLUSTERS_READ_MAX = 100_000
CLUSTERS_SHOWN_MAX, MOVES_SHOWN_MAX, GONE_SHOWN_MAX, REDIRECTS_SHOWN_MAX = 6, 12, 8, 3


class Site(NamedTuple):
    """The sweeps of one site, as files to ingest."""

    name: str  # also the name of the folder of its state
    description: str
    base_url: str
    sweeps: list[tuple[str, Path]]


def run_demo(folder: Path, settings: Settings, *, use_sample: bool, now: int) -> None:
    """Ingest the manual, or the sample if the manual cannot be downloaded, and print the report.

    All files are stored in `folder`. `now` is the time in ms since the epoch.
    """
    site = _load_sample() if use_sample else _download_manuals(folder) or _load_sample()
    data_dir = folder / site.name
    started = time.monotonic()
    summaries = _ingest_sweeps(data_dir, settings, site, now)
    _print_sweeps(site.description, summaries, time.monotonic() - started)
    with Store(data_dir, settings.store, writable=False) as store:
        view = View(store)
        _print_clusters(view, site.base_url)
        warm_up()
        answers = list(Finder(view, settings).find_many(possibly_missing_urls(view, settings.find.soft_404_urls)))
        moved = [answer for answer in answers if answer.status == "moved"]
        gone = [answer for answer in answers if answer.status == "gone"]
        _print_moved(moved, len(moved) + len(gone), site.base_url)
        _print_gone(view, gone, site.base_url)
    _write_redirects(answers, folder / f"{site.name}-redirects.conf", settings.find.confidence_min)
    _print_heading("Try next", "")
    url = min((answer.url for answer in moved), key=len, default="URL")
    lostfound = shlex.join([command_name(sys.argv[0]), "--data-dir", str(data_dir)])
    for command in (
        f"find {shlex.quote(url)}",
        f"captures {shlex.quote(url)}",
        "clusters --limit 5",
        "find --missing --csv",
    ):
        layout.print_to_stdout(Text(f"  {lostfound} {command}"))


def command_name(program: str) -> str:
    """Return the command that starts this program: `lostfound` if the shell finds this name, otherwise its path."""
    if Path(program).name != "lostfound":  # started by a test or another program
        return "lostfound"
    on_path = shutil.which("lostfound")
    if on_path is not None and Path(on_path).exists() and Path(on_path).samefile(program):
        return "lostfound"
    absolute, folder = Path(program).absolute(), Path.cwd()
    return str(absolute.relative_to(folder)) if absolute.is_relative_to(folder) else program


def _download_manuals(folder: Path) -> Site | None:
    """Return the sweeps of the real manual. If its archives cannot be downloaded, print why and return None."""
    files = {edition: folder / "pages" / f"{edition.sweep}.jsonl" for edition in manuals.EDITIONS}
    description = f"the {manuals.PROJECT} manual, {len(files)} editions"
    sweeps = [(edition.sweep, file) for edition, file in files.items()]
    site = Site("manuals", description, manuals.BASE_URL, sweeps)
    if all(file.exists() for file in files.values()):
        return site
    click.echo(f"downloading {description}, as source archives from the package index ...", err=True)
    try:
        with progress_bars.download_meter(len(files)) as meter:
            archives = manuals.download_archives(folder / "archives", lambda _: meter.advance())
        for edition, archive in archives.items():
            manuals.write_sweep(edition, archive, files[edition])
    except manuals.ManualUnavailable as error:
        click.echo(f"{error}\nusing the built-in sample instead", err=True)
        return None
    return site


def _load_sample() -> Site:
    folder = Path(__file__).parent / "sample"
    sweeps = [(file.stem, file) for file in sorted(folder.glob("*.jsonl"))]
    return Site("sample", f"a small made-up manual, {len(sweeps)} sweeps", "https://www.windvane.example/", sweeps)


def _ingest_sweeps(data_dir: Path, settings: Settings, site: Site, now: int) -> list[Summary]:
    """Ingest all sweeps. If an existing state has a different scheme, format or pages, replace it."""

    def ingest_sweep(name: str, pages: Path) -> Summary:
        with Store(data_dir, settings.store) as store, progress_bars.ingest_meter(name) as meter:
            meter.show_compiling(describe_compilation())
            meta.claim_scheme(store, settings.scheme)
            return ingest(
                store,
                settings,
                [str(pages)],
                name,
                now=now,
                report_progress=meter.update,
                report_read=meter.count_read,
            )

    try:
        return [ingest_sweep(name, pages) for name, pages in site.sweeps]
    except (StateIncompatible, InputError):
        shutil.rmtree(data_dir)
        return [ingest_sweep(name, pages) for name, pages in site.sweeps]


def _print_sweeps(description: str, summaries: Sequence[Summary], seconds: float) -> None:
    """Print how many pages each sweep has, and how many of them are new, unchanged, near-duplicate or rejected."""
    pages = sum(summary.pages for summary in summaries)
    ingested_before = all(summary.status == "nothing to do" for summary in summaries)
    _print_heading(
        description, f"{pages:,} pages, {'ingested before' if ingested_before else f'ingested in {seconds:.1f} s'}"
    )
    table = layout.new_table("sweep", ">pages", ">new", ">unchanged", ">near-duplicate", ">rejected")
    for summary in summaries:
        rejected = sum(summary.rejected.values())
        counts = (summary.pages, summary.new, summary.unchanged, summary.near_duplicates, rejected)
        table.add_row(summary.sweep, *(f"{count:,}" if count else Text("·", style="dim") for count in counts))
    _print_indented(table)


def _print_clusters(view: View, base_url: str) -> None:
    """Print the clusters with the most URLs. Omit clusters with one URL, which are mostly editions of one page."""
    clusters = list(islice(query.clusters(view, min_size=2), CLUSTERS_READ_MAX))
    copies = sorted(
        (cluster for cluster in clusters if cluster.url_count > 1), key=lambda cluster: -cluster.url_count
    )
    counts = f"{len(clusters):,} clusters, {len(copies):,} of them spanning several URLs"
    _print_heading("What is a copy of what", counts)
    table = layout.new_table(">urls", ">documents", "title", "pages")
    for cluster in copies[:CLUSTERS_SHOWN_MAX]:
        titles = (view.title(bytes.fromhex(document)) for document in cluster.documents)
        urls = [_shorten(url, base_url) for url in cluster.urls]
        title = escape_text(next(filter(None, titles), ""))
        pages = layout.first_urls(urls, cluster.url_count)
        table.add_row(f"{cluster.url_count:,}", f"{cluster.document_count:,}", title, pages)
    _print_indented(table)


def _print_moved(moved: Sequence[Answer], missing_count: int, base_url: str) -> None:
    """Print where missing pages moved, and the evidence. The most certain moves come first."""
    _print_heading("Where pages moved", f"{len(moved):,} of {missing_count:,} missing URLs")
    table = layout.new_table("", "")
    table.show_header = False
    for answer in sorted(moved, key=lambda answer: -answer.candidates[0].confidence)[:MOVES_SHOWN_MAX]:
        best = answer.candidates[0]
        move = Text.assemble(_shorten(answer.url, base_url), " → ", (_shorten(best.url, base_url), "bold"), "\n")
        table.add_row(layout.format_share(best.confidence), move.append(tables.evidence_line(best)))
    _print_indented(table)
    _print_remaining(len(moved) - MOVES_SHOWN_MAX)


def _print_gone(view: View, gone: Sequence[Answer], base_url: str) -> None:
    """Print the missing pages whose text is not in the last sweep, one line per subtree."""
    subtrees: list[list[Answer]] = []
    for answer in sorted(gone, key=lambda answer: answer.url):
        if subtrees and answer.url.startswith(subtrees[-1][0].url):
            subtrees[-1].append(answer)
        else:
            subtrees.append([answer])
    subtrees.sort(key=lambda subtree: (-len(subtree), subtree[0].url))
    _print_heading("Gone", f"{len(gone):,} missing URLs whose text is not in the last sweep")
    table = layout.new_table("missing", "last seen", "title")
    for top_answer, *answers_below in subtrees[:GONE_SHOWN_MAX]:
        suffix = f" and {len(answers_below)} below it" if answers_below else ""
        url = Text(_shorten(top_answer.url, base_url)).append(suffix, style="dim")
        documents = [capture.document for capture in view.captures(url_key(top_answer.url)) if capture.document]
        title = escape_text(view.title(documents[-1])) if documents else ""
        table.add_row(url, (top_answer.last_seen or "")[:10], title)
    _print_indented(table)
    _print_remaining(sum(len(subtree) for subtree in subtrees[GONE_SHOWN_MAX:]))


def _write_redirects(answers: Sequence[Answer], target: Path, confidence_min: float) -> None:
    """Write a redirect map, and print its first lines."""
    redirects = build_redirect_map(answers, confidence_min)
    text, dropped = render(redirects, "nginx")
    target.write_text(text, encoding="utf-8")
    _print_heading("Redirect map for nginx", f"{len(redirects.moves) - len(dropped):,} redirects in {target}")
    lines = [line.strip() for line in text.splitlines() if '" "http' in line]
    _print_indented(Text("\n".join(lines[:REDIRECTS_SHOWN_MAX]), style="dim", no_wrap=True, overflow="ellipsis"))


def _print_heading(text: str, summary: str) -> None:
    layout.print_to_stdout(Text(), Text.assemble((text, "bold cyan"), "  ", (summary, "dim")))


def _print_indented(content: RenderableType) -> None:
    layout.print_to_stdout(Padding(content, (0, 0, 0, 2), expand=False))


def _print_remaining(count: int) -> None:
    if count > 0:
        layout.print_to_stdout(Text(f"  and {count:,} more", style="dim"))


def _shorten(url: str, base_url: str) -> str:
    """Return the path of a URL on the site, or any other URL in full."""
    return escape_text("/" + url.removeprefix(base_url) if url.startswith(base_url) else url)

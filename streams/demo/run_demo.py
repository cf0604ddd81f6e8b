"""Ingests the demo's sweeps into a state of their own and prints what `lostfound` finds in them."""

from __future__ import annotations

import importlib.resources
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import click

from state import meta
from state.errors import StateRefused
from state.store import Store
from state.view import View
from streams.demo import demo_report, manuals
from streams.engine.ingest import Summary, ingest
from streams.errors import InputError
from streams.find import Finder, missing_urls, warm_up
from streams.settings import Settings
from streams.terminal import progress_bars

SAMPLE_URL = "https://www.windvane.example/"


class Site(NamedTuple):
    """The sweeps of one site, as files to ingest."""

    name: str  # also names the folder of its state
    description: str
    base_url: str
    sweeps: list[tuple[str, Path]]


def run_demo(folder: Path, settings: Settings, *, use_sample: bool, now: int) -> None:
    """Ingest the manuals, or the sample if they cannot be downloaded, and print the report.

    All files are stored in `folder`; `now` is the time in ms since 1970.
    """
    site = _load_sample() if use_sample else _download_manuals(folder) or _load_sample()
    data_dir = folder / site.name
    started = time.monotonic()
    summaries = _ingest_sweeps(data_dir, settings, site, now)
    demo_report.print_sweeps(site.description, summaries, time.monotonic() - started)
    with Store(data_dir, settings.store, writable=False) as store:
        view = View(store)
        demo_report.print_clusters(view, site.base_url)
        warm_up()
        results = Finder(view, settings).find_many(missing_urls(view, settings.find.soft_404_urls))
        answers = [answer for answer in results if answer.status in {"moved", "gone"}]
        demo_report.print_moves(answers, site.base_url)
        demo_report.print_gone(view, answers, site.base_url)
        redirects = folder / f"{site.name}-redirects.conf"
        demo_report.write_redirects(answers, redirects, settings.find.confidence_min)
    demo_report.print_next_commands(data_dir, answers)


def _ingest_sweeps(data_dir: Path, settings: Settings, site: Site, now: int) -> list[Summary]:
    """Ingest all sweeps. A state of another scheme, another release or other pages is deleted first."""

    def ingest_sweep(name: str, pages: Path) -> Summary:
        with Store(data_dir, settings.store) as store, progress_bars.ingest_bar(name, quiet=False) as bar:
            meta.claim_scheme(store, settings.scheme)
            return ingest(store, settings, [str(pages)], name, now=now, report=bar)

    try:
        return [ingest_sweep(name, pages) for name, pages in site.sweeps]
    except (StateRefused, InputError):
        shutil.rmtree(data_dir)
        return [ingest_sweep(name, pages) for name, pages in site.sweeps]


def _download_manuals(folder: Path) -> Site | None:
    """Return the sweeps of the real manual; None, with a message on stderr, if its archives cannot be downloaded."""
    files = {edition: folder / "pages" / f"{edition.sweep}.jsonl" for edition in manuals.EDITIONS}
    description = f"the {manuals.PROJECT} manual, {len(files)} editions"
    sweeps = [(edition.sweep, file) for edition, file in files.items()]
    site = Site("manuals", description, manuals.BASE_URL, sweeps)
    if all(file.exists() for file in files.values()):
        return site
    click.echo(f"downloading {description}, as source archives from the package index ...", err=True)
    try:
        with progress_bars.download_bar(len(files)) as count_one:
            archives = manuals.download(folder / "archives", lambda _: count_one())
        for edition, archive in archives.items():
            manuals.write_sweep(edition, archive, files[edition])
    except manuals.Offline as error:
        click.echo(f"{error}\nusing the built-in sample instead", err=True)
        return None
    return site


def _load_sample() -> Site:
    folder = Path(str(importlib.resources.files("streams.demo").joinpath("sample")))
    sweeps = [(file.stem, file) for file in sorted(folder.glob("*.jsonl"))]
    return Site("sample", f"a small made-up manual, {len(sweeps)} sweeps", SAMPLE_URL, sweeps)

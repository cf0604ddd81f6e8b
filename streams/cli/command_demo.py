"""`lostfound demo`: the whole job on real pages that nobody wrote for it, shown on one screen or two."""

from __future__ import annotations

import importlib.resources
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from streams.cli.options import Place, common, now_ms

if TYPE_CHECKING:
    from streams.engine.ingest import Summary

SAMPLE_SITE = "https://www.windvane.example/"


class Site(NamedTuple):
    """Sweeps of one site, ready to be read, and what is said of them."""

    name: str  # of the folder of its state
    about: str
    prefix: str  # that its URLs share
    sweeps: list[tuple[str, Path]]


@click.command("demo")
@click.option("--sample", is_flag=True, help="Use the small set that comes with lostfound; fetch nothing.")
@common
@click.pass_obj
def command(place: Place, sample: bool) -> None:
    """Do the whole job on six editions of one real manual, eleven years apart.

    Their archives are fetched from the package index by pip, and kept with all that is made of them in demo/ of the
    data folder; without a network a small set of hand-written pages is used instead.
    """
    from streams.demo import demo_report as report
    from streams.find import Finder
    from streams.find.missing import missing_urls

    folder = place.data_dir / "demo"
    site = _sample() if sample else _manuals(folder) or _sample()
    work = Place(folder / site.name, place.config, place.verbosity)
    began = time.monotonic()
    summaries = _ingest(work, site)
    report.sweeps(site.about, summaries, time.monotonic() - began)
    with work.reader() as (view, settings):
        report.clusters(view, site.prefix)
        found = Finder(view, settings).find_many(missing_urls(view, settings.find.soft_404_urls))
        answers = [answer for answer in found if answer.status in {"moved", "gone"}]
        report.moves(answers, site.prefix)
        report.gone(view, answers, site.prefix)
        report.redirects(answers, folder / f"{site.name}-redirects.conf", settings.find.confidence_min)
    report.farewell(work.data_dir, answers)


def _ingest(work: Place, site: Site) -> list[Summary]:
    """Take the sweeps in, in a state that nobody else needs: one of another release, or other pages, is made anew."""
    from state.errors import StateRefused
    from streams.engine.ingest import ingest
    from streams.errors import InputError
    from streams.terminal import tables

    def take(name: str, pages: Path) -> Summary:
        with work.writer(make=True) as (store, settings), tables.ingest_bar(name, quiet=False) as report:
            return ingest(store, settings, [str(pages)], name, now=now_ms(), report=report)

    try:
        return [take(name, pages) for name, pages in site.sweeps]
    except (StateRefused, InputError):
        shutil.rmtree(work.data_dir)
        return [take(name, pages) for name, pages in site.sweeps]


def _manuals(folder: Path) -> Site | None:
    """Sweeps of the real manual; None, with a word on stderr, when its archives cannot be had."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from streams.demo import manuals
    from streams.terminal import tables

    pages = folder / "pages"
    made = {edition: pages / f"{edition.sweep}.jsonl" for edition in manuals.EDITIONS}
    about = f"the {manuals.PROJECT} manual, {len(made)} editions"
    site = Site("manuals", about, manuals.SITE, [(edition.sweep, file) for edition, file in made.items()])
    if all(file.exists() for file in made.values()):
        return site
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    click.echo(f"fetching {about}, as source archives from the package index ...", err=True)
    try:
        to = tables.console(stderr=True)
        with Progress(*columns, console=to, disable=not sys.stderr.isatty(), transient=True) as bar:
            at = bar.add_task("archives", total=len(made))
            archives = manuals.fetch(folder / "archives", lambda _: bar.advance(at))
        for edition, archive in archives.items():
            manuals.write_sweep(edition, archive, made[edition])
    except manuals.Offline as error:
        click.echo(f"{error}\nusing the small set of pages that comes with lostfound instead", err=True)
        return None
    return site


def _sample() -> Site:
    folder = Path(str(importlib.resources.files("streams.demo").joinpath("sample")))
    sweeps = [(file.stem, file) for file in sorted(folder.glob("*.jsonl"))]
    return Site("sample", f"a small made-up manual, {len(sweeps)} sweeps", SAMPLE_SITE, sweeps)

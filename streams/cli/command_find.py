"""`lostfound find`: where missing URLs live now."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import click

from streams.cli.exit_codes import Exit
from streams.cli.options import Place, Share, as_json, served
from streams.errors import InputError
from streams.terminal.escape import escaped, percent, plain

if TYPE_CHECKING:
    from streams.find.answer import Answer

CSV_COLUMNS = ("url", "status", "last_seen", "now_at", "confidence", "resemblance", "containment", "evidence")


@click.command("find")
@click.argument("urls", metavar="URL...", nargs=-1)
@click.option("--from-file", metavar="FILE|-", help="Ask for every URL of a file, one a line.")
@click.option("--missing", is_flag=True, help="Ask for every URL that the last sweep lacks.")
@as_json
@click.option("--csv", "as_csv", is_flag=True, help="A row a URL, with its best candidate.")
@click.option(
    "--redirects",
    metavar="FORM",
    type=click.Choice(["nginx", "apache", "netlify", "csv"]),
    help="A redirect map of what moved: nginx, apache, netlify or csv.",
)
@click.option(
    "--min-confidence",
    type=Share(),
    help="Of redirects: leave out what is less sure (find.confidence_min of the settings; may be lower).",
)
@served
@click.pass_obj
def command(
    place: Place,
    urls: tuple[str, ...],
    from_file: str | None,
    missing: bool,
    json: bool,
    as_csv: bool,
    redirects: str | None,
    min_confidence: float | None,
) -> Exit | None:
    """Tell of each URL whether it is alive, moved, gone or unknown, and where its page lives now.

    Every candidate comes with a confidence and the evidence for it.
    """
    import structlog

    from streams.find import Finder
    from streams.find.missing import missing_urls

    if sum((json, as_csv, redirects is not None)) > 1:
        raise click.UsageError("--json, --csv and --redirects exclude one another")
    if not urls and not from_file and not missing:
        raise click.UsageError("name URLs, or --from-file, or --missing")
    named = [_named(url) for url in urls]
    with place.reader() as (view, settings):
        finder = Finder(view, settings)
        answers = finder.find_many(chain(named, _lines(from_file) if from_file else ()))
        if missing:
            suspected = finder.find_many(missing_urls(view, settings.find.soft_404_urls))
            answers = chain(answers, (answer for answer in suspected if answer.status in {"moved", "gone"}))
        tally = Tally()
        answers = tally.of(answers)
        if json:
            for answer in answers:
                click.echo(escaped(answer.to_json()))
        elif as_csv:
            _write_csv(answers)
        elif redirects is not None:
            least = settings.find.confidence_min if min_confidence is None else min_confidence
            _write_redirects(answers, redirects, least)
        else:
            _show(answers, tally)
    if reached := +finder.counters:
        structlog.get_logger(__name__).info("limits reached", **reached)
    return None if tally.known else Exit.NOTHING


class Tally:
    """How many answers there were of each kind, counted as they pass."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def of(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """The same answers, counted."""
        for answer in answers:
            self.counts[answer.status] += 1
            yield answer

    @property
    def known(self) -> int:
        """Answers that say something."""
        return self.counts.total() - self.counts["unknown"]


def _named(argument: str) -> str:
    """A URL of the command line as text that can be told again; raises BadUrl. A list may hold what is none."""
    from streams.urls import url_key

    url = argument.encode("utf-8", "replace").decode()
    url_key(url)
    return url


def _lines(source: str) -> Iterator[str]:
    """The URLs of a file or of stdin; empty lines and those that begin with # are passed over."""
    try:
        with click.open_file(source, encoding="utf-8-sig", errors="replace") as file:
            for line in file:
                if (url := line.strip()) and not url.startswith("#"):
                    yield url
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}", "name a file of URLs, one a line, or - for stdin") from error


def _write_csv(answers: Iterable[Answer]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for answer in answers:
        best = answer.candidates[0] if answer.candidates else None
        found = (best.url, best.confidence, best.resemblance, best.containment) if best else (None,) * 4
        reasons = " ".join(each.kind for each in best.evidence) if best else ""
        row = (answer.url, answer.status, answer.last_seen, *found, reasons)
        writer.writerow([_cell(value) for value in row])


def _cell(value: object) -> object:
    """What a terminal prints and a spreadsheet takes for text: a crawled URL must not steer, nor become a formula."""
    if not isinstance(value, str):
        return value
    return f"'{percent(value)}" if value.startswith(("=", "+", "-", "@")) else percent(value)


def _write_redirects(answers: Iterable[Answer], form: str, confidence_min: float) -> None:
    from streams.find.redirect_maps import redirect_map, render

    text, left_out = render(redirect_map(answers, confidence_min), form)
    click.echo(text, nl=False)
    for url, why in left_out.items():
        click.echo(f"left out: {plain(url)}: {why}", err=True)


def _show(answers: Iterable[Answer], tally: Tally) -> None:
    """One answer with all its candidates; of several a line each."""
    from streams.terminal import tables

    found = list(answers)
    if len(found) == 1:
        tables.out(tables.answer(found[0]))
    elif found:
        tables.out(tables.answers(found))
    said = ", ".join(f"{count:,} {status}" for status, count in sorted(tally.counts.items()))
    click.echo(said or "no URL is missing", err=True)

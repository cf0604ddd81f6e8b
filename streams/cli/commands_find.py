"""`lostfound find`: find where missing pages live now."""

from __future__ import annotations

import codecs
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import SHARE, json_option, server_options
from streams.cli.output import escape_cell
from streams.errors import InputError
from streams.terminal.escape import escape_json, escape_text, pluralise

if TYPE_CHECKING:
    from state.model import Sweep
    from state.row_counter import RowCounter
    from state.rows import RowReader
    from state.view import View
    from streams.find import Finder
    from streams.find.answer import Answer
    from streams.settings import Settings

HOSTS_SHOWN_MAX = 3
SWEEPS_SHOWN_MAX = 6
MAP_FORMATS = (
    *("nginx", "apache", "caddy", "netlify", "cloudflare", "vercel"),
    *("mkdocs-redirects", "sphinx-reredirects", "csv"),
)
CSV_COLUMNS = (
    *("url", "status", "last_seen", "now_at", "confidence", "resemblance", "containment", "evidence"),
    *("known_url", "decided_at"),
)


@click.command
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--from-file", metavar="FILE|-", help="Also look up the URLs in a file or on stdin, one per line.")
@click.option("--missing", is_flag=True, help="Also look up all URLs that are missing now.")
@click.option(
    "--status",
    metavar="STATUS",
    type=click.Choice(["moved", "copy", "gone"]),
    help="With --missing: list only URLs with this status: moved, copy or gone.",
)
@click.option(
    "--host", metavar="HOST", help="With --missing: look up only URLs on this host, such as docs.example.org."
)
@click.option("--prefix", metavar="URL", help="With --missing: look up only URLs that begin with this prefix.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="With --missing: maximum number of missing URLs to list."
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Write one CSV row per URL, with its best candidate.")
@click.option(
    "--redirects",
    metavar="FORMAT",
    type=click.Choice(MAP_FORMATS),
    help=f"Write a redirect map. FORMAT is {', '.join(MAP_FORMATS[:-1])} or {MAP_FORMATS[-1]}.",
)
@click.option(
    "--min-confidence",
    metavar="X",
    type=SHARE,
    help="With --missing: list only URLs whose best candidate has at least this confidence. With --redirects: write "
    "only redirects with at least this confidence.  [default: no minimum for missing URLs; the setting "
    "find.confidence_min for redirects]",
)
@click.option(
    "--scope",
    metavar="HOST",
    multiple=True,
    help="Treat this host as crawled by every sweep, so that its pages can count as missing even if a sweep did "
    "not visit it. Can be repeated.",
)
@server_options
def find(
    context: Context,
    urls: tuple[str, ...],
    from_file: str | None,
    missing: bool,
    status: str | None,
    host: str | None,
    prefix: str | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    redirects: str | None,
    min_confidence: float | None,
    scope: tuple[str, ...],
) -> Exit:
    """Find where missing pages live now.

    Each URL is reported as alive, moved, copy (missing, but a mirror has a copy), gone, never_seen (not in any sweep,
    but pages link to it) or unknown. Candidates for the new URL are listed with their confidence and evidence.
    """
    from state.row_counter import RowCounter
    from state.view import View
    from streams.find import Finder, warm_up

    if sum((as_json, as_csv, redirects is not None)) > 1:
        raise click.UsageError("--json, --csv and --redirects cannot be combined")
    if not urls and not from_file and not missing:
        raise click.UsageError("specify one or more URLs, --from-file or --missing")
    if not missing and (status, host, prefix, limit) != (None,) * 4:
        raise click.UsageError("--status, --host, --prefix and --limit select missing URLs: add --missing")
    selection = _Selection(status, _key_prefix(host, prefix), limit, min_confidence)
    valid_urls = [_parse_url(url) for url in urls]
    statuses: Counter[str] = Counter()
    with context.open_view() as (view, settings):
        if missing or from_file:
            warm_up()  # only for many URLs: answering a few takes less time than loading the compiled functions
        counter = RowCounter(view.store)
        counted_view = View(counter.rows)
        finder = Finder(counted_view, _extend_scope(settings, scope))
        answers = finder.find_many(chain(valid_urls, read_urls(from_file) if from_file else ()))
        if missing:
            answers = chain(answers, _missing_answers(finder, counted_view, settings, selection))
        if missing or from_file:
            answers = _show_progress(answers, finder, counter, is_streamed=as_json or as_csv)
        answers = _count_statuses(answers, statuses)
        if as_json:
            for answer in answers:
                click.echo(escape_json(answer.to_json()))
        elif as_csv:
            _write_csv(answers)
        elif redirects is not None:
            confidence_min = settings.find.confidence_min if min_confidence is None else min_confidence
            _write_redirect_map(answers, redirects, confidence_min, prefix)
        else:
            _write_table(list(answers), view.sweeps(), _empty_message(from_file if not missing else None, selection))
        if missing:
            _warn_of_hosts_outside_scope(finder.hosts_outside_last_sweep())
    _log_limits(+finder.counters, context.verbosity)
    return Exit.OK if statuses.total() > statuses["unknown"] else Exit.NOTHING


def _log_limits(counters: Counter[str], verbosity: int) -> None:
    """Log how often each limit was reached, if the command is verbose."""
    if verbosity and counters:
        import structlog

        structlog.get_logger(__name__).info("limits reached", **counters)


def _count_statuses(answers: Iterable[Answer], statuses: Counter[str]) -> Iterator[Answer]:
    for answer in answers:
        statuses[answer.status] += 1
        yield answer


class _Selection(NamedTuple):
    """Which missing URLs to list."""

    status: str | None = None
    key_prefix: bytes = b""
    limit: int | None = None
    min_confidence: float | None = None


def _missing_answers(finder: Finder, view: View, settings: Settings, selection: _Selection) -> Iterator[Answer]:
    """Return the answers for the selected missing URLs, followed by URLs without captures that have a decision."""
    from streams.find import decided_urls_without_pages, possibly_missing_urls

    statuses = {"moved", "copy", "gone"} if selection.status is None else {selection.status}
    confidence_min = selection.min_confidence or 0.0
    missing = possibly_missing_urls(view, settings.find.soft_404_urls, selection.key_prefix)
    urls = chain(missing, decided_urls_without_pages(view, selection.key_prefix))
    selected = (
        answer
        for answer in finder.find_many(urls)
        if answer.status in statuses
        and (answer.candidates[0].confidence if answer.candidates else 0.0) >= confidence_min
    )
    return islice(selected, selection.limit)


def _key_prefix(host: str | None, prefix: str | None) -> bytes:
    """Return the common prefix of the keys of all URLs on a host, or of all URLs that begin with a prefix."""
    from streams.urls import host_prefix, url_key

    if host is None:
        return url_key(prefix) if prefix is not None else b""
    if prefix is not None:
        raise click.UsageError("--host and --prefix cannot be combined")
    if set(host) & set("/?#@\\"):
        raise click.UsageError(f"--host {host!r} is not a host name; use --prefix for a URL")
    return host_prefix(url_key(f"https://{host}/"))


def _empty_message(from_file: str | None, selection: _Selection) -> str:
    if from_file is not None:
        return f"{from_file} contains no URLs"
    return "no URL is missing" if selection == _Selection() else "no missing URL matches these options"


def _show_progress(
    answers: Iterator[Answer], finder: Finder, counter: RowCounter[RowReader], *, is_streamed: bool
) -> Iterator[Answer]:
    """Yield the same answers. Show the progress until the last answer, unless answers are streamed to a terminal."""
    from streams.terminal import progress_bars

    def count_urls(meter: progress_bars.Meter) -> None:
        meter.count = finder.searched_urls
        meter.activity = f"listing missing URLs, {pluralise(counter.count, 'row')} read"

    meter = progress_bars.Meter("find", "URL", poll=count_urls)
    return progress_bars.iterate(answers, meter, quiet=is_streamed and sys.stdout.isatty())


def _extend_scope(settings: Settings, hosts: tuple[str, ...]) -> Settings:
    """Return the settings with these hosts added to `find.scope`."""
    from msgspec.structs import replace

    return replace(settings, find=replace(settings.find, scope=[*settings.find.scope, *hosts]))


def _describe_order(sweeps: list[Sweep]) -> str:
    """Return a line with the committed sweeps in ingest order. Mention if their captures are in a different order."""
    from state.model import SweepState

    committed = [sweep for sweep in sweeps if sweep.state is SweepState.COMMITTED]
    names = [escape_text(sweep.name) for sweep in committed[-SWEEPS_SHOWN_MAX:]]
    if len(committed) > len(names):
        names.insert(0, f"{len(committed) - len(names):,} earlier ones")
    times = [sweep.newest_time for sweep in committed if sweep.newest_time]
    is_different_order = any(later < earlier for earlier, later in pairwise(times))
    note = "; their captures are in a different order, see `lostfound sweep list`" if is_different_order else ""
    return f"sweeps in ingest order: {', '.join(names)}{note}"


def _write_table(answers: list[Answer], sweeps: list[Sweep], empty_message: str) -> None:
    from streams.terminal import layout, tables

    if answers:
        layout.print_to_stdout(tables.find_table(answers, _describe_order(sweeps)))
    statuses = Counter(answer.status for answer in answers)
    summary = ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))
    click.echo(summary or empty_message, err=True)


def _warn_of_hosts_outside_scope(hosts: list[str]) -> None:
    if hosts:
        examples = ", ".join([*hosts[:HOSTS_SHOWN_MAX], *(["..."] if len(hosts) > HOSTS_SHOWN_MAX else [])])
        count = pluralise(len(hosts), "host")
        click.echo(
            f"the last sweep did not visit {count} of earlier sweeps: {escape_text(examples)}; pages on these hosts "
            "do not count as missing; if a host should have been visited, add it with --scope HOST",
            err=True,
        )


def _write_redirect_map(
    answers: Iterable[Answer], format_name: str, confidence_min: float, site_url: str | None
) -> None:
    from streams.find.map_formats.hosting_services import describe_cloudflare_limit
    from streams.find.redirect_maps import build_redirect_map, render

    map_text, dropped = render(build_redirect_map(answers, confidence_min), format_name, site_url)
    click.echo(map_text.encode(), nl=False)  # UTF-8, whatever the encoding of the terminal is
    if format_name == "cloudflare" and (note := describe_cloudflare_limit(map_text.count("\n"))):
        click.echo(note, err=True)
    for url, reason in dropped.items():
        click.echo(f"left out {escape_text(url)}: {reason}", err=True)


def _parse_url(argument: str) -> str:
    """Return a URL from the command line as valid Unicode. Raise BadUrl if the URL is invalid."""
    from streams.urls import url_key

    url = argument.encode("utf-8", "replace").decode()
    url_key(url)
    return url


def read_urls(source: str) -> Iterator[str]:
    """Yield the URLs of a file or stdin, skipping empty lines and lines that start with #."""
    try:
        with click.open_file(source, encoding="utf-8-sig", errors="replace") as file:
            for line in file:
                if (url := line.strip()) and not url.startswith("#"):
                    yield url
    except OSError as error:
        hint = "pass a file with one URL per line, or - for stdin"
        raise InputError(f"{source}: {error.strerror}", hint) from error


def _write_csv(answers: Iterable[Answer]) -> None:
    stdout = codecs.getwriter("utf-8")(click.get_binary_stream("stdout"))
    writer = csv.writer(stdout, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for answer in answers:
        best = answer.candidates[0] if answer.candidates else None
        best_cells = (best.url, best.confidence, best.resemblance, best.containment) if best else (None,) * 4
        evidence_kinds = " ".join(evidence.kind for evidence in best.evidence) if best else ""
        decided_at = answer.decision.decided_at if answer.decision else None
        cells = (
            *(answer.url, answer.status, answer.last_seen, *best_cells, evidence_kinds),
            *(answer.known_url, decided_at),
        )
        writer.writerow([escape_cell(cell) for cell in cells])

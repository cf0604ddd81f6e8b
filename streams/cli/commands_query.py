"""`lostfound clusters`, `cluster`, `duplicates`, `similar` and `captures`: queries about near-duplicates of pages."""

from __future__ import annotations

import csv
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit
from streams.cli.options import SHARE, combine, json_option, server_options
from streams.cli.output import escape_cell, print_results, to_json_object, write_json
from streams.errors import InputError, NotFound
from streams.terminal.escape import escape_text, pluralise

if TYPE_CHECKING:
    from state.model import Sketch
    from state.scheme import Scheme
    from state.view import View
    from streams.query import Cluster
    from streams.settings import Settings

TABLE_ROWS_MAX = 1_000

_policy_options = combine(
    click.option(
        "--threshold",
        metavar="X",
        type=SHARE,
        help="Join only documents with at least this resemblance. The default is the threshold used at ingest; a "
        "lower value is refused.",
    ),
    click.option(
        "--containment",
        is_flag=True,
        help="Also join two documents if the containment of one in the other is at least --threshold.",
    ),
    click.option("--sweep", "sweep_name", metavar="NAME", help="Use only documents captured in this sweep."),
)


@click.command
@click.option(
    "--min-size",
    metavar="N",
    type=click.IntRange(1),
    default=2,
    help="List only clusters of at least this size: the number of documents or of URLs, whichever is larger.",
)
@click.option(
    "--min-urls",
    metavar="N",
    type=click.IntRange(1),
    default=2,
    help="List only clusters with at least this many URLs. A cluster with a single URL consists of versions of one "
    "page.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Maximum number of clusters to list.")
@_policy_options
@json_option
@server_options
def clusters(
    context: Context,
    min_size: int,
    min_urls: int,
    limit: int | None,
    threshold: float | None,
    containment: bool,
    sweep_name: str | None,
    as_json: bool,
) -> Exit:
    """List clusters, largest first.

    The table shows a few URLs per cluster. --json lists all documents, URLs and stored pairs of near-duplicates, and
    compares each document with the cluster's first document (its root).
    """
    from state.row_counter import RowCounter
    from state.view import View
    from streams import query
    from streams.terminal import layout, progress_bars, tables

    count, truncated = 0, False
    with context.open_view() as (view, settings):
        policy = _policy_arguments(view, settings, threshold, containment, sweep_name)
        counter = RowCounter(view.store)
        counted_view = View(counter.rows)
        if policy is None:
            all_clusters = query.clusters(counted_view, min_size=min_size, min_urls=min_urls)
        else:
            all_clusters = query.clusters_by_policy(counted_view, **policy, min_size=min_size, min_urls=min_urls)
        meter = progress_bars.row_meter("clusters", counter)
        results = progress_bars.iterate(all_clusters, meter, quiet=as_json and sys.stdout.isatty())
        if as_json:
            for count, result in enumerate(islice(results, limit), start=1):  # noqa: B007 - `count` is used below
                write_json(_to_json(view, settings, result, policy))
        else:
            shown = list(islice(results, limit or TABLE_ROWS_MAX))
            count, truncated = len(shown), limit is None and next(results, None) is not None
            results.close()  # ends the display of the progress
            if shown:
                table = tables.clusters_table(shown, lambda document: view.title(bytes.fromhex(document)))
                layout.print_to_stdout(table)
    if not count:
        hint = "; use --min-urls 1 to include clusters with a single URL" if min_urls > 1 else ""
        documents, urls = pluralise(min_size, "document"), pluralise(min_urls, "URL")
        click.echo(f"no cluster has at least {documents} and at least {urls}{hint}", err=True)
        return Exit.NOTHING
    if truncated:
        click.echo(f"only the {count:,} largest clusters are shown; use --limit or --json to list more", err=True)
    return Exit.OK


@click.command
@click.argument("url_or_id", metavar="URL|DOC")
@_policy_options
@json_option
@server_options
def cluster(
    context: Context,
    url_or_id: str,
    threshold: float | None,
    containment: bool,
    sweep_name: str | None,
    as_json: bool,
) -> None:
    """Show the cluster of a URL or a document.

    For a URL, its most recent document is used. DOC is a document id, or at least its first ten hex digits.
    """
    from streams import query
    from streams.terminal import layout, tables

    with context.open_view() as (view, settings):
        document = query.resolve(view, _known_url(view, settings, url_or_id))
        limit = settings.limits.members_shown_max
        policy = _policy_arguments(view, settings, threshold, containment, sweep_name)
        if policy is None:
            result = query.cluster(view, document, limit)
        elif (policy_cluster := query.cluster_by_policy(view, document, **policy, limit=limit)) is not None:
            result = policy_cluster
        else:
            raise NotFound(
                f"sweep {sweep_name} did not capture document {document.hex()}", "omit --sweep to use all sweeps"
            )
        members = query.members(view, result, document, limit)
    if as_json:
        write_json({**to_json_object(result), "asked": document.hex(), "members": list(map(to_json_object, members))})
    else:
        layout.print_to_stdout(tables.cluster_table(result, members))


@click.command
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["csv", "jsonl"]),
    default="csv",
    help="csv: one row per URL, after a header; jsonl: one JSON object per line, explained by `lostfound docs json`.",
)
@click.option(
    "--all", "include_representatives", is_flag=True, help="Also list representatives and URLs without duplicates."
)
@server_options
def duplicates(context: Context, output_format: str, include_representatives: bool) -> Exit:
    """List every duplicate URL with the URL to keep.

    URLs are compared using their most recent documents. In each cluster, one URL is the representative. Every other
    URL is listed with the representative, the resemblance, and the containment in both directions. Its kind is
    `identical` if both URLs have the same document, and `near` otherwise.
    """
    from state.row_counter import RowCounter
    from state.view import View
    from streams import query
    from streams.terminal import progress_bars

    count = 0
    fields = query.Duplicate.__struct_fields__
    writer = csv.writer(sys.stdout, lineterminator="\n")
    with context.open_view() as (view, _):
        counter = RowCounter(view.store)
        rows = query.duplicates(View(counter.rows), include_representatives=include_representatives)
        meter = progress_bars.row_meter("duplicates", counter)
        results = progress_bars.iterate(rows, meter, quiet=sys.stdout.isatty())
        if output_format == "csv":
            writer.writerow(fields)
        for count, result in enumerate(results, start=1):  # noqa: B007 - `count` is used below
            if output_format == "csv":
                writer.writerow([escape_cell(getattr(result, name)) for name in fields])
            else:
                write_json(result)
    if not count:
        click.echo("no URL is a duplicate of another", err=True)
        return Exit.NOTHING
    return Exit.OK


@click.command
@click.argument("source", metavar="FILE|URL|-")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=20, help="Maximum number of documents to list.")
@json_option
@server_options
def similar(context: Context, source: str, limit: int, as_json: bool) -> Exit:
    """Find stored documents similar to a file, a URL or stdin.

    The file is HTML or plain text. For a URL, its most recent document is used. Each result shows the resemblance and
    the containment in both directions, with standard errors.
    """
    from streams import query
    from streams.terminal import tables

    with context.open_view() as (view, settings):
        if "://" in source:
            row = view.document(query.resolve(view, _known_url(view, settings, source)))
            assert row is not None  # resolve returns only ids of stored documents
            sketch = row.sketch
        else:
            sketch = _sketch_page(_read_page(source, settings.limits.page_bytes_max), view.scheme, settings)
        matches = query.find_similar(view, settings, sketch, limit=limit)
    return print_results(matches, tables.similar_table, "no stored document is similar", as_json=as_json)


@click.command
@click.argument("url")
@json_option
@server_options
def captures(context: Context, url: str, as_json: bool) -> Exit:
    """List the captures of a URL in sweep order.

    Each capture is shown with the resemblance of its document to the URL's previous document.
    """
    from streams import query
    from streams.terminal import tables

    with context.open_view() as (view, settings):
        results = query.iterate_captures(view, _known_url(view, settings, url))
        message = f"no sweep has captured {escape_text(url)}"
        return print_results(results, tables.captures_table, message, as_json=as_json)


def _known_url(view: View, settings: Settings, name: str) -> str:
    """Return `name` or, if it was never captured, the captured URL that differs only by tracking parameters.

    Print a note if the two URLs differ.
    """
    from streams.tracking_parameters import known_key
    from streams.urls import url_key

    if "://" not in name or view.has_captures(key := url_key(name)):
        return name
    other_key = known_key(view, key, settings.find.tracking_parameters)
    if other_key is None:
        return name
    url = view.captures(other_key)[-1].url
    click.echo(
        f"{escape_text(name)} was never captured; the answer is about {escape_text(url)}, "
        "which differs only by tracking parameters",
        err=True,
    )
    return url


def _to_json(view: View, settings: Settings, cluster: Cluster, policy: dict[str, Any] | None) -> dict[str, Any]:
    """Return a cluster as JSON, with its members (compared with the root) and its pairs."""
    from streams import query

    members = query.members(view, cluster, bytes.fromhex(cluster.cluster), settings.limits.members_shown_max)
    pairs = query.pairs(view, cluster, **{name: (policy or {}).get(name) for name in ("threshold", "containment")})
    return {
        **to_json_object(cluster),
        "members": [to_json_object(member) for member in members],
        "pairs": [to_json_object(pair) for pair in pairs],
    }


def _policy_arguments(
    view: View, settings: Settings, threshold: float | None, containment: bool, sweep_name: str | None
) -> dict[str, Any] | None:
    """Return the arguments of `clusters_by_policy`, or None if no option is set: the stored clusters are then used.

    Raise InputError if the sweep is unknown, or if the threshold is lower than at ingest, because edges below the
    ingest threshold were never stored.
    """
    if threshold is None and not containment and sweep_name is None:
        return None
    ingest_threshold = view.threshold() or settings.policy.threshold
    if threshold is None:
        threshold = ingest_threshold
    if containment and threshold == ingest_threshold:
        click.echo(
            f"--containment has no effect at threshold {ingest_threshold}: all stored edges are used anyway", err=True
        )
    if threshold < ingest_threshold:
        raise InputError(
            f"--threshold {threshold} is below {ingest_threshold}, the threshold used at ingest",
            "use a higher --threshold, or ingest again into a new folder with a lower policy.threshold",
        )
    sweep_numbers = {sweep.name: sweep.number for sweep in view.sweeps()}
    if sweep_name is not None and sweep_name not in sweep_numbers:
        raise InputError(f"sweep {sweep_name!r} does not exist", "list all sweeps with `lostfound sweep list`")
    sweep_number = sweep_numbers[sweep_name] if sweep_name is not None else None
    return {"threshold": threshold, "containment": containment, "sweep": sweep_number}


def _read_page(source: str, bytes_max: int) -> bytes:
    try:
        with click.open_file(source, "rb") as file:
            content: bytes = file.read(bytes_max + 1)
    except OSError as error:
        hint = "pass a file, a URL that starts with http:// or https://, or - for stdin"
        raise InputError(f"{source}: {error.strerror}", hint) from error
    if len(content) > bytes_max:
        raise InputError(f"{source} is larger than {bytes_max:,} bytes", "raise limits.page_bytes_max to accept it")
    return content


def _sketch_page(content: bytes, scheme: Scheme, settings: Settings) -> Sketch:
    """Return the sketch of a page. Raise InputError if the page has no text."""
    from streams.sketch.content_kind import ContentKind, detect_by_body
    from streams.sketch.extract import TextError, extract_body
    from streams.sketch.html_guard import ParserLimits
    from streams.sketch.sketcher import Sketcher

    hint = "supply HTML or plain text"
    kind = detect_by_body(content)
    if kind is ContentKind.NOT_A_PAGE:
        raise InputError("no text could be extracted: the content is binary", hint)
    try:
        extracted = extract_body(
            content,
            kind,
            page_bytes_max=settings.limits.page_bytes_max,
            extractor=scheme.extractor,
            parser_limits=ParserLimits.from_settings(settings.limits),
        )
    except TextError as error:
        raise InputError(f"no text could be extracted: {error.detail}", hint) from error
    sketch = Sketcher(scheme, settings.limits.tokens_max).sketch(extracted.text)
    if sketch is None or not sketch.shingles:
        raise InputError("the page contains no words", hint)
    return sketch

"""`lostfound similar` and `captures`: what a page is a copy of, and what a URL held before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streams.cli.exit_codes import Exit
from streams.cli.json_output import as_row, write_json
from streams.cli.options import Place, as_json, served
from streams.errors import InputError
from streams.terminal.escape import plain

if TYPE_CHECKING:
    from state.model import Sketch
    from state.scheme import Scheme
    from state.view import View
    from streams.settings import Settings


@click.command("similar")
@click.argument("source", metavar="FILE|URL|-")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Matches shown.")
@as_json
@served
@click.pass_obj
def similar(place: Place, source: str, limit: int, json: bool) -> Exit | None:
    """Find stored documents like a file (HTML or text), like what a URL held last, or like stdin.

    Each with its resemblance, the containment both ways, and their standard errors.
    """
    from streams import query
    from streams.terminal import tables

    with place.reader() as (view, settings):
        if "://" in source:
            sketch = _stored(view, source)
        else:
            sketch = _sketched(_read(source, settings), view.scheme, settings)
        found = query.similar(view, settings, sketch, limit=limit)
    if json:
        write_json(*(as_row(match) for match in found))
    elif found:
        tables.out(tables.matches(found))
    if not found:
        click.echo("nothing stored is like it", err=True)
        return Exit.NOTHING
    return None


@click.command("captures")
@click.argument("url")
@as_json
@served
@click.pass_obj
def captures(place: Place, url: str, json: bool) -> Exit | None:
    """Show the history of a URL: every capture, and how much it resembles the one before."""
    from streams import query
    from streams.terminal import tables

    with place.reader() as (view, _):
        found = query.captures(view, url)
    if json:
        write_json(*(as_row(version) for version in found))
    elif found:
        tables.out(tables.history(found))
    if not found:
        click.echo(f"no sweep holds {plain(url)}", err=True)
        return Exit.NOTHING
    return None


def _stored(view: View, url: str) -> Sketch:
    from streams import query

    row = view.document(query.resolve(view, url))
    assert row is not None  # resolve names only stored documents
    return row.sketch


def _read(source: str, settings: Settings) -> bytes:
    most = settings.limits.page_bytes_max
    try:
        with click.open_file(source, "rb") as file:
            content: bytes = file.read(most + 1)
    except OSError as error:
        raise InputError(
            f"{source}: {error.strerror}", "name a file, a URL with its scheme, or - for stdin"
        ) from error
    if len(content) > most:
        raise InputError(f"{source} has more than {most:,} bytes", "limits.page_bytes_max allows more")
    return content


def _sketched(content: bytes, scheme: Scheme, settings: Settings) -> Sketch:
    """The sketch of a page that is in no sweep; raises InputError when there is no text in it."""
    from streams.sketch.extract import TextError, extract_body
    from streams.sketch.sketcher import Sketcher

    try:
        extracted = extract_body(content, page_bytes_max=settings.limits.page_bytes_max, extractor=scheme.extractor)
    except TextError as error:
        raise InputError(f"no text can be won from it: {error.detail}", "hand in HTML or plain text") from error
    sketch = Sketcher(scheme, settings.limits.tokens_max).sketch(extracted.text)
    if sketch is None or not sketch.shingles:
        raise InputError("it holds no word", "hand in HTML or plain text")
    return sketch

"""`lostfound similar`: find stored documents similar to a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streams.cli.context import Context
from streams.cli.exit_codes import Exit
from streams.cli.json_output import to_json_object, write_json
from streams.cli.options import json_option, server_options
from streams.errors import InputError

if TYPE_CHECKING:
    from state.model import Sketch
    from state.scheme import Scheme
    from state.view import View
    from streams.settings import Settings


@click.command
@click.argument("source", metavar="FILE|URL|-")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of documents.")
@json_option
@server_options
@click.pass_obj
def similar(context: Context, source: str, limit: int, json: bool) -> Exit | None:
    """Find stored documents similar to a file, a URL or stdin.

    The file is HTML or plain text. A URL stands for the last document captured at it. Each result has its
    resemblance, its containment in both directions, and their standard errors.
    """
    from streams import query
    from streams.terminal import layout, tables

    with context.reader() as (view, settings):
        if "://" in source:
            sketch = _load_sketch(view, source)
        else:
            sketch = _sketch_page(_read_page(source, settings), view.scheme, settings)
        matches = query.similar(view, settings, sketch, limit=limit)
    if json:
        write_json(*(to_json_object(match) for match in matches))
    elif matches:
        layout.print_to_stdout(tables.similar_table(matches))
    if not matches:
        click.echo("no stored document is similar", err=True)
        return Exit.NOTHING
    return None


def _load_sketch(view: View, url: str) -> Sketch:
    from streams import query

    row = view.document(query.resolve(view, url))
    assert row is not None  # resolve returns only ids of stored documents
    return row.sketch


def _read_page(source: str, settings: Settings) -> bytes:
    limit = settings.limits.page_bytes_max
    try:
        with click.open_file(source, "rb") as file:
            content: bytes = file.read(limit + 1)
    except OSError as error:
        hint = "name a file, a URL that starts with http:// or https://, or - for stdin"
        raise InputError(f"{source}: {error.strerror}", hint) from error
    if len(content) > limit:
        raise InputError(f"{source} is larger than {limit:,} bytes", "raise limits.page_bytes_max to read it")
    return content


def _sketch_page(content: bytes, scheme: Scheme, settings: Settings) -> Sketch:
    """Return the sketch of a page. Raises InputError if it has no text."""
    from streams.sketch.extract import TextError, extract_body
    from streams.sketch.sketcher import Sketcher

    hint = "supply HTML or plain text"
    try:
        extracted = extract_body(content, page_bytes_max=settings.limits.page_bytes_max, extractor=scheme.extractor)
    except TextError as error:
        raise InputError(f"no text could be extracted: {error.detail}", hint) from error
    sketch = Sketcher(scheme, settings.limits.tokens_max).sketch(extracted.text)
    if sketch is None or not sketch.shingles:
        raise InputError("the page contains no words", hint)
    return sketch

"""Print results as tables or as JSON (docs/json.md is the contract), and print errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any

import click

from streams.cli.exit_codes import Exit
from streams.terminal.escape import escape_json, escape_text, escape_url

TIME_FIELDS = frozenset(
    {"time", "opened", "committed", "first_seen", "last_seen", "newest", "decided_at"}
)  # ms since the epoch; 0 means unknown


def to_json_object(value: Any) -> dict[str, Any]:
    """Return the fields of a struct. Times become ISO 8601 strings, and unknown times become None."""
    import msgspec

    from streams.timestamps import format_iso

    fields: dict[str, Any] = msgspec.to_builtins(value)
    for name in TIME_FIELDS & fields.keys():
        fields[name] = format_iso(fields[name]) if fields[name] else None
    return fields


def write_json(value: Any) -> None:
    """Write a value to stdout as one line of JSON."""
    import msgspec

    click.echo(escape_json(msgspec.json.encode(value)))


def escape_cell(value: object) -> object:
    """Escape a CSV cell: terminal control characters, and the start of a formula that spreadsheets would evaluate."""
    if not isinstance(value, str):
        return value
    return f"'{escape_url(value)}" if value.startswith(("=", "+", "-", "@")) else escape_url(value)


def print_results(
    results: Iterable[Any], build_table: Callable[[Any], Any], empty_message: str, *, as_json: bool
) -> Exit:
    """Print results as JSON or as a table, or `empty_message` to stderr if there are none. Return the exit code."""
    from streams.terminal import layout

    iterator = iter(results)
    first = list(islice(iterator, 1))
    if not first:
        click.echo(empty_message, err=True)
        return Exit.NOTHING
    if as_json:
        for result in chain(first, iterator):
            write_json(to_json_object(result))
    else:
        layout.print_to_stdout(build_table([*first, *iterator]))
    return Exit.OK


def print_error(message: str, hint: str) -> None:
    """Print an error message to stderr, followed by the hint if it is not empty."""
    click.secho(f"lostfound: {escape_text(message)}", fg="red" if not hint else None, err=True)
    if hint:
        click.secho(f"  {escape_text(hint)}", dim=True, err=True)

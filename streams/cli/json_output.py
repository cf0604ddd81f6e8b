"""Answers for machines: structs of the library as JSON objects, one a line. docs/json.md is the contract."""

from __future__ import annotations

from typing import Any

import click

from streams.terminal.escape import escaped

TIMES = frozenset({"time", "opened", "committed", "first_seen", "last_seen"})  # fields that are ms since the epoch


def as_row(value: Any) -> dict[str, Any]:
    """A struct's fields, with times in ISO 8601 and null where there is none."""
    import msgspec

    from streams.timestamps import iso

    row: dict[str, Any] = msgspec.to_builtins(value)
    for name in TIMES & row.keys():
        row[name] = iso(row[name]) if row[name] else None
    return row


def write_json(*values: Any) -> None:
    """One JSON object a line on stdout."""
    import msgspec

    for value in values:
        click.echo(escaped(msgspec.json.encode(value)))

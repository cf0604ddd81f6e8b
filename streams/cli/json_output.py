"""JSON output: structs of the library as one JSON object per line. docs/json.md is the contract."""

from __future__ import annotations

from typing import Any

import click

from streams.terminal.escape import escape_json

TIME_FIELDS = frozenset({"time", "opened", "committed", "first_seen", "last_seen"})  # ms since 1970; 0 means unknown


def to_json_object(value: Any) -> dict[str, Any]:
    """Return a struct's fields. Times become ISO 8601, or None if unknown."""
    import msgspec

    from streams.timestamps import iso

    fields: dict[str, Any] = msgspec.to_builtins(value)
    for name in TIME_FIELDS & fields.keys():
        fields[name] = iso(fields[name]) if fields[name] else None
    return fields


def write_json(*values: Any) -> None:
    """Write each value to stdout as a line of JSON."""
    import msgspec

    for value in values:
        click.echo(escape_json(msgspec.json.encode(value)))

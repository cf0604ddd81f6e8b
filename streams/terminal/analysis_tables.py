"""The tables of the commands that analyse all pages of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from streams.terminal import layout
from streams.terminal.escape import escape_text, escape_url
from streams.terminal.layout import BlockTable, Row

if TYPE_CHECKING:
    from streams.analyses.changes.compute_changes import Change
    from streams.analyses.replicas import Replica

_FIRST_DECILE, _MEDIAN, _LAST_DECILE = 0, 4, 8  # positions among the nine deciles


def changes_table(changes: Sequence[Change], *, omitted: int) -> RenderableType:
    def row(change: Change) -> Row:
        figures = (change.pages, change.unchanged, change.changed, change.new, change.vanished)
        deciles = [
            layout.format_share(change.resemblance[position] if change.resemblance else None)
            for position in (_FIRST_DECILE, _MEDIAN, _LAST_DECILE)
        ]
        half_life = "" if change.half_life_days is None else f"{change.half_life_days:,.1f}"
        name = escape_text(change.host) if change.host is not None else escape_url(change.url or "")
        return (
            name,
            escape_text(change.sweep),
            f"{change.days:,.1f}",
            *(f"{figure:,}" for figure in figures),
            *deciles,
            half_life,
        ), ()

    heading = "host" if changes[0].host is not None else "url"
    counts = (">pages", ">unchanged", ">changed", ">new", ">vanished")
    columns = (heading, "sweep", ">days", *counts, ">10%", ">median", ">90%", ">half-life (days)")
    table = BlockTable(columns, map(row, changes))
    return Group(table, Text(f"{omitted:,} more rows; use --host or --json", style="dim")) if omitted else table


def replicas_table(replicas: Sequence[Replica], *, omitted: int) -> RenderableType:
    def row(replica: Replica) -> Row:
        pages = (f"{pages:,}" for pages in (*replica.pages, replica.common))
        shares = (layout.format_share(share) for share in replica.containment)
        return (escape_url(replica.a), escape_url(replica.b), *pages, *shares), ()

    columns = ("a", "b", ">pages in a", ">pages in b", ">common", ">a in b", ">b in a")
    table = BlockTable(columns, map(row, replicas))
    return Group(table, Text(f"{omitted:,} more pairs; use --json", style="dim")) if omitted else table

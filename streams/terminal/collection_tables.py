"""The tables of `collections`, `avoid` and `group`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group as RenderGroup
from rich.console import RenderableType
from rich.text import Text

from streams.terminal import layout
from streams.terminal.escape import escape_url
from streams.terminal.layout import BlockTable, Row

if TYPE_CHECKING:
    from streams.analyses.avoid.avoid_list import Entry
    from streams.analyses.avoid.check_avoid import CheckedEntry
    from streams.analyses.collections.collection_results import Collection
    from streams.query.group import Group

_REASONS = {
    "most_clusters": "most complete",
    "most_linking_hosts": "most hosts link to it",
    "shortest_root": "shortest URL",
    "first_root": "first in order",
    "copy": "has copies",
    "exception": "has no copies",
    "sample": "sample",
}


def collections_table(collections: Sequence[Collection], *, omitted: int) -> RenderableType:
    def row(collection: Collection) -> Row:
        figures = (collection.pages, collection.clusters, collection.linking_hosts)
        reason = f"representative: {_REASONS[collection.reason]}" if collection.reason is not None else ""
        return (str(collection.class_), *(f"{figure:,}" for figure in figures), reason), [_url_line(collection.root)]

    columns = (">class", ">pages", ">clusters", ">linking hosts", "")
    return _with_omitted(BlockTable(columns, map(row, collections)), omitted)


def avoid_table(entries: Sequence[Entry], *, omitted: int) -> RenderableType:
    def row(entry: Entry) -> Row:
        figures = (entry.pages, entry.lost, entry.unconfirmed)
        cells = ("keep" if entry.keep else "skip", *(f"{figure:,}" for figure in figures), _REASONS[entry.reason])
        return cells, [_url_line(entry.prefix), *([] if entry.keep else [_url_line(entry.kept_prefix, "instead: ")])]

    columns = ("", ">pages", ">without copy", ">unconfirmed", "reason")
    return _with_omitted(BlockTable(columns, map(row, entries)), omitted)


def avoid_check_table(entries: Sequence[CheckedEntry]) -> RenderableType:
    def row(entry: CheckedEntry) -> Row:
        return (f"{entry.pages:,}", f"{entry.copies:,}"), [
            _url_line(entry.prefix),
            _url_line(entry.kept_prefix, "instead: "),
        ]

    return BlockTable((">pages", ">with copy"), map(row, entries))


def groups_list(groups: Sequence[Group]) -> RenderableType:
    """List groups: the first URL, and the other URLs of the group below it."""
    lines = []
    for group in groups:
        lines.append(_url_line(group.url))
        lines += [_url_line(url, "  same collection: ") for url in group.collection]
        lines += [_url_line(url, "  copy: ") for url in group.replica]
    return RenderGroup(*lines)


def _url_line(url: str, label: str = "") -> Text:
    return layout.unbreakable(Text.assemble((label, "dim"), escape_url(url)))


def _with_omitted(table: BlockTable, omitted: int) -> RenderableType:
    return RenderGroup(table, Text(f"{omitted:,} more rows; use --json", style="dim")) if omitted else table

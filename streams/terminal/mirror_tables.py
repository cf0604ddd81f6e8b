"""The tables of `mirrors`: groups of hosts, other pairs, and changes from one sweep to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from streams.terminal import layout
from streams.terminal.escape import escape_text, pluralise, symbol
from streams.terminal.layout import BlockTable, Row

if TYPE_CHECKING:
    from streams.analyses.mirrors import Evidence, Mirror, MirrorChange

HOSTS_SHOWN = 10  # per group; --json lists all pairs
# What to print for each kind of evidence.
EVIDENCE = {
    "same_bytes": "{count} have the same bytes",
    "same_text": "{count} have the same text in other bytes",
    "similar_text": "{count} are similar",
    "related": "{count} have few words in common",
    "different": "{count} differ",
    "failed": "{count} are errors on one host, such as {url}",
    "soft_404": "{count} of these are soft 404s",
    "absent_folder": "the {count} pages of {url} are missing on the other host",
    "text_lengths": "text lengths correlate by {value:.2f}",
    "links": "resemblance of the links {value:.2f}",
}
_FIGURES = ("level", ">tests", ">same", ">similar", ">failed", ">unknown")
_LEVEL_STYLES = {"1": "bold green", "2": "green", "3": "green", "4": "yellow", "5": "yellow"}
_CHANGE_STYLES = {"appeared": "green", "converged": "green", "diverged": "yellow", "vanished": "red"}


def mirrors_table(mirrors: Sequence[Mirror], *, all_pairs: bool) -> RenderableType:
    """Show the groups of hosts, then the other mirrors. With `all_pairs`, show all compared pairs instead."""
    if all_pairs:
        return _pairs_table(mirrors)
    groups: defaultdict[str, list[Mirror]] = defaultdict(list)
    for mirror in mirrors:
        if mirror.group is not None:
            groups[mirror.group].append(mirror)
    ungrouped = [mirror for mirror in mirrors if mirror.is_mirror and mirror.group is None]
    other_count = sum(not mirror.is_mirror for mirror in mirrors)
    parts: list[RenderableType] = []
    if groups:
        parts.append(BlockTable((*_FIGURES, ">hosts", "group"), (_group_row(*group) for group in groups.items())))
    if ungrouped:
        parts += [Text(), _pairs_table(ungrouped)] if parts else [_pairs_table(ungrouped)]
    if other_count:
        pairs = f"{pluralise(other_count, 'other pair')} untested or without a match"
        parts.append(Text(f"{pairs}; --all lists all pairs", style="dim"))
    return Group(*parts)


def _pairs_table(mirrors: Iterable[Mirror]) -> BlockTable:
    def row(mirror: Mirror) -> Row:
        hosts = layout.unbreakable(Text(escape_text(f"{mirror.hosts[0]}  {mirror.hosts[1]}")))
        if mirror.alias is not None:
            hosts.append(f"  ({mirror.alias})", style="dim")
        figures = _counts((mirror,))
        return (_level(mirror.level), *figures, hosts), [Text(describe(mirror), style="dim")]

    return BlockTable((*_FIGURES, "hosts"), map(row, mirrors))


def _group_row(name: str, pairs: Sequence[Mirror]) -> Row:
    levels = sorted({mirror.level for mirror in pairs})
    level = _level(levels[0]) if len(levels) == 1 else Text(f"{levels[0]}-{levels[-1]}", style=_LEVEL_STYLES["3"])
    hosts = sorted({host for mirror in pairs for host in mirror.hosts})
    aliases = {
        host: mirror.alias for mirror in pairs if mirror.alias and name in mirror.hosts for host in mirror.hosts
    }
    others = [host for host in hosts if host != name]
    lines = [_host_line(host, aliases.get(host)) for host in others[:HOSTS_SHOWN]]
    if len(others) > HOSTS_SHOWN:
        lines.append(Text(f"and {len(others) - HOSTS_SHOWN:,} more", style="dim"))
    return (level, *_counts(pairs), f"{len(hosts):,}", layout.unbreakable(Text(escape_text(name)))), lines


def _host_line(host: str, alias: str | None) -> Text:
    line = layout.unbreakable(Text(escape_text(host)))
    return line.append(f"  alias: {alias}", style="dim") if alias else line


def _level(level: str) -> Text:
    return Text(level, style=_LEVEL_STYLES.get(level, "dim"))


def _counts(mirrors: Iterable[Mirror]) -> tuple[str, ...]:
    rows = [(mirror.tests, mirror.same, mirror.similar, mirror.failed, mirror.unknown) for mirror in mirrors]
    return tuple(f"{sum(column):,}" for column in zip(*rows, strict=True))


def describe(mirror: Mirror) -> str:
    """Return the evidence of a pair on one line."""
    parts = [_describe_evidence(evidence, mirror.tests) for evidence in mirror.evidence]
    if mirror.error_bound is not None:
        parts.append(f"at most {mirror.error_bound:.1%} of all paths differ")
    return f" {symbol('·')} ".join(parts)


def _describe_evidence(evidence: Evidence, tests: int) -> str:
    count = "all" if evidence.value == tests else f"{evidence.value:,.0f}"
    sentence = EVIDENCE.get(evidence.kind, evidence.kind)
    return sentence.format(count=count, value=evidence.value, url=escape_text(evidence.url or ""))


def mirror_changes_table(changes: Sequence[MirrorChange]) -> RenderableType:
    def row(change: MirrorChange) -> Row:
        hosts = layout.unbreakable(Text(escape_text(f"{change.hosts[0]}  {change.hosts[1]}")))
        levels = f"{change.level_before or 'none'} {symbol('→')} {change.level or 'none'}"
        return (Text(change.change, style=_CHANGE_STYLES[change.change]), levels, hosts), ()

    return BlockTable(("change", "level", "hosts"), map(row, changes))

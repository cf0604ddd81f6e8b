"""Define the results of `mirrors`, and compare the results of two sweeps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_RANK = {level: rank for rank, level in enumerate(("1", "2", "3", "4", "5", "mismatch", "untested"))}
_MIRROR_LEVELS = frozenset("12345")


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason for the level of a pair. docs/json.md lists the kinds and their values."""

    kind: str
    value: int | float
    url: str | None = None


class Mirror(msgspec.Struct, frozen=True, kw_only=True):
    """Two hosts and their level. The fields and their order are the JSON contract in docs/json.md."""

    hosts: tuple[str, str]
    level: str
    tests: int
    same: int
    similar: int
    failed: int
    unknown: int
    paths: int
    error_bound: float | None
    alias: str | None
    group: str | None
    evidence: list[Evidence]

    @property
    def is_mirror(self) -> bool:
        return self.level in _MIRROR_LEVELS


class MirrorChange(msgspec.Struct, frozen=True, kw_only=True):
    """How a pair of hosts changed from one sweep to another: it appeared, diverged, converged or vanished."""

    change: str
    hosts: tuple[str, str]
    level_before: str | None
    level: str | None


def sort_key(mirror: Mirror) -> tuple[int, tuple[str, str]]:
    """Return the key by which results are sorted: the closest mirrors first, then by name."""
    return _RANK[mirror.level], mirror.hosts


def compare(before: Iterable[Mirror], now: Iterable[Mirror]) -> list[MirrorChange]:
    """Return the pairs whose level changed, sorted by hosts.

    A pair has appeared if it is a mirror now, but was not before. A mirror that is a mismatch now has diverged. A
    mirror that is untested now, or is not among the results, has vanished.
    """
    old = {mirror.hosts: mirror.level for mirror in before if mirror.is_mirror}
    new = {mirror.hosts: mirror.level for mirror in now}
    changes = []
    for hosts in sorted(old.keys() | new.keys()):
        level_before, level = old.get(hosts), new.get(hosts)
        change = _change(level_before, level)
        if change is not None:
            changes.append(MirrorChange(change=change, hosts=hosts, level_before=level_before, level=level))
    return changes


def _change(level_before: str | None, level: str | None) -> str | None:
    if level_before is None:
        return "appeared" if level in _MIRROR_LEVELS else None
    if level is None or level == "untested":
        return "vanished"
    if level == level_before:
        return None
    return "diverged" if _RANK[level] > _RANK[level_before] else "converged"

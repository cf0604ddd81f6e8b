"""Plot changes: the share of changed pages per sweep, their resemblance, and the half-lives of the hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streams.analyses.changes.compute_changes import Change
from streams.analyses.plots import new_figure, save

LINES_MAX = 8  # only the hosts with the most pages are plotted as lines
_MEDIAN_POSITION = 4  # among the nine deciles
_NAME_CHARACTERS_MAX = 40


def plot_changes(changes: Sequence[Change], path: Path) -> None:
    """Write a PNG. Raise InputError if matplotlib is not installed, or if the file cannot be written."""
    figure = new_figure(9.6, 8.4)
    shares, resemblances, half_lives = figure.subplots(3, 1)
    sweeps = {name: position for position, name in enumerate(dict.fromkeys(change.sweep for change in changes))}
    changes_by_name = _largest(changes)
    for name, line_changes in changes_by_name.items():
        compared = [change for change in line_changes if change.pages]
        label = name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[: _NAME_CHARACTERS_MAX - 3]}..."
        x = [sweeps[change.sweep] for change in compared]
        shares.plot(x, [change.changed / change.pages for change in compared], marker="o", label=_literal(label))
        _plot_resemblances(resemblances, sweeps, compared)
    shares.set(ylabel="share of changed pages", ylim=(-0.03, 1.03))
    resemblances.set(ylabel="resemblance of changed pages\n(median, first and last decile)", ylim=(-0.03, 1.03))
    for axes in (shares, resemblances):
        axes.set_xticks(list(sweeps.values()), [_literal(name) for name in sweeps], rotation=20)
    if changes_by_name:
        shares.legend(fontsize="small")
    half_life_days = [change.half_life_days for change in changes if change.half_life_days is not None]
    if half_life_days:
        half_lives.hist(half_life_days, bins=30)
    half_lives.set(xlabel="half-life (days)", ylabel="hosts and sweeps")
    save(figure, path)


def _largest(changes: Sequence[Change]) -> Mapping[str, list[Change]]:
    """Return the changes by host, or by URL. Of the hosts, only those with the most compared pages are returned."""
    by_name: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_name[change.host or change.url or ""].append(change)
    sizes = {name: sum(change.pages for change in line_changes) for name, line_changes in by_name.items()}
    return {name: by_name[name] for name in sorted(sizes, key=lambda name: (-sizes[name], name))[:LINES_MAX]}


def _plot_resemblances(axes: Any, sweeps: Mapping[str, int], changes: Sequence[Change]) -> None:
    changed = [change for change in changes if change.resemblance]
    medians = [change.resemblance[_MEDIAN_POSITION] for change in changed]
    below = [median - change.resemblance[0] for median, change in zip(medians, changed, strict=True)]
    above = [change.resemblance[-1] - median for median, change in zip(medians, changed, strict=True)]
    axes.errorbar(
        [sweeps[change.sweep] for change in changed], medians, yerr=(below, above), marker="o", capsize=3, alpha=0.7
    )


def _literal(text: str) -> str:
    """Return text that matplotlib shows unchanged.

    Without the zero-width space, a label that starts with an underscore would be hidden. Dollar signs start formulas.
    """
    return "\u200b" + text.replace("$", r"\$")

"""Compute the analyses that `analyses.at_commit` lists, when a sweep is committed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from streams.analyses.analysis_session import Analysis, Progress
from streams.analyses.open_session import open_state
from streams.settings import Settings

# Per analysis, the module whose function `analysis` returns it, and the default method of its command.
_MODULES_AND_METHODS = {
    "changes": ("streams.analyses.changes.compute_changes", "hosts"),
    "collections": ("streams.analyses.collections.compute_collections", "regions"),
    "mirrors": ("streams.analyses.mirrors.compute_mirrors", "samples"),
    "replicas": ("streams.analyses.replicas.compute_replicas", "names"),
}


def default_analysis(name: str) -> Analysis[Any]:
    """Return the analysis that the command with this name runs without options."""
    module, method = _MODULES_AND_METHODS[name]
    analysis: Analysis[Any] = import_module(module).analysis(method)
    return analysis


def compute_at_commit(folder: Path, settings: Settings, sweep_name: str, progress: Progress) -> None:
    """Compute and store the analyses in `analyses.at_commit` for a committed sweep.

    No other process should be writing to the state.
    """
    if not settings.analyses.at_commit:
        return
    with open_state(folder, settings, sweep_name, progress) as session:
        for name in settings.analyses.at_commit:
            session.results(default_analysis(name))

"""Compute the replicated directories of the current pages with one of the methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from streams.analyses.analysis_session import Analysis, Session
from streams.analyses.replicas.find_replicas import find_replicas
from streams.analyses.replicas.replica import Replica
from streams.analyses.replicas.zhang import find_by_index_pages
from streams.analyses.sql_engine import SqlEngine
from streams.settings import AnalysisSettings

METHODS: dict[str, Callable[[SqlEngine, AnalysisSettings, Counter[str]], list[Replica]]] = {
    "names": find_replicas,
    "zhang": find_by_index_pages,
}


def compute(
    engine: SqlEngine, settings: AnalysisSettings, method: str = "names", counters: Counter[str] | None = None
) -> list[Replica]:
    """Return the replicated directories, sorted.

    Expects the tables of a data set and `pages`. `counters` receives how often each limit was reached.
    """
    return METHODS[method](engine, settings, Counter() if counters is None else counters)


def analysis(method: str) -> Analysis[Replica]:
    """Return the analysis that finds replicated directories with one of `METHODS`."""

    def compute_in(session: Session) -> list[Replica]:
        return compute(session.engine, session.settings, method, session.counters)

    return Analysis("replicas", method, Replica, compute_in)

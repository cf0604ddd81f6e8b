"""Compare the pages of each sweep of a host with the pages of the host's previous sweep.

A page is compared if both sweeps captured it with text and a success status. If it has the same document in both
sweeps, it is unchanged. Otherwise, the resemblance of the two documents says by how much it changed.

The half-life is the time after which half of the pages have changed, if changes are a Poisson process with the same
rate for all pages. The rate is estimated after Cho and Garcia-Molina, *Estimating frequency of change* (2003): if u
of n pages are unchanged after a time t, the rate is -ln((u + 0.5) / (n + 0.5)) / t, which is finite even if u is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import msgspec

from streams.analyses.analysis_session import Analysis
from streams.analyses.resemblance import create_comparisons
from streams.analyses.sql_engine import SqlEngine
from streams.urls import key_host

_MS_PER_DAY = 86_400_000
_DECILES = range(1, 10)


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much the pages of a host, or one page, changed between two sweeps."""

    host: str | None = None
    url: str | None = None  # set instead of `host` for the changes of one page
    sweep: str
    previous: str  # the sweep with which it is compared
    days: float  # the mean time between the two captures of a page
    pages: int  # in both sweeps
    unchanged: int
    changed: int
    new: int  # only in this sweep
    vanished: int  # only in the previous sweep
    resemblance: list[float]  # the nine deciles of the resemblance of changed pages; empty if no page changed
    half_life_days: float | None  # None if no page changed, or if `days` is not positive


def compute_host_changes(engine: SqlEngine, sweep_names: dict[int, str]) -> list[Change]:
    """Return the changes of each host between its consecutive sweeps, in order of host and sweep.

    `sweep_names` contains the names of the sweeps to compare, by number.
    """
    _create_changes(engine, sweep_names)
    engine.create("host_names", "SELECT host, min(name) AS name FROM hosts GROUP BY host")
    rows = engine.rows(
        "SELECT n.name, f.* FROM change_figures AS f JOIN host_names AS n ON n.host = f.host ORDER BY n.name, f.sweep"
    )
    engine.drop("change_figures", "host_names")
    return [
        msgspec.structs.replace(_change(row[2:], sweep_names), host=key_host(row[0].encode(), with_port=True))
        for row in rows
    ]


def compute_page_changes(engine: SqlEngine, sweep_names: dict[int, str], page: int, url: str) -> list[Change]:
    """Return the changes of a page, given its hash, between the consecutive sweeps of its host."""
    _create_changes(engine, sweep_names, f"page = {page}")
    rows = engine.rows("SELECT * FROM change_figures WHERE pages + new_pages + vanished > 0 ORDER BY sweep")
    engine.drop("change_figures")
    return [msgspec.structs.replace(_change(row[1:], sweep_names), url=url) for row in rows]


def _change(figures: Sequence[float], sweep_names: dict[int, str]) -> Change:
    """Return the change with these figures: the columns of `change_figures` after the host."""
    sweep, previous, pages, unchanged, ms, new, vanished, *deciles = figures
    days = (ms or 0) / _MS_PER_DAY
    return Change(
        sweep=sweep_names[int(sweep)],
        previous=sweep_names[int(previous)],
        days=round(days, 3),
        pages=int(pages),
        unchanged=int(unchanged),
        changed=int(pages - unchanged),
        new=int(new),
        vanished=int(vanished),
        resemblance=[round(float(value), 4) for value in deciles if value is not None],
        half_life_days=_half_life(int(pages), int(unchanged), days),
    )


def _half_life(pages: int, unchanged: int, days: float) -> float | None:
    if unchanged == pages or days <= 0:
        return None
    return round(log(2) * days / -log((unchanged + 0.5) / (pages + 0.5)), 3)


def _create_changes(engine: SqlEngine, sweep_names: dict[int, str], condition: str = "1 = 1") -> None:
    """Create `change_figures`: a row per host and sweep, computed from the captures that fulfil a condition."""
    sweeps = ", ".join(map(str, sorted(sweep_names)))
    engine.create(
        "visits",
        f"""
        SELECT host, sweep, lag(sweep) OVER (PARTITION BY host ORDER BY sweep) AS previous
        FROM (SELECT DISTINCT host, sweep FROM captures WHERE sweep IN ({sweeps})) AS host_sweeps
        """,
    )
    # Select the last capture of each page in each sweep.
    engine.create(
        "versions",
        f"""
        SELECT page, host, sweep, document, time FROM (
            SELECT page, host, sweep, document, time, row_number() OVER (
                PARTITION BY page, sweep ORDER BY time DESC, url_key, status
            ) AS position
            FROM captures
            WHERE sweep IN ({sweeps}) AND {condition} AND document IS NOT NULL AND status >= 200 AND status < 300
        ) AS ordered
        WHERE position = 1
        """,
    )
    engine.create(
        "compared_versions",
        """
        SELECT later.host, later.sweep, earlier.document AS a, later.document AS b, later.time - earlier.time AS ms
        FROM versions AS later
        JOIN visits ON visits.host = later.host AND visits.sweep = later.sweep
        JOIN versions AS earlier ON earlier.page = later.page AND earlier.sweep = visits.previous
        """,
    )
    engine.create("changed_pairs", "SELECT DISTINCT a, b FROM compared_versions WHERE a <> b")
    create_comparisons(engine, "changed_pairs", "changed_resemblances")
    _create_deciles(engine)
    _create_figures(engine)
    engine.drop("visits", "versions", "compared_versions", "changed_pairs", "changed_resemblances", "change_deciles")


def _create_deciles(engine: SqlEngine) -> None:
    """Create `change_deciles`: the deciles of the resemblances of changed pages, per host and sweep.

    The k-th decile is the smallest resemblance that at least k tenths of the pages do not exceed.
    """
    columns = ", ".join(
        f"max(CASE WHEN position * 10 >= n * {k} AND (position - 1) * 10 < n * {k} THEN resemblance END) AS d{k}"
        for k in _DECILES
    )
    engine.create(
        "change_deciles",
        f"""
        SELECT host, sweep, {columns} FROM (
            SELECT host, sweep, resemblance,
                   row_number() OVER (PARTITION BY host, sweep ORDER BY resemblance) AS position,
                   count(*) OVER (PARTITION BY host, sweep) AS n
            FROM compared_versions AS c JOIN changed_resemblances AS r ON r.a = c.a AND r.b = c.b
        ) AS ranked
        GROUP BY host, sweep
        """,
    )


def _create_figures(engine: SqlEngine) -> None:
    deciles = ", ".join(f"d.d{k}" for k in _DECILES)
    engine.create(
        "change_figures",
        f"""
        SELECT visits.host, visits.sweep, visits.previous, coalesce(c.pages, 0) AS pages,
               coalesce(c.unchanged, 0) AS unchanged, c.ms,
               coalesce(current_counts.pages, 0) - coalesce(c.pages, 0) AS new_pages,
               coalesce(previous_counts.pages, 0) - coalesce(c.pages, 0) AS vanished, {deciles}
        FROM visits
        LEFT JOIN (
            SELECT host, sweep, count(*) AS pages, sum(CASE WHEN a = b THEN 1 ELSE 0 END) AS unchanged, avg(ms) AS ms
            FROM compared_versions GROUP BY host, sweep
        ) AS c ON c.host = visits.host AND c.sweep = visits.sweep
        LEFT JOIN (SELECT host, sweep, count(*) AS pages FROM versions GROUP BY host, sweep) AS current_counts
            ON current_counts.host = visits.host AND current_counts.sweep = visits.sweep
        LEFT JOIN (SELECT host, sweep, count(*) AS pages FROM versions GROUP BY host, sweep) AS previous_counts
            ON previous_counts.host = visits.host AND previous_counts.sweep = visits.previous
        LEFT JOIN change_deciles AS d ON d.host = visits.host AND d.sweep = visits.sweep
        WHERE visits.previous IS NOT NULL
        """,
    )


def analysis(method: str = "hosts") -> Analysis[Change]:
    """Return the analysis of the changes of all hosts."""
    return Analysis(
        "changes", method, Change, lambda session: compute_host_changes(session.engine, session.sweep_names())
    )

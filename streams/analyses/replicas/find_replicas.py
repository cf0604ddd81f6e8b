"""Find replicated directories top-down, from pairs of directories that pages with the same name propose.

A proposed pair is reported if the two directories are replicas. If they are not, their child directories with the
same name are compared next. A pair below a reported pair is not reported.
"""

from __future__ import annotations

from collections import Counter

from streams.analyses.replicas.comparison import compare_directories
from streams.analyses.replicas.directories import TABLES, create_directories
from streams.analyses.replicas.directory_pairs import VOTES_MIN, create_candidates
from streams.analyses.replicas.replica import Replica
from streams.analyses.replicas.topmost import Pair, http_only_hosts, replicas_of
from streams.analyses.sql_engine import SqlEngine
from streams.settings import AnalysisSettings


def find_replicas(engine: SqlEngine, settings: AnalysisSettings, counters: Counter[str]) -> list[Replica]:
    """Return the replicated directories among the current pages, sorted. The table `pages` must exist.

    `counters` receives how often each limit was reached.
    """
    counters["replica_depth_max"] += create_directories(engine, settings.replica_depth_max)
    counters["replica_neighbours_max"] += create_candidates(engine, settings.replica_neighbours_max)
    pairs = _compare_own_copies(engine, settings.replica_paths_max)
    pairs += _compare_top_down(engine, settings.replica_paths_max)
    insecure_hosts = http_only_hosts(engine)
    engine.drop("candidates", "own_copies", *TABLES)
    return replicas_of(pairs, insecure_hosts)


def _compare_own_copies(engine: SqlEngine, paths_max: int) -> list[Pair]:
    """Compare directories with the directories that contain them, and create `frontier` from the remaining pairs.

    A directory's copies of itself are left out of its pages, here and in later comparisons. While these pairs are
    compared, all proposed copies are left out: `docs/` with `docs/1.0/` and `docs/2.0/` is compared without either.
    """
    engine.create(
        "own_candidates",
        """
        SELECT c.a, c.b FROM candidates AS c
        JOIN ancestors ON ancestors.directory = c.b AND ancestors.ancestor = c.a
        """,
    )
    _create_frontier(engine, "SELECT a, b FROM own_candidates")
    _create_own_copies(engine, "SELECT a, b FROM own_candidates")
    compare_directories(engine, paths_max)
    pairs = _replicas(engine)
    engine.create("next_pairs", _CHILD_PAIRS)
    _create_own_copies(engine, "SELECT a, b FROM verdicts WHERE replica = 1")
    _create_frontier(
        engine,
        """
        SELECT c.a, c.b FROM candidates AS c
        LEFT JOIN own_candidates AS own ON own.a = c.a AND own.b = c.b
        WHERE own.a IS NULL
        UNION
        SELECT a, b FROM next_pairs
        """,
    )
    engine.drop("own_candidates", "verdicts", "children", "next_pairs")
    return pairs


def _create_own_copies(engine: SqlEngine, copies: str) -> None:
    """Create `own_copies(root, directory)`: the directories that are left out of the pages of a root.

    `copies` selects pairs (a, b) in which a contains its copy b. The directories in b are left out of a and of all
    directories above a.
    """
    engine.create(
        "own_copies",
        f"""
        SELECT DISTINCT above.ancestor AS root, below.directory
        FROM ({copies}) AS copies
        JOIN ancestors AS above ON above.directory = copies.a
        JOIN ancestors AS below ON below.ancestor = copies.b
        """,
    )


def _compare_top_down(engine: SqlEngine, paths_max: int) -> list[Pair]:
    """Compare the pairs in `frontier`, then the children of pairs that are not replicas, and so on."""
    pairs: list[Pair] = []
    while engine.rows("SELECT count(*) FROM frontier")[0][0]:
        compare_directories(engine, paths_max)
        pairs += _replicas(engine)
        engine.create("next_pairs", _CHILD_PAIRS)
        _create_frontier(engine, "SELECT a, b FROM next_pairs")
        engine.drop("verdicts", "children", "next_pairs")
    engine.drop("frontier")
    return pairs


def _create_frontier(engine: SqlEngine, query: str) -> None:
    engine.create("frontier", f"SELECT row_number() OVER (ORDER BY a, b) AS pair, a, b FROM ({query}) AS pairs")


# A directory is not compared with its own child: such pairs are proposed only by pages.
_CHILD_PAIRS = f"""
    SELECT directories_a.directory AS a, directories_b.directory AS b
    FROM verdicts
    JOIN children ON children.pair = verdicts.pair
    JOIN directories AS directories_a ON directories_a.parent = verdicts.a AND directories_a.name = children.child
    JOIN directories AS directories_b ON directories_b.parent = verdicts.b AND directories_b.name = children.child
    LEFT JOIN ancestors AS a_in_b
           ON a_in_b.directory = directories_a.directory AND a_in_b.ancestor = directories_b.directory
    LEFT JOIN ancestors AS b_in_a
           ON b_in_a.directory = directories_b.directory AND b_in_a.ancestor = directories_a.directory
    WHERE verdicts.replica = 0 AND children.common >= {VOTES_MIN}
      AND a_in_b.directory IS NULL AND b_in_a.directory IS NULL
"""


def _replicas(engine: SqlEngine) -> list[Pair]:
    return engine.rows(
        """
        SELECT a.prefix, b.prefix, pages_a, pages_b, common, 1.0 * common / pages_a, 1.0 * common / pages_b
        FROM verdicts
        JOIN directories AS a ON a.directory = verdicts.a
        JOIN directories AS b ON b.directory = verdicts.b
        WHERE replica = 1
        """
    )

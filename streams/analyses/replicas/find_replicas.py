"""Find replicated directories top-down, starting from the pairs that `directory_pairs` proposes.

A proposed pair is reported if the two directories are replicas. If they are not, their child directories with the
same name are compared next. A pair below a reported pair is not reported. A copy of a directory that lies inside the
directory is called an inner copy.
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
    pairs = _compare_inner_copies(engine, settings.replica_paths_max)
    pairs += _compare_top_down(engine, settings.replica_paths_max)
    insecure_hosts = http_only_hosts(engine)
    engine.drop("candidates", "inner_copies", *TABLES)
    return replicas_of(pairs, insecure_hosts)


def _compare_inner_copies(engine: SqlEngine, paths_max: int) -> list[Pair]:
    """Compare directories with the directories that contain them, and create `frontier` from the remaining pairs.

    The pages of inner copies are left out of the pages of the directory, here and in later comparisons. While inner
    copies are compared, all candidates are left out: `docs/` is compared with `docs/1.0/` as if it contained neither
    `docs/1.0/` nor `docs/2.0/`.
    """
    engine.create(
        "inner_candidates",
        """
        SELECT c.a, c.b FROM candidates AS c
        JOIN ancestors ON ancestors.directory = c.b AND ancestors.ancestor = c.a
        """,
    )
    _create_frontier(engine, "SELECT a, b FROM inner_candidates")
    _create_inner_copies(engine, "SELECT a, b FROM inner_candidates")
    compare_directories(engine, paths_max)
    pairs = _read_replicas(engine)
    engine.create("next_pairs", _CHILD_PAIRS)
    _create_inner_copies(engine, "SELECT a, b FROM verdicts WHERE replica = 1")
    _create_frontier(
        engine,
        """
        SELECT c.a, c.b FROM candidates AS c
        LEFT JOIN inner_candidates AS own ON own.a = c.a AND own.b = c.b
        WHERE own.a IS NULL
        UNION
        SELECT a, b FROM next_pairs
        """,
    )
    engine.drop("inner_candidates", "verdicts", "children", "next_pairs")
    return pairs


def _create_inner_copies(engine: SqlEngine, copies: str) -> None:
    """Create `inner_copies(root, directory)`: the directories that are left out of the pages of a root.

    `copies` selects pairs (a, b) in which a contains its copy b. The directories in b are left out of a and of all
    directories above a.
    """
    engine.create(
        "inner_copies",
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
        pairs += _read_replicas(engine)
        engine.create("next_pairs", _CHILD_PAIRS)
        _create_frontier(engine, "SELECT a, b FROM next_pairs")
        engine.drop("verdicts", "children", "next_pairs")
    engine.drop("frontier")
    return pairs


def _create_frontier(engine: SqlEngine, query: str) -> None:
    """Create `frontier(pair, a, b)`: the pairs to compare next, with numbers."""
    engine.create("frontier", f"SELECT row_number() OVER (ORDER BY a, b) AS pair, a, b FROM ({query}) AS pairs")


# The children of a pair that are compared next. If one contains the other, they are compared only if pages propose
# it.
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


def _read_replicas(engine: SqlEngine) -> list[Pair]:
    return engine.rows(
        """
        SELECT a.prefix, b.prefix, pages_a, pages_b, common, 1.0 * common / pages_a, 1.0 * common / pages_b
        FROM verdicts
        JOIN directories AS a ON a.directory = verdicts.a
        JOIN directories AS b ON b.directory = verdicts.b
        WHERE replica = 1
        """
    )

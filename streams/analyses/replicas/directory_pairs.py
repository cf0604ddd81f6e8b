"""Propose pairs of directories that may be replicas, from pages with the same name and similar text.

Two pages of one cluster with the same name vote for a pair of directories. The common trailing segments of their URLs
are removed: `host1/a/docs/x/p.html` and `host2/b/docs/x/p.html` vote for `host1/a/` and `host2/b/`.
"""

from __future__ import annotations

import pyarrow as pa

from streams.analyses.sql_engine import SqlEngine

VOTES_MIN = 3  # different clusters that vote for a pair of directories


def create_candidates(engine: SqlEngine, neighbours_max: int) -> int:
    """Create `candidates(a, b, votes)`: pairs of directories with at least VOTES_MIN votes.

    Return how many groups of pages with the same name and cluster were larger than the limit.

    Of more than `neighbours_max` pages with the same name and cluster, each is paired only with its next
    `neighbours_max` neighbours in the order of the directories. Replicas of a tree with hundreds of copies therefore
    form a chain, and the work grows with the number of copies, not with its square.

    If one of the directories contains the other, it is `a`.
    """
    large_groups = create_directory_pairs(engine, neighbours_max)
    _create_heads(engine)
    engine.create(
        "candidates",
        f"""
        SELECT CASE WHEN inner_directories.directory IS NULL THEN heads.a ELSE heads.b END AS a,
               CASE WHEN inner_directories.directory IS NULL THEN heads.b ELSE heads.a END AS b, votes
        FROM (
            SELECT heads.head_a AS a, heads.head_b AS b, count(DISTINCT pairs.cluster) AS votes
            FROM heads JOIN directory_pairs AS pairs ON pairs.a = heads.a AND pairs.b = heads.b
            GROUP BY heads.head_a, heads.head_b
            HAVING count(DISTINCT pairs.cluster) >= {VOTES_MIN}
        ) AS heads
        LEFT JOIN ancestors AS inner_directories
               ON inner_directories.directory = heads.a AND inner_directories.ancestor = heads.b
        """,
    )
    engine.drop("directory_pairs", "heads")
    return large_groups


def create_directory_pairs(engine: SqlEngine, neighbours_max: int, pages: str = "evidence = 1") -> int:
    """Create `directory_pairs(a, b, cluster)`: a and b contain pages of the cluster with the same name; a < b.

    `pages` is a condition on the rows of `tree_pages` that are paired. Return the number of groups of more than
    `neighbours_max` + 1 pages.
    """
    engine.create(
        "namesakes",
        f"""
        SELECT p.cluster, p.name, p.directory,
               row_number() OVER (PARTITION BY p.cluster, p.name ORDER BY p.directory, p.page) AS position,
               count(*) OVER (PARTITION BY p.cluster, p.name) AS size
        FROM tree_pages AS p
        JOIN (
            SELECT cluster, name FROM tree_pages WHERE {pages} GROUP BY cluster, name HAVING count(*) > 1
        ) AS repeated ON repeated.cluster = p.cluster AND repeated.name = p.name
        WHERE p.{pages}
        """,
    )
    steps = pa.table({"step": pa.array(range(1, neighbours_max + 1), pa.int64())})
    engine.insert("steps", steps)
    engine.create(
        "directory_pairs",
        """
        SELECT DISTINCT a.directory AS a, b.directory AS b, a.cluster
        FROM (
            SELECT namesakes.cluster, namesakes.name, directory, position + step AS next_position
            FROM namesakes CROSS JOIN steps
            WHERE position + step <= size
        ) AS a
        JOIN namesakes AS b ON b.cluster = a.cluster AND b.name = a.name AND b.position = a.next_position
        WHERE b.directory <> a.directory
        """,
    )
    large_groups: int = engine.rows(f"SELECT count(*) FROM namesakes WHERE position = {neighbours_max + 2}")[0][0]
    engine.drop("namesakes", "steps")
    return large_groups


def _create_heads(engine: SqlEngine) -> None:
    """Create `heads(a, b, head_a, head_b)`: the directories without their common trailing segments."""
    engine.create("heads_0", "SELECT DISTINCT a, b, a AS head_a, b AS head_b FROM directory_pairs")
    tables = ["heads_0"]
    finished = []
    while engine.rows(f"SELECT count(*) FROM {tables[-1]}")[0][0]:
        table = f"heads_{len(tables)}"
        engine.create(
            table,
            f"""
            SELECT heads.a, heads.b, directories_a.parent AS head_a, directories_b.parent AS head_b
            {_SAME_NAMES.format(table=tables[-1])} WHERE {_CAN_MOVE_UP}
            """,
        )
        finished.append(f"SELECT heads.* {_SAME_NAMES.format(table=tables[-1])} WHERE NOT {_CAN_MOVE_UP}")
        tables.append(table)
    engine.create(
        "heads",
        f"""
        SELECT a, b, least(head_a, head_b) AS head_a, greatest(head_a, head_b) AS head_b
        FROM ({" UNION ALL ".join(finished) or "SELECT * FROM heads_0"}) AS finished
        """,
    )
    engine.drop(*tables)


_SAME_NAMES = """
    FROM {table} AS heads
    JOIN directories AS directories_a ON directories_a.directory = heads.head_a
    JOIN directories AS directories_b ON directories_b.directory = heads.head_b
"""
_CAN_MOVE_UP = """(
    directories_a.name = directories_b.name
    AND directories_a.parent IS NOT NULL AND directories_b.parent IS NOT NULL
)"""

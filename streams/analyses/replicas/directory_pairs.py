"""Propose pairs of directories that may be replicas, from pages with the same name and similar text.

Two pages of one cluster that have the same name (last path segment) vote for a pair of directories: their URLs
without the common trailing segments. `host1/a/docs/x/p.html` and `host2/b/docs/x/p.html` vote for `host1/a/` and
`host2/b/`.
"""

from __future__ import annotations

import pyarrow as pa

from streams.analyses.sql_engine import SqlEngine

VOTES_MIN = 3  # a pair of directories needs votes from at least this many clusters


def create_candidates(engine: SqlEngine, neighbours_max: int) -> int:
    """Create `candidates(a, b, votes)`: pairs of directories with at least VOTES_MIN votes.

    If one directory of a pair contains the other, `a` is the outer one.

    The pages that share a name and a cluster form a group. Each page is paired only with the next `neighbours_max`
    pages of its group, in the order of their directories. If a tree has hundreds of copies, they therefore form a
    chain, and the work grows with the number of copies, not with its square. Return the number of groups in which
    pages have more neighbours.
    """
    large_groups = create_directory_pairs(engine, neighbours_max)
    _create_trimmed_pairs(engine)
    engine.create(
        "candidates",
        f"""
        SELECT CASE WHEN inner_directories.directory IS NULL THEN counted.a ELSE counted.b END AS a,
               CASE WHEN inner_directories.directory IS NULL THEN counted.b ELSE counted.a END AS b, votes
        FROM (
            SELECT trimmed_a AS a, trimmed_b AS b, count(DISTINCT pairs.cluster) AS votes
            FROM trimmed_pairs AS trimmed JOIN directory_pairs AS pairs ON pairs.a = trimmed.a AND pairs.b = trimmed.b
            GROUP BY trimmed_a, trimmed_b
            HAVING count(DISTINCT pairs.cluster) >= {VOTES_MIN}
        ) AS counted
        LEFT JOIN ancestors AS inner_directories
               ON inner_directories.directory = counted.a AND inner_directories.ancestor = counted.b
        """,
    )
    engine.drop("directory_pairs", "trimmed_pairs")
    return large_groups


def create_directory_pairs(engine: SqlEngine, neighbours_max: int, page_condition: str = "evidence = 1") -> int:
    """Create `directory_pairs(a, b, cluster)`: directories a < b with pages of the cluster that have the same name.

    `page_condition` selects the rows of `tree_pages` to pair; it begins with a column. Return the number of groups of
    more than `neighbours_max` + 1 pages.
    """
    engine.create(
        "namesakes",
        f"""
        SELECT p.cluster, p.name, p.directory,
               row_number() OVER (PARTITION BY p.cluster, p.name ORDER BY p.directory, p.page) AS position,
               count(*) OVER (PARTITION BY p.cluster, p.name) AS size
        FROM tree_pages AS p
        JOIN (
            SELECT cluster, name FROM tree_pages WHERE {page_condition} GROUP BY cluster, name HAVING count(*) > 1
        ) AS repeated ON repeated.cluster = p.cluster AND repeated.name = p.name
        WHERE p.{page_condition}
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


def _create_trimmed_pairs(engine: SqlEngine) -> None:
    """Create `trimmed_pairs(a, b, trimmed_a, trimmed_b)`: pairs of directories without common trailing segments."""
    engine.create("trimmed_0", "SELECT DISTINCT a, b, a AS trimmed_a, b AS trimmed_b FROM directory_pairs")
    tables = ["trimmed_0"]
    finished = []
    while engine.rows(f"SELECT count(*) FROM {tables[-1]}")[0][0]:
        table = f"trimmed_{len(tables)}"
        engine.create(
            table,
            f"""
            SELECT pairs.a, pairs.b, directories_a.parent AS trimmed_a, directories_b.parent AS trimmed_b
            {_FROM_PAIRS.format(table=tables[-1])} WHERE {_CAN_MOVE_UP}
            """,
        )
        finished.append(f"SELECT pairs.* {_FROM_PAIRS.format(table=tables[-1])} WHERE NOT {_CAN_MOVE_UP}")
        tables.append(table)
    engine.create(
        "trimmed_pairs",
        f"""
        SELECT a, b, least(trimmed_a, trimmed_b) AS trimmed_a, greatest(trimmed_a, trimmed_b) AS trimmed_b
        FROM ({" UNION ALL ".join(finished) or "SELECT * FROM trimmed_0"}) AS finished
        """,
    )
    engine.drop(*tables)


_FROM_PAIRS = """
    FROM {table} AS pairs
    JOIN directories AS directories_a ON directories_a.directory = pairs.trimmed_a
    JOIN directories AS directories_b ON directories_b.directory = pairs.trimmed_b
"""
_CAN_MOVE_UP = """(
    directories_a.name = directories_b.name
    AND directories_a.parent IS NOT NULL AND directories_b.parent IS NOT NULL
)"""

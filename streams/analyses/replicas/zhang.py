"""Find replicated directories with the published method of Zhang, Jia and Li (2006), for comparison.

1. Directories with similar index pages form pairs.
2. The clusters of the pages below a directory are sampled: a sample contains the clusters whose hash is divisible by
   delta, so that the samples of both directories select the same clusters. Delta grows with the smaller directory.
3. For each pair (a, b), the share of a's sample that is in b's sample is computed, and the reverse.
4. If both containments reach CONTAINMENT_MIN, the directories are replicas. Pairs of directories below replicas
   are not reported.

The method finds neither directories without an index page nor copies that lack a fifth of the pages.
"""

from __future__ import annotations

from collections import Counter

from streams.analyses.replicas.comparison import COMMON_PATHS, create_members
from streams.analyses.replicas.directories import TABLES, create_directories
from streams.analyses.replicas.directory_pairs import create_directory_pairs
from streams.analyses.replicas.replica import Replica
from streams.analyses.replicas.topmost import Pair, http_only_hosts, replicas_of
from streams.analyses.sql_engine import SqlEngine
from streams.settings import AnalysisSettings

CONTAINMENT_MIN = 0.8
_SAMPLE_CLUSTERS_MIN = 32  # delta is the largest power of two that leaves about this many clusters
_CLUSTERS_MIN = 3  # below each of the directories, so that single pages are not reported


def find_by_index_pages(engine: SqlEngine, settings: AnalysisSettings, counters: Counter[str]) -> list[Replica]:
    """Return the replicated directories among the current pages, sorted. The table `pages` must exist.

    The containments of the results are estimates from the samples. `counters` receives how often each limit was
    reached.
    """
    counters["replica_depth_max"] += create_directories(engine, settings.replica_depth_max)
    counters["replica_neighbours_max"] += create_directory_pairs(engine, settings.replica_neighbours_max, "name = ''")
    engine.create("inner_copies", "SELECT directory AS root, directory FROM directories WHERE 1 = 0")
    engine.create(
        "frontier",
        """
        SELECT row_number() OVER (ORDER BY a, b) AS pair, a, b
        FROM (SELECT DISTINCT a, b FROM directory_pairs) AS pairs
        """,
    )
    create_members(engine)
    _create_containments(engine)
    pairs = _replicated_pairs(engine)
    insecure_hosts = http_only_hosts(engine)
    engine.drop("directory_pairs", "inner_copies", "members", "containments", "frontier", *TABLES)
    return replicas_of(pairs, insecure_hosts)


def _create_containments(engine: SqlEngine) -> None:
    """Create `containments(pair, a, b)`: the share of a's sampled clusters that are below b, and the reverse."""
    engine.create(
        "tree_clusters",
        """
        SELECT DISTINCT members.root, tree_pages.cluster
        FROM members JOIN tree_pages ON tree_pages.directory = members.directory
        """,
    )
    engine.create("cluster_counts", "SELECT root, count(*) AS clusters FROM tree_clusters GROUP BY root")
    engine.create(
        "deltas",
        f"""
        SELECT pair, frontier.a, frontier.b, CAST(power(2, floor(log2(
                   greatest(1.0, 1.0 * least(a.clusters, b.clusters) / {_SAMPLE_CLUSTERS_MIN})
               ))) AS BIGINT) AS delta
        FROM frontier
        JOIN cluster_counts AS a ON a.root = frontier.a
        JOIN cluster_counts AS b ON b.root = frontier.b
        WHERE least(a.clusters, b.clusters) >= {_CLUSTERS_MIN}
        """,
    )
    engine.create(
        "containments",
        f"""
        SELECT pair, 1.0 * sum(in_a * in_b) / sum(in_a) AS a, 1.0 * sum(in_a * in_b) / sum(in_b) AS b
        FROM (
            SELECT pair, cluster, max(in_a) AS in_a, max(in_b) AS in_b
            FROM ({_sample("a", "1 AS in_a, 0 AS in_b")} UNION ALL {_sample("b", "0 AS in_a, 1 AS in_b")}) AS samples
            GROUP BY pair, cluster
        ) AS sampled_clusters
        GROUP BY pair
        HAVING sum(in_a) > 0 AND sum(in_b) > 0
        """,
    )
    engine.drop("tree_clusters", "cluster_counts", "deltas")


def _sample(side: str, columns: str) -> str:
    return f"""
        SELECT pair, cluster, {columns}
        FROM deltas JOIN tree_clusters ON tree_clusters.root = deltas.{side}
        WHERE cluster % delta = 0
    """


def _replicated_pairs(engine: SqlEngine) -> list[Pair]:
    return engine.rows(
        f"""
        SELECT a.prefix, b.prefix, sizes_a.pages, sizes_b.pages, coalesce(common.paths, 0),
               containments.a, containments.b
        FROM containments
        JOIN frontier ON frontier.pair = containments.pair
        JOIN directories AS a ON a.directory = frontier.a
        JOIN directories AS b ON b.directory = frontier.b
        JOIN ({_SIZES}) AS sizes_a ON sizes_a.root = frontier.a
        JOIN ({_SIZES}) AS sizes_b ON sizes_b.root = frontier.b
        LEFT JOIN (SELECT pair, count(*) AS paths FROM ({COMMON_PATHS}) AS paths GROUP BY pair) AS common
               ON common.pair = frontier.pair
        WHERE containments.a >= {CONTAINMENT_MIN} AND containments.b >= {CONTAINMENT_MIN}
        """
    )


_SIZES = "SELECT root, sum(pages) AS pages FROM members GROUP BY root"

"""The two rules of Cho, Shivakumar and Garcia-Molina (2000): trivial clusters grow to similar clusters along links.

A trivial cluster consists of single pages that are similar. For trivial clusters Ri and Rj, s is the number of pages
of Ri that link to Rj, and d is the number of pages of Rj to which they link. Two clusters are merged if |Ri| = s = d
= |Rj|. The extended rule, which allows partial copies, merges them if |Ri| >= s = d = |Rj|.
"""

from __future__ import annotations

from streams.analyses.components import create_components
from streams.analyses.sql_engine import SqlEngine

MERGE_CONDITIONS = {
    "paper": "si.pages = l.s AND l.s = l.d AND l.d = sj.pages",
    "extended": "si.pages >= l.s AND l.s = l.d AND l.d = sj.pages",
}


def create_similar_clusters(engine: SqlEngine, rule: str) -> None:
    """Create `members` as `create_regions` does, and `similar_clusters` (class, cardinality, size).

    `cardinality` is the number of collections in a similar cluster, and `size` the number of pages per collection. By
    the extended rule, `cardinality` is the number of pages of the largest trivial cluster.
    """
    engine.create(
        "cluster_sizes",
        """
        SELECT coalesce(cluster, document) AS cluster, count(*) AS pages
        FROM pages WHERE document IS NOT NULL GROUP BY coalesce(cluster, document) HAVING count(*) >= 2
        """,
    )
    engine.create(
        "nodes",
        """
        SELECT p.page, p.link_list, s.cluster
        FROM pages AS p JOIN cluster_sizes AS s ON s.cluster = coalesce(p.cluster, p.document)
        """,
    )
    engine.create(
        "page_links",
        """
        SELECT DISTINCT l.source, l.target, a.cluster AS source_cluster, b.cluster AS target_cluster
        FROM links AS l
        JOIN nodes AS a ON a.page = l.source AND a.link_list = l.link_list
        JOIN nodes AS b ON b.page = l.target
        WHERE a.cluster <> b.cluster
        """,
    )
    engine.create(
        "merged_pairs",
        f"""
        SELECT l.a, l.b FROM (
            SELECT source_cluster AS a, target_cluster AS b, count(DISTINCT source) AS s, count(DISTINCT target) AS d
            FROM page_links GROUP BY source_cluster, target_cluster
        ) AS l
        JOIN cluster_sizes AS si ON si.cluster = l.a
        JOIN cluster_sizes AS sj ON sj.cluster = l.b
        WHERE {MERGE_CONDITIONS[rule]}
        """,
    )
    create_components(engine, "merged_pairs", "trivial_clusters")
    engine.create(
        "similar_clusters",
        """
        SELECT t.component AS class, max(s.pages) AS cardinality, count(*) AS size
        FROM trivial_clusters AS t JOIN cluster_sizes AS s ON s.cluster = t.node
        GROUP BY t.component
        """,
    )
    engine.drop("trivial_clusters")
    _create_members(engine)
    engine.drop("cluster_sizes", "nodes", "page_links", "merged_pairs")


def _create_members(engine: SqlEngine) -> None:
    """Create `members`: the pages that links between merged clusters connect."""
    engine.create(
        "merged_links",
        """
        SELECT l.source AS a, l.target AS b
        FROM page_links AS l JOIN merged_pairs AS m ON m.a = l.source_cluster AND m.b = l.target_cluster
        """,
    )
    create_components(engine, "merged_links", "connected_pages")
    engine.create(
        "members",
        """
        SELECT c.node AS page, n.cluster, c.component AS collection
        FROM connected_pages AS c JOIN nodes AS n ON n.page = c.node
        """,
    )
    engine.drop("merged_links", "connected_pages")

"""Find replicated regions: pages that are linked in the same way on several hosts, or in several places of one host.

A link is straight if the directory of one of its pages contains the other page. A link between two manuals, or
between two versions of a manual, is therefore not straight. Two clusters belong together if straight links connect at
least half of the pages of the smaller cluster with different pages of the other cluster.
"""

from __future__ import annotations

from streams.analyses.components import create_components
from streams.analyses.sql_engine import SqlEngine

MERGED_SHARE = 0.5  # of the pages of the smaller cluster
MERGED_MIN = 2
FILLER_SHARE, FILLER_MIN = 0.1, 4  # a document on so many pages of a host is an error page or a placeholder


def create_regions(engine: SqlEngine) -> None:
    """Create `members` (page, cluster, collection): the pages that merged links connect on one host."""
    _create_nodes(engine)
    _create_nearest_links(engine)
    engine.create(
        "merged_pairs",
        f"""
        SELECT counts.a, counts.b FROM (
            SELECT source_cluster AS a, target_cluster AS b, count(*) AS sources, count(DISTINCT target) AS targets
            FROM nearest_links GROUP BY source_cluster, target_cluster
        ) AS counts
        JOIN cluster_sizes AS sa ON sa.cluster = counts.a
        JOIN cluster_sizes AS sb ON sb.cluster = counts.b
        WHERE least(sources, targets) >= {MERGED_MIN}
          AND least(sources, targets) >= {MERGED_SHARE} * least(sa.pages, sb.pages)
        """,
    )
    engine.create(
        "merged_links",
        """
        SELECT l.source AS a, l.target AS b
        FROM nearest_links AS l JOIN merged_pairs AS m ON m.a = l.source_cluster AND m.b = l.target_cluster
        """,
    )
    create_components(engine, "merged_links", "regions")
    engine.create(
        "members",
        """
        SELECT r.node AS page, n.cluster, r.component AS collection
        FROM regions AS r JOIN nodes AS n ON n.page = r.node
        """,
    )
    engine.drop("nodes", "cluster_sizes", "nearest_links", "merged_pairs", "merged_links", "regions")


def _create_nodes(engine: SqlEngine) -> None:
    """Create `nodes`: the pages that have a similar page elsewhere. A directory is identified by one of its pages."""
    engine.create(
        "fillers",
        f"""
        SELECT documents.host, documents.document FROM (
            SELECT host, document, count(*) AS pages FROM pages WHERE document IS NOT NULL GROUP BY host, document
        ) AS documents
        JOIN (SELECT host, count(*) AS pages FROM pages WHERE document IS NOT NULL GROUP BY host) AS hosts
          ON hosts.host = documents.host
        WHERE documents.pages >= {FILLER_MIN} AND documents.pages > {FILLER_SHARE} * hosts.pages
        """,
    )
    engine.create(
        "clustered_pages",
        """
        SELECT p.page, p.host, p.url_key, p.link_list, coalesce(p.cluster, p.document) AS cluster
        FROM pages AS p LEFT JOIN fillers AS f ON f.host = p.host AND f.document = p.document
        WHERE p.document IS NOT NULL AND f.document IS NULL
        """,
    )
    engine.create(
        "cluster_sizes",
        "SELECT cluster, count(*) AS pages FROM clustered_pages GROUP BY cluster HAVING count(*) >= 2",
    )
    engine.create(
        "located_pages",
        """
        SELECT p.page, p.host, p.link_list, p.cluster, regexp_extract(p.url_key, '^[^?]*/', 0) AS directory
        FROM clustered_pages AS p JOIN cluster_sizes AS s ON s.cluster = p.cluster
        """,
    )
    engine.create(
        "directories",
        """
        SELECT directory, min(page) AS id, length(directory) - length(replace(directory, '/', '')) AS depth
        FROM located_pages GROUP BY directory
        """,
    )
    engine.create(
        "nodes",
        """
        SELECT p.page, p.host, p.link_list, p.cluster, d.id AS directory
        FROM located_pages AS p JOIN directories AS d ON d.directory = p.directory
        """,
    )
    engine.drop("fillers", "clustered_pages", "located_pages")


def _create_nearest_links(engine: SqlEngine) -> None:
    """Create `nearest_links`: the straight links, with one target per source and cluster of the target."""
    engine.create(
        "node_links",
        """
        SELECT l.source, l.target, a.cluster AS source_cluster, b.cluster AS target_cluster,
               a.directory AS source_directory, b.directory AS target_directory
        FROM links AS l
        JOIN nodes AS a ON a.page = l.source AND a.link_list = l.link_list AND a.host = l.target_host
        JOIN nodes AS b ON b.page = l.target
        WHERE a.cluster <> b.cluster
        """,
    )
    # There are far fewer pairs of directories than links, so their names are compared per pair.
    engine.create(
        "straight_directories",
        """
        SELECT pairs.a, pairs.b, abs(da.depth - db.depth) AS distance
        FROM (SELECT DISTINCT source_directory AS a, target_directory AS b FROM node_links) AS pairs
        JOIN directories AS da ON da.id = pairs.a
        JOIN directories AS db ON db.id = pairs.b
        WHERE substring(da.directory, 1, length(db.directory)) = db.directory
           OR substring(db.directory, 1, length(da.directory)) = da.directory
        """,
    )
    engine.create(
        "nearest_links",
        """
        SELECT source, target, source_cluster, target_cluster FROM (
            SELECT l.source, l.target, l.source_cluster, l.target_cluster,
                   row_number() OVER (
                       PARTITION BY l.source, l.target_cluster ORDER BY s.distance, l.target
                   ) AS position
            FROM node_links AS l
            JOIN straight_directories AS s ON s.a = l.source_directory AND s.b = l.target_directory
        ) AS ordered
        WHERE position = 1
        """,
    )
    engine.drop("directories", "node_links", "straight_directories")

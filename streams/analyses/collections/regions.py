"""Find replicated regions: pages that are linked in the same way on several hosts, or in several places of one host.

A link is straight if the directory of one of its pages contains the other page. A link between two manuals, or
between two versions of a manual, is therefore not straight. Two clusters belong together if straight links connect at
least half of the pages of the smaller cluster with different pages of the other cluster.

A region that consists of a few similar pages of a large manual is not a collection: most of its links lead to the
rest of the manual. At least half of the straight links of a collection's pages must lead to pages of the collection.
"""

from __future__ import annotations

from streams.analyses.components import create_components
from streams.analyses.sql_engine import SqlEngine

LINKED_SHARE_MIN = 0.5  # two clusters are merged if links connect at least this share of the smaller one's pages
LINKED_PAGES_MIN = 2
# A document on so many pages of a host is an error page or a placeholder.
FILLER_SHARE_MIN, FILLER_PAGES_MIN = 0.1, 4
INSIDE_SHARE_MIN = 0.5  # share of a collection's straight links that must lead to its own pages


def create_regions(engine: SqlEngine, clusters_min: int) -> None:
    """Create `members` (page, cluster, collection): the pages that merged links connect on one host.

    Regions with fewer than `clusters_min` distinct clusters are left out. Also create `node_links` (source, target,
    target_cluster, ...), the links from replicated pages to pages of their host.
    """
    _create_nodes(engine)
    _create_straight_links(engine)
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
        WHERE least(sources, targets) >= {LINKED_PAGES_MIN}
          AND least(sources, targets) >= {LINKED_SHARE_MIN} * least(sa.pages, sb.pages)
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
    _create_members(engine, clusters_min)
    engine.drop(
        "nodes", "cluster_sizes", "straight_links", "nearest_links", "merged_pairs", "merged_links", "regions"
    )


def _create_members(engine: SqlEngine, clusters_min: int) -> None:
    engine.create(
        "region_pages",
        f"""
        SELECT r.node AS page, n.cluster, r.component AS collection
        FROM regions AS r
        JOIN nodes AS n ON n.page = r.node
        JOIN (
            SELECT regions.component
            FROM regions JOIN nodes ON nodes.page = regions.node
            GROUP BY regions.component HAVING count(DISTINCT nodes.cluster) >= {clusters_min}
        ) AS large ON large.component = r.component
        """,
    )
    # Ignore links in menus, and links to other regions, such as other versions of a manual.
    engine.create(
        "members",
        f"""
        SELECT p.page, p.cluster, p.collection
        FROM region_pages AS p
        JOIN (
            SELECT s.collection
            FROM straight_links AS l
            JOIN region_pages AS s ON s.page = l.source
            LEFT JOIN region_pages AS t ON t.page = l.target
            WHERE NOT l.navigation AND (t.collection IS NULL OR t.collection = s.collection)
            GROUP BY s.collection HAVING count(t.collection) >= {INSIDE_SHARE_MIN} * count(*)
        ) AS closed ON closed.collection = p.collection
        """,
    )
    engine.drop("region_pages")


def _create_nodes(engine: SqlEngine) -> None:
    """Create `nodes`: the pages with text. A directory is identified by the hash of one of its pages.

    Also create `cluster_sizes`: the clusters with several pages, and `directories`.
    """
    engine.create(
        "fillers",
        f"""
        SELECT document_counts.host, document_counts.document FROM (
            SELECT host, document, count(*) AS pages FROM pages WHERE document IS NOT NULL GROUP BY host, document
        ) AS document_counts
        JOIN (SELECT host, count(*) AS pages FROM pages WHERE document IS NOT NULL GROUP BY host) AS host_sizes
          ON host_sizes.host = document_counts.host
        WHERE document_counts.pages >= {FILLER_PAGES_MIN}
          AND document_counts.pages > {FILLER_SHARE_MIN} * host_sizes.pages
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
        SELECT page, host, link_list, cluster, regexp_extract(url_key, '^[^?]*/', 0) AS directory FROM clustered_pages
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
        SELECT p.page, p.host, p.link_list, p.cluster, d.id AS directory, s.cluster IS NOT NULL AS is_replicated
        FROM located_pages AS p
        JOIN directories AS d ON d.directory = p.directory
        LEFT JOIN cluster_sizes AS s ON s.cluster = p.cluster
        """,
    )
    engine.drop("fillers", "clustered_pages", "located_pages")


def _create_straight_links(engine: SqlEngine) -> None:
    engine.create(
        "node_links",
        """
        SELECT l.source, l.target, l.navigation, a.cluster AS source_cluster, b.cluster AS target_cluster,
               a.directory AS source_directory, b.directory AS target_directory, b.is_replicated
        FROM links AS l
        JOIN nodes AS a ON a.page = l.source AND a.link_list = l.link_list AND a.host = l.target_host
        JOIN nodes AS b ON b.page = l.target
        WHERE a.is_replicated AND a.cluster <> b.cluster
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
        "straight_links",
        """
        SELECT l.source, l.target, l.navigation, l.source_cluster, l.target_cluster, l.is_replicated, s.distance
        FROM node_links AS l
        JOIN straight_directories AS s ON s.a = l.source_directory AND s.b = l.target_directory
        """,
    )
    engine.drop("directories", "straight_directories")


def _create_nearest_links(engine: SqlEngine) -> None:
    """Create `nearest_links`: straight links between replicated pages, one per source and target cluster."""
    engine.create(
        "nearest_links",
        """
        SELECT source, target, source_cluster, target_cluster FROM (
            SELECT source, target, source_cluster, target_cluster,
                   row_number() OVER (PARTITION BY source, target_cluster ORDER BY distance, target) AS position
            FROM straight_links WHERE is_replicated
        ) AS ordered
        WHERE position = 1
        """,
    )

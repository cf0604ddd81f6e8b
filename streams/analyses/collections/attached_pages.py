"""Attach pages to replicated regions: pages to which a region links, and which other copies of the region contain.

Merged links do not connect all pages of a collection. They leave out listings of source files, because the links to
them are not straight, and lists of uses, because many of these are similar. Such a page belongs to the collection
that links to it if the page is below the collection's root, and if another collection of the class contains or
attaches a page of the same cluster.
"""

from __future__ import annotations

from streams.analyses.sql_engine import SqlEngine


def attach_pages(engine: SqlEngine) -> None:
    """Add attached pages to `collection_members`. Needs `collections`, `collection_roots` and `node_links`."""
    _create_candidate_pages(engine)
    engine.create(
        "shared_clusters",
        """
        SELECT occurrences.class, occurrences.cluster FROM (
            SELECT c.class, m.cluster, m.collection
            FROM collection_members AS m JOIN collections AS c ON c.collection = m.collection
            UNION SELECT class, cluster, collection FROM candidate_pages
        ) AS occurrences
        GROUP BY occurrences.class, occurrences.cluster HAVING count(*) >= 2
        """,
    )
    engine.create(
        "all_members",
        """
        SELECT page, cluster, collection FROM collection_members
        UNION ALL
        SELECT p.page, p.cluster, min(p.collection) AS collection
        FROM candidate_pages AS p JOIN shared_clusters AS s ON s.class = p.class AND s.cluster = p.cluster
        GROUP BY p.page, p.cluster
        """,
    )
    engine.create("collection_members", "SELECT page, cluster, collection FROM all_members")
    engine.create(
        "all_collections",
        """
        SELECT c.collection, c.class, m.pages, m.clusters
        FROM collections AS c
        JOIN (
            SELECT collection, count(*) AS pages, count(DISTINCT cluster) AS clusters
            FROM collection_members GROUP BY collection
        ) AS m ON m.collection = c.collection
        """,
    )
    engine.create("collections", "SELECT collection, class, pages, clusters FROM all_collections")
    engine.drop("candidate_pages", "shared_clusters", "all_members", "all_collections")


def _create_candidate_pages(engine: SqlEngine) -> None:
    """Create `candidate_pages`: the pages below the root of a collection that links to them."""
    engine.create(
        "linked_pages",
        """
        SELECT DISTINCT m.collection, l.target AS page, l.target_cluster AS cluster
        FROM node_links AS l
        JOIN collection_members AS m ON m.page = l.source
        LEFT JOIN collection_members AS t ON t.page = l.target
        WHERE l.is_replicated AND t.page IS NULL
        """,
    )
    # Compare only with the longest root that contains the page, because the page may belong to a copy inside a copy.
    engine.create(
        "candidate_pages",
        """
        SELECT collection, class, page, cluster FROM (
            SELECT l.collection, c.class, l.page, l.cluster, r.collection = l.collection AS is_own,
                   row_number() OVER (
                       PARTITION BY l.collection, l.page ORDER BY length(r.root) DESC,
                       CASE WHEN r.collection = l.collection THEN 0 ELSE 1 END, r.collection
                   ) AS position
            FROM (
                SELECT linked_pages.*, pages.host, pages.url_key
                FROM linked_pages JOIN pages ON pages.page = linked_pages.page
            ) AS l
            JOIN collections AS c ON c.collection = l.collection
            JOIN collection_roots AS r ON r.host = l.host AND substring(l.url_key, 1, length(r.root)) = r.root
        ) AS ordered
        WHERE position = 1 AND is_own
        """,
    )
    engine.drop("linked_pages")

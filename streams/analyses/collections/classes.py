"""Group collections with similar pages into classes, and select the replicated collections."""

from __future__ import annotations

from streams.analyses.components import create_components
from streams.analyses.sql_engine import SqlEngine

SHARED_CLUSTERS_MIN = 0.4  # share of the smaller collection's clusters that two similar collections have in common
NEIGHBOURS_MAX = 20  # a collection is compared with this many of the next collections that contain a common cluster


def create_collections(engine: SqlEngine, clusters_min: int) -> None:
    """Create `collections` (collection, class, pages, clusters) from `members`, and `collection_members`.

    A collection consists of at least `clusters_min` distinct clusters. A class consists of at least two collections,
    because a single collection is not replicated.
    """
    _create_large_collections(engine, clusters_min)
    engine.create(
        "collection_clusters",
        """
        SELECT DISTINCT m.collection, m.cluster
        FROM members AS m JOIN large_collections AS c ON c.collection = m.collection
        """,
    )
    _create_similar_collections(engine)
    create_components(engine, "similar_collections", "classes")
    engine.create(
        "collections",
        """
        SELECT large.collection, classes.component AS class, large.pages, large.clusters
        FROM large_collections AS large JOIN classes ON classes.node = large.collection
        """,
    )
    _create_collection_members(engine)
    engine.drop("large_collections", "collection_clusters", "similar_collections", "classes")


def _create_large_collections(engine: SqlEngine, clusters_min: int) -> None:
    engine.create(
        "large_collections",
        f"""
        SELECT collection, count(*) AS pages, count(DISTINCT cluster) AS clusters
        FROM members GROUP BY collection HAVING count(DISTINCT cluster) >= {clusters_min}
        """,
    )


def _create_collection_members(engine: SqlEngine) -> None:
    """Create `collection_members`: the members of the selected collections. Drop `members`."""
    engine.create(
        "collection_members",
        """
        SELECT m.page, m.cluster, m.collection
        FROM members AS m JOIN collections AS c ON c.collection = m.collection
        """,
    )
    engine.drop("members")


def _create_similar_collections(engine: SqlEngine) -> None:
    """Create `similar_collections` (a, b), with a < b.

    If hundreds of collections contain a cluster, each is compared only with the next NEIGHBOURS_MAX collections in
    the order of their ids, which is the same for all clusters. More distant collections join the class through these.
    """
    engine.create(
        "positions",
        """
        SELECT cluster, collection, row_number() OVER (PARTITION BY cluster ORDER BY collection) AS position
        FROM collection_clusters
        """,
    )
    engine.create(
        "proposed_collections",
        f"""
        SELECT DISTINCT a.collection AS a, b.collection AS b
        FROM positions AS a JOIN positions AS b ON b.cluster = a.cluster
        WHERE b.position > a.position AND b.position <= a.position + {NEIGHBOURS_MAX}
        """,
    )
    engine.create(
        "similar_collections",
        f"""
        SELECT shared.a, shared.b FROM (
            SELECT p.a, p.b, count(*) AS clusters
            FROM proposed_collections AS p
            JOIN collection_clusters AS ca ON ca.collection = p.a
            JOIN collection_clusters AS cb ON cb.collection = p.b AND cb.cluster = ca.cluster
            GROUP BY p.a, p.b
        ) AS shared
        JOIN large_collections AS la ON la.collection = shared.a
        JOIN large_collections AS lb ON lb.collection = shared.b
        WHERE shared.clusters >= {SHARED_CLUSTERS_MIN} * least(la.clusters, lb.clusters)
        """,
    )
    engine.drop("positions", "proposed_collections")

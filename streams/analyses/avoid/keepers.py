"""Choose the collections of each class that are kept on the crawl list, and the copies that they replace."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import pyarrow as pa

from streams.analyses.sql_engine import SqlEngine

COVERED_SHARE_MIN = 0.6  # of a copy's clusters, which the collection that replaces it must contain
KEPT_PER_CLASS_MAX = 8  # collections; copies that they do not cover are crawled completely


class Root(NamedTuple):
    """A collection and the URL prefix of its pages, as a key."""

    collection: int
    class_id: int
    key: str
    https: bool
    representative: bool
    clusters: int


def read_roots(engine: SqlEngine) -> dict[int, Root]:
    """Return the roots of all collections, by collection."""
    query = """
        SELECT r.collection, c.class, r.root, r.https, f.collection IS NOT NULL, c.clusters
        FROM collection_roots AS r
        JOIN collections AS c ON c.collection = r.collection
        LEFT JOIN representatives AS f ON f.collection = r.collection
    """
    return {root.collection: root for root in (Root(*row) for row in engine.rows(query))}


def choose_keepers(engine: SqlEngine, roots: dict[int, Root]) -> dict[int, int]:
    """Return, for each collection that can be skipped, the collection that is kept instead.

    The representative of a class is kept. While these collections cover too small a part of other collections, the
    largest of the other collections is kept too.
    """
    engine.create("skippable_clusters", "SELECT DISTINCT collection, cluster FROM collection_members")
    keepers = {root.collection for root in roots.values() if root.representative}
    added, best_keepers = keepers, dict[int, tuple[float, int]]()
    for _ in range(KEPT_PER_CLASS_MAX):
        for collection, keeper, shared in _shared_clusters(engine, added, roots):
            coverage = shared / roots[collection].clusters
            if coverage > best_keepers.get(collection, (0.0, 0))[0]:
                best_keepers[collection] = (coverage, keeper)
        added = _largest_uncovered(roots, keepers, best_keepers)
        if not added:
            break
        keepers = keepers | added
    engine.drop("skippable_clusters")
    return {
        collection: keeper
        for collection, (coverage, keeper) in best_keepers.items()
        if collection not in keepers and coverage >= COVERED_SHARE_MIN
    }


def _shared_clusters(engine: SqlEngine, keepers: set[int], roots: dict[int, Root]) -> list[tuple[int, int, int]]:
    """Return rows (collection, keeper, shared clusters) for the other collections in the classes of these keepers."""
    columns = {"class": [roots[keeper].class_id for keeper in sorted(keepers)], "keeper": sorted(keepers)}
    engine.insert("keepers", pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
    rows: list[tuple[int, int, int]] = engine.rows(
        """
        SELECT c.collection, k.keeper, count(*)
        FROM keepers AS k
        JOIN collections AS c ON c.class = k.class AND c.collection <> k.keeper
        JOIN skippable_clusters AS a ON a.collection = c.collection
        JOIN skippable_clusters AS b ON b.collection = k.keeper AND b.cluster = a.cluster
        GROUP BY c.collection, k.keeper
        ORDER BY c.collection, k.keeper
        """
    )
    engine.drop("keepers")
    return rows


def _largest_uncovered(
    roots: dict[int, Root], keepers: set[int], best_keepers: dict[int, tuple[float, int]]
) -> set[int]:
    """Return, for each class, the largest collection that the keepers do not cover."""
    uncovered: defaultdict[int, list[Root]] = defaultdict(list)
    for root in roots.values():
        if root.collection not in keepers and best_keepers.get(root.collection, (0.0, 0))[0] < COVERED_SHARE_MIN:
            uncovered[root.class_id].append(root)
    return {
        min(candidates, key=lambda root: (-root.clusters, root.key, root.collection)).collection
        for candidates in uncovered.values()
    }

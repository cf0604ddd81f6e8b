"""Choose the collections of each class that are kept on the crawl list, and the copies that they replace."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import pyarrow as pa

from streams.analyses.sql_engine import SqlEngine

COVERED_SHARE_MIN = 0.6  # share of a copy's clusters that the collection that replaces the copy must contain
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
        SELECT roots.collection, collections.class, roots.root, roots.https,
               representatives.collection IS NOT NULL, collections.clusters
        FROM collection_roots AS roots
        JOIN collections ON collections.collection = roots.collection
        LEFT JOIN representatives ON representatives.collection = roots.collection
    """
    return {root.collection: root for root in (Root(*row) for row in engine.rows(query))}


def choose_keepers(engine: SqlEngine, roots: dict[int, Root]) -> dict[int, int]:
    """Return, for each collection that can be skipped, the collection that is kept instead.

    The representative of a class is kept. While the keepers leave other collections of the class uncovered,
    the largest uncovered collection is kept too.
    """
    engine.create("distinct_members", "SELECT DISTINCT collection, cluster FROM collection_members")
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
    engine.drop("distinct_members")
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
        SELECT copies.collection, keepers.keeper, count(*)
        FROM keepers
        JOIN collections AS copies ON copies.class = keepers.class AND copies.collection <> keepers.keeper
        JOIN distinct_members AS copied ON copied.collection = copies.collection
        JOIN distinct_members AS kept ON kept.collection = keepers.keeper AND kept.cluster = copied.cluster
        GROUP BY copies.collection, keepers.keeper
        ORDER BY copies.collection, keepers.keeper
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

"""Stage I: propose pairs of hosts that share features of their samples.

A feature is a path together with the cluster of its document, or a path alone. A pair of hosts is proposed if it
shares one feature with a cluster, or three paths.
"""

from __future__ import annotations

from streams.analyses.sql_engine import SqlEngine

SHARED_PATHS_MIN = 3
CHAIN_NEIGHBOURS = 2  # following hosts with which a host is paired if too many hosts share a feature


def create_pairs(engine: SqlEngine, sample: str, table: str, feature_hosts_max: int) -> int:
    """Create `table` with the proposed pairs (a, b), a < b, from the table `sample` (host, path, cluster).

    Any sample is suitable in which a path of two hosts is likely to occur for both hosts. Return the number of
    features that more than `feature_hosts_max` hosts share.
    """
    engine.create(
        "mirror_features",
        f"""
        SELECT host, path, cluster, 1 AS has_cluster FROM {sample} WHERE cluster IS NOT NULL
        UNION ALL
        SELECT host, path, CAST(0 AS BIGINT) AS cluster, 0 AS has_cluster FROM {sample}
        """,
    )
    columns = "path, cluster, has_cluster"
    chained = create_shared_features(engine, "mirror_features", columns, "mirror_shared", feature_hosts_max)
    engine.create(
        table,
        f"""
        SELECT a, b FROM mirror_shared GROUP BY a, b
        HAVING sum(has_cluster) >= 1 OR sum(1 - has_cluster) >= {SHARED_PATHS_MIN}
        """,
    )
    engine.drop("mirror_features", "mirror_shared")
    return chained


def create_shared_features(engine: SqlEngine, features: str, columns: str, table: str, hosts_max: int) -> int:
    """Create `table` with a row (a, b, COLUMNS) for each feature that the hosts a < b share.

    A feature of more than `hosts_max` hosts would yield too many pairs, but a mirror with many copies has no other
    features. The hosts of such a feature are therefore chained: each is paired with the next CHAIN_NEIGHBOURS hosts
    in the order of their hashes. Because all features use the same order, few pairs connect the copies of a mirror.
    Return the number of features whose hosts were chained.
    """
    names = columns.split(", ")
    equal = " AND ".join(f"x.{name} = y.{name}" for name in names)
    selected = ", ".join(f"x.{name}" for name in names)
    engine.create(
        "feature_hosts",
        f"""
        SELECT host, {columns}, row_number() OVER (PARTITION BY {columns} ORDER BY host) AS position,
               count(*) OVER (PARTITION BY {columns}) AS host_count
        FROM {features}
        """,
    )
    chains = [
        f"""
        UNION ALL
        SELECT x.host AS a, y.host AS b, {selected}
        FROM (SELECT * FROM feature_hosts WHERE host_count > {hosts_max}) AS x
        JOIN feature_hosts AS y ON {equal} AND y.position = x.position + {distance}
        """
        for distance in range(1, CHAIN_NEIGHBOURS + 1)
    ]
    engine.create(
        table,
        f"""
        SELECT x.host AS a, y.host AS b, {selected}
        FROM (SELECT * FROM feature_hosts WHERE host_count BETWEEN 2 AND {hosts_max}) AS x
        JOIN (SELECT * FROM feature_hosts WHERE host_count BETWEEN 2 AND {hosts_max}) AS y
            ON {equal} AND x.position < y.position
        """
        + "".join(chains),
    )
    chained: int = engine.rows(f"SELECT count(*) FROM feature_hosts WHERE position = {hosts_max} + 1")[0][0]
    engine.drop("feature_hosts")
    return chained

"""Find the connected components of a graph with SQL, by minimum label with pointer jumping."""

from __future__ import annotations

from streams.analyses.sql_engine import SqlEngine


def create_components(engine: SqlEngine, edges: str, table: str) -> None:
    """Create `table` (node, component) from the table `edges` (a, b).

    The component of a node is the smallest node that is connected with it. Nodes without edges to other nodes are
    included if they occur in `edges`. In each round, every component joins its smallest neighbour, and chains of
    such joins are followed to their end, so the number of rounds grows with the logarithm of the number of nodes.
    """
    labels, links = f"{table}_labels", f"{table}_links"
    engine.create(
        f"{labels}_0",
        f"""
        SELECT node, node AS component
        FROM (SELECT a AS node FROM {edges} UNION SELECT b AS node FROM {edges}) AS edge_nodes
        """,
    )
    engine.create(
        f"{links}_0",
        f"SELECT a, b FROM {edges} WHERE a <> b UNION SELECT b AS a, a AS b FROM {edges} WHERE a <> b",
    )
    step = 0
    while engine.rows(f"SELECT count(*) FROM {links}_{step}")[0][0]:
        parents = _create_parents(engine, f"{links}_{step}", f"{table}_parents")
        engine.create(
            f"{labels}_{step + 1}",
            f"""
            SELECT l.node, coalesce(p.parent, l.component) AS component
            FROM {labels}_{step} AS l LEFT JOIN {parents} AS p ON p.component = l.component
            """,
        )
        engine.create(
            f"{links}_{step + 1}",
            f"""
            SELECT DISTINCT pa.parent AS a, pb.parent AS b
            FROM {links}_{step} AS l
            JOIN {parents} AS pa ON pa.component = l.a JOIN {parents} AS pb ON pb.component = l.b
            WHERE pa.parent <> pb.parent
            """,
        )
        engine.drop(parents, f"{labels}_{step}", f"{links}_{step}")
        step += 1
    engine.create(table, f"SELECT node, component FROM {labels}_{step}")
    engine.drop(f"{labels}_{step}", f"{links}_{step}")


def _create_parents(engine: SqlEngine, links: str, prefix: str) -> str:
    """Create a table (component, parent) with the end of each component's chain of joins. Return the table's name."""
    step = 0
    engine.create(f"{prefix}_0", f"SELECT a AS component, least(a, min(b)) AS parent FROM {links} GROUP BY a")
    while True:
        table, next_table = f"{prefix}_{step}", f"{prefix}_{step + 1}"
        engine.create(
            next_table,
            f"""
            SELECT a.component, b.parent, CASE WHEN a.parent <> b.parent THEN 1 ELSE 0 END AS is_changed
            FROM {table} AS a JOIN {table} AS b ON b.component = a.parent
            """,
        )
        engine.drop(table)
        if not engine.rows(f"SELECT count(*) FROM {next_table} WHERE is_changed = 1")[0][0]:
            return next_table
        step += 1

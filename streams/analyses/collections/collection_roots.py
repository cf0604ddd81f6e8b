"""Find the root of each collection: the longest URL prefix that ends with a slash and is shared by all its pages."""

from __future__ import annotations

import pyarrow as pa

from state.codecs.url_key import host_prefix
from streams.analyses.sql_engine import SqlEngine
from streams.export.hashes import host_hash


def create_roots(engine: SqlEngine) -> None:
    """Create `collection_roots` (collection, host, root, https) from `collection_members`. A root is a URL key."""
    rows = engine.rows(
        """
        SELECT m.collection, min(p.url_key), max(p.url_key), max(CASE WHEN p.https THEN 1 ELSE 0 END)
        FROM collection_members AS m JOIN pages AS p ON p.page = m.page
        GROUP BY m.collection
        """
    )
    roots = [common_directory(first.encode(), last.encode()) for _, first, last, _ in rows]
    columns = {
        "collection": pa.array([row[0] for row in rows], pa.int64()),
        "host": pa.array([host_hash(root) for root in roots], pa.int64()),
        "root": pa.array([root.decode() for root in roots], pa.string()),
        "https": pa.array([bool(row[3]) for row in rows], pa.bool_()),
    }
    engine.insert("collection_roots", pa.table(columns))


def common_directory(first: bytes, last: bytes) -> bytes:
    """Return the deepest directory that contains every URL key from `first` to `last` in byte order.

    Both keys are on the same host.
    """
    length = next(
        (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    path = first[:length].partition(b"?")[0]
    return path[: path.rfind(b"/") + 1] or host_prefix(first)

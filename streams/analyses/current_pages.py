"""Create the table `pages`: the pages as of a sweep, alive or broken, with one row per page.

Of the sweeps up to the analysed sweep, the newest that visited a host determines the current pages of this host. A
page that only older sweeps captured is missing: the newest sweep visited its host without meeting the page.
"""

from __future__ import annotations

from collections.abc import Collection

from streams.analyses.sql_engine import SqlEngine

COLUMNS = "page, path, host, url_key, https, status, fingerprint, link_list, redirect, document, cluster, tokens"


def create_pages(engine: SqlEngine, sweep: int, open_sweeps: Collection[int] = ()) -> None:
    """Create `pages` with the columns in `COLUMNS`, from the captures of the committed sweeps up to `sweep`.

    `document`, `cluster` and `tokens` are null for a page without text, such as a redirect or an error.
    """
    sweep_condition = f"sweep <= {sweep}"
    if open_sweeps:
        sweep_condition += f" AND sweep NOT IN ({', '.join(map(str, open_sweeps))})"
    engine.create(
        "host_sweeps", f"SELECT host, max(sweep) AS sweep FROM captures WHERE {sweep_condition} GROUP BY host"
    )
    # Select each page's last capture with a document, if there is one, so that a temporary error does not hide the
    # page.
    engine.create(
        "newest_captures",
        """
        SELECT * FROM (
            SELECT captures.*, row_number() OVER (
                PARTITION BY captures.page
                ORDER BY CASE WHEN document IS NULL THEN 1 ELSE 0 END, time DESC, url_key, status
            ) AS position
            FROM captures JOIN host_sweeps ON captures.host = host_sweeps.host AND captures.sweep = host_sweeps.sweep
        ) AS ordered
        WHERE position = 1
        """,
    )
    engine.create(
        "pages",
        """
        SELECT c.page, c.path, c.host, c.url_key, c.https, c.status, c.fingerprint, c.link_list, c.redirect,
               c.document, clusters.cluster, documents.tokens
        FROM newest_captures AS c
        LEFT JOIN clusters ON clusters.document = c.document
        LEFT JOIN documents ON documents.document = c.document
        """,
    )
    engine.drop("host_sweeps", "newest_captures")

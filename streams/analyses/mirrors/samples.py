"""Sample the pages of each host by choosing the smallest path hashes.

Two hosts that have the same paths have nearly the same sample, because a path has the same hash on both. The sample
does not depend on the order or the partition of the pages. The samples of two partitions can be merged by keeping the
smallest hashes. Bharat and Broder (1999) sample the paths whose hash is divisible by m, and double m for larger
hosts.
"""

from __future__ import annotations

from streams.analyses.sql_engine import SqlEngine

FILLER_PAGES_MIN = 4
FILLER_DIVISOR = 10  # a document at a tenth of a host's pages is a filler


def create_host_pages(engine: SqlEngine) -> None:
    """Create `mirror_pages`, the pages with a document, and `mirror_hosts`, the number of pages that are not fillers.

    `filler` is true for documents at a tenth of a host's pages, such as soft 404s and the pages of parked hosts.
    Equal fillers at equal paths say nothing about the hosts.
    """
    engine.create(
        "mirror_fillers",
        f"""
        SELECT counted.host, counted.document
        FROM (SELECT host, document, count(*) AS pages FROM pages WHERE document IS NOT NULL GROUP BY host, document)
            AS counted
        JOIN (SELECT host, count(*) AS pages FROM pages WHERE document IS NOT NULL GROUP BY host) AS host_sizes
            ON host_sizes.host = counted.host
        WHERE counted.pages >= {FILLER_PAGES_MIN} AND counted.pages * {FILLER_DIVISOR} >= host_sizes.pages
        """,
    )
    engine.create(
        "mirror_pages",
        """
        SELECT pages.host, pages.path, pages.page, pages.url_key, pages.document, pages.fingerprint, pages.tokens,
               pages.link_list, coalesce(pages.cluster, pages.document) AS cluster,
               mirror_fillers.document IS NOT NULL AS filler
        FROM pages
        LEFT JOIN mirror_fillers ON mirror_fillers.host = pages.host AND mirror_fillers.document = pages.document
        WHERE pages.document IS NOT NULL
        """,
    )
    engine.create(
        "mirror_hosts",
        "SELECT host, count(*) AS pages FROM mirror_pages WHERE NOT filler GROUP BY host",
    )
    engine.drop("mirror_fillers")


def create_samples(engine: SqlEngine, table: str, sample_pages: int) -> None:
    """Create `table` (host, path, cluster, url_key): a sample of the pages of each host that are not fillers.

    The sample of a host with N pages has `sample_pages` · (1 + log2 max(1, N / 100)) pages.
    """
    engine.create(
        table,
        f"""
        SELECT host, path, cluster, url_key FROM (
            SELECT p.host, p.path, p.cluster, p.url_key, h.pages,
                   row_number() OVER (PARTITION BY p.host ORDER BY p.path) AS position
            FROM mirror_pages AS p JOIN mirror_hosts AS h ON h.host = p.host
            WHERE NOT p.filler
        ) AS ordered
        WHERE position <= {sample_pages} * (1 + log2(greatest(CAST(1 AS DOUBLE), pages / CAST(100 AS DOUBLE))))
        """,
    )

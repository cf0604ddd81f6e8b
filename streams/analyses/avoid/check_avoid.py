"""Check an avoid-list with a later sweep: do the pages that were crawled below its prefixes have copies?"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from streams.analyses.avoid.avoid_list import Entry
from streams.analyses.sql_engine import SqlEngine
from streams.export.hashes import host_hash
from streams.urls import url_key


class CheckedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that makes a crawler skip pages, and the pages below its prefix in a later sweep."""

    prefix: str
    kept_prefix: str = msgspec.field(name="instead")
    pages: int  # crawled pages below the prefix, such as the sample
    copies: int  # of `pages`: pages with a copy that is not skipped
    holds: bool | None  # null if no page below the prefix was crawled


def check_avoid(engine: SqlEngine, entries: Iterable[Entry], *, copied_share_min: float) -> list[CheckedEntry]:
    """Return the checked entries that make a crawler skip pages, sorted by prefix.

    An entry holds if at least the share `copied_share_min` of the crawled pages below its prefix has a copy that is
    not skipped. The table `pages` must contain the pages as of the later sweep.
    """
    decisions = sorted((entry for entry in entries if entry.reason != "sample"), key=lambda entry: entry.prefix)
    keys = [url_key(entry.prefix) for entry in decisions]
    columns = {
        "entry": pa.array(range(len(decisions)), pa.int64()),
        "host": pa.array([host_hash(key) for key in keys], pa.int64()),
        "prefix": pa.array([key.decode() for key in keys], pa.string()),
        "keep": pa.array([entry.keep for entry in decisions], pa.bool_()),
    }
    engine.insert("avoid_entries", pa.table(columns))
    engine.create(
        "skipped_pages",
        """
        SELECT page, entry, cluster FROM (
            SELECT p.page, e.entry, e.keep, coalesce(p.cluster, p.document) AS cluster,
                   row_number() OVER (PARTITION BY p.page ORDER BY length(e.prefix) DESC, e.entry) AS position
            FROM pages AS p
            JOIN avoid_entries AS e ON e.host = p.host AND substring(p.url_key, 1, length(e.prefix)) = e.prefix
            WHERE p.document IS NOT NULL
        ) AS ordered
        WHERE position = 1 AND NOT keep
        """,
    )
    counts = engine.rows(
        """
        SELECT skipped_pages.entry, count(*), count(crawled.cluster)
        FROM skipped_pages
        LEFT JOIN (
            SELECT DISTINCT coalesce(pages.cluster, pages.document) AS cluster
            FROM pages LEFT JOIN skipped_pages AS skipped ON skipped.page = pages.page
            WHERE pages.document IS NOT NULL AND skipped.page IS NULL
        ) AS crawled ON crawled.cluster = skipped_pages.cluster
        GROUP BY skipped_pages.entry
        """
    )
    engine.drop("avoid_entries", "skipped_pages")
    by_entry = {entry: (pages, copies) for entry, pages, copies in counts}
    checked = []
    for number, entry in enumerate(decisions):
        pages, copies = by_entry.get(number, (0, 0))
        holds = copies >= copied_share_min * pages if pages else None
        if not entry.keep:
            checked.append(
                CheckedEntry(
                    prefix=entry.prefix, kept_prefix=entry.kept_prefix, pages=pages, copies=copies, holds=holds
                )
            )
    return checked

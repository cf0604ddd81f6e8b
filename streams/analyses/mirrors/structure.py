"""Stage II, the structure: folders that one host lacks, and links that the pages of both hosts have.

A path that was not captured need not be missing. But if the crawl of one host found most pages of the other host's
other folders, and none of the many pages of one folder, then this folder is absent.
"""

from __future__ import annotations

from streams.analyses.sql_engine import SqlEngine

ABSENCE_PROBABILITY_MAX = 0.001  # the probability that the crawl of a complete mirror misses the whole folder
FOLDER_DEPTH_MAX = 8  # levels below the host at which folders are considered
_PATH = "substring(p.url_key, instr(p.url_key, ')') + 1)"


def create_absent_folders(engine: SqlEngine, pairs: str) -> None:
    """Create `mirror_absent` (a, b, host, folder, pages): the largest folder of `host` that the other host lacks.

    Let q be the share of the pages of `host` that were captured on the other host too, over the folders with such a
    page. One such page per folder is not counted, because it selected the folder. The probability that all n pages of
    a folder are missing by chance is (1 - q)^n.
    """
    engine.create(
        "mirror_sides",
        f"""
        SELECT sides.a, sides.b, p.host, p.path,
               regexp_extract({_PATH}, '^[^?]*/', 0) AS parent, {_PATH} AS path_text,
               CASE WHEN other_pages.path IS NULL THEN 0 ELSE 1 END AS captured
        FROM (SELECT a, b, a AS host, b AS other FROM {pairs} UNION ALL SELECT a, b, b, a FROM {pairs}) AS sides
        JOIN mirror_pages AS p ON p.host = sides.host
        LEFT JOIN pages AS other_pages ON other_pages.host = sides.other AND other_pages.path = p.path
        WHERE NOT p.filler
        """,
    )
    engine.create(
        "mirror_shares",
        """
        SELECT a, b, host, CAST(sum(captured - 1) AS DOUBLE) / (sum(pages - 1) + 1) AS share
        FROM (
            SELECT a, b, host, parent, sum(captured) AS captured, count(*) AS pages
            FROM mirror_sides GROUP BY a, b, host, parent
        ) AS parents
        WHERE captured >= 1 GROUP BY a, b, host
        """,
    )
    depths = " UNION ALL ".join(
        f"SELECT a, b, host, captured, regexp_extract(path_text, '^([^/?]*/){{{depth}}}', 0) AS folder"
        " FROM mirror_sides"
        for depth in range(2, FOLDER_DEPTH_MAX + 2)
    )
    engine.create(
        "mirror_folders",
        f"""
        SELECT a, b, host, folder, count(*) AS pages FROM ({depths}) AS folders
        WHERE folder <> '' GROUP BY a, b, host, folder HAVING sum(captured) = 0
        """,
    )
    engine.create(
        "mirror_absent",
        f"""
        SELECT a, b, host, folder, pages FROM (
            SELECT f.a, f.b, f.host, f.folder, f.pages,
                   row_number() OVER (PARTITION BY f.a, f.b ORDER BY f.pages DESC, f.folder, f.host) AS position
            FROM mirror_folders AS f JOIN mirror_shares AS s ON s.a = f.a AND s.b = f.b AND s.host = f.host
            WHERE power(1 - s.share, f.pages) < {ABSENCE_PROBABILITY_MAX}
        ) AS ordered
        WHERE position = 1
        """,
    )
    engine.drop("mirror_sides", "mirror_shares", "mirror_folders")


def create_link_agreement(engine: SqlEngine, pairs: str) -> None:
    """Create `mirror_links` (a, b, resemblance, links) for the pairs whose pages link to paths that both hosts have.

    A link is a pair of paths. `resemblance` compares the sets of links of the two hosts, and `links` is the size of
    the smaller set. Targets to which more than half of the pages link are left out, because links in navigation say
    nothing about the content.
    """
    engine.create(
        "mirror_common",
        f"""
        SELECT t.a, t.b, t.path, t.page_a, t.page_b, t.link_list_a, t.link_list_b,
               count(*) OVER (PARTITION BY t.a, t.b) AS pages
        FROM {pairs} AS p JOIN mirror_tests AS t ON t.a = p.a AND t.b = p.b
        WHERE t.is_page_a + t.is_page_b = 2
        """,
    )
    sides = " UNION ALL ".join(
        f"""
        SELECT DISTINCT source.a, source.b, {side} AS side, source.path AS source, target.path AS target, source.pages
        FROM mirror_common AS source
        JOIN links ON links.source = source.page_{label} AND links.link_list = source.link_list_{label}
        JOIN mirror_common AS target
            ON target.a = source.a AND target.b = source.b AND target.page_{label} = links.target
        """
        for side, label in enumerate("ab")
    )
    engine.create(
        "mirror_linked",
        f"""
        SELECT a, b, source, target, side FROM (
            SELECT linked.*, count(*) OVER (PARTITION BY a, b, side, target) AS sources FROM ({sides}) AS linked
        ) AS counted
        WHERE sources * 2 <= pages
        """,
    )
    engine.create(
        "mirror_links",
        """
        SELECT a, b, CAST(sum(CASE WHEN sides = 2 THEN 1 ELSE 0 END) AS DOUBLE) / count(*) AS resemblance,
               least(sum(CASE WHEN sides = 2 OR side = 0 THEN 1 ELSE 0 END),
                     sum(CASE WHEN sides = 2 OR side = 1 THEN 1 ELSE 0 END)) AS links
        FROM (SELECT a, b, source, target, count(*) AS sides, min(side) AS side
              FROM mirror_linked GROUP BY a, b, source, target) AS merged
        GROUP BY a, b
        """,
    )
    engine.drop("mirror_common", "mirror_linked")

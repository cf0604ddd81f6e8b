"""Stage II, the tests: compare the pages of two hosts at the paths that both have.

A path is tested if both hosts have a page there, or if one has a page and the other an error: a stored 404 or 410, or
a filler (`samples.py`), which is taken for a soft 404. A path that was not captured on one host is unknown, not
failed.
"""

from __future__ import annotations

from streams.analyses.resemblance import create_comparisons
from streams.analyses.sql_engine import SqlEngine

SIMILAR_MIN = 0.5  # the "high" resemblance of Bharat and Broder (1999)
RELATED_MIN = 0.03  # their "trace"; not 0, because estimates for unrelated pages may exceed 0

_ANSWER_COLUMNS = ("is_page", "document", "page", "link_list", "fingerprint", "tokens", "url_key")
COUNTS = (
    "tests, paths, same_bytes, same_text, similar_text, related, different, failed_a, failed_b, soft_404s, "
    "example_a, example_b, length_correlation, answered_a, answered_b, pages_a, pages_b"
)


def create_path_tests(engine: SqlEngine, pairs: str, tests_max: int) -> None:
    """Create `mirror_tests`: a row per tested path of each pair.

    Of each pair, the `tests_max` paths with the smallest hashes are tested. `outcome` is "same_bytes",
    "same_text", "similar_text", "related", "different", "failed_a" or "failed_b". `create_counts` defines `paths`,
    `answered_a` and `answered_b`.
    """
    _create_answers(engine, pairs)
    sides = ", ".join(
        f"{side}.{name} AS {name}_{label}" for side, label in (("x", "a"), ("y", "b")) for name in _ANSWER_COLUMNS
    )
    engine.create(
        "mirror_answered",
        f"""
        SELECT * FROM (
            SELECT x.a, x.b, x.path, {sides},
                   row_number() OVER (PARTITION BY x.a, x.b ORDER BY x.path) AS position,
                   count(*) OVER (PARTITION BY x.a, x.b) AS paths,
                   sum(x.is_page) OVER (PARTITION BY x.a, x.b) AS answered_a,
                   sum(y.is_page) OVER (PARTITION BY x.a, x.b) AS answered_b
            FROM (SELECT p.a, p.b, r.* FROM {pairs} AS p JOIN mirror_answers AS r ON r.host = p.a) AS x
            JOIN (SELECT p.a, p.b, r.* FROM {pairs} AS p JOIN mirror_answers AS r ON r.host = p.b) AS y
                ON x.a = y.a AND x.b = y.b AND x.path = y.path
            WHERE x.is_page + y.is_page >= 1
        ) AS ordered
        WHERE position <= {tests_max}
        """,
    )
    engine.create(
        "mirror_document_pairs",
        """
        SELECT DISTINCT least(document_a, document_b) AS a, greatest(document_a, document_b) AS b
        FROM mirror_answered
        WHERE is_page_a + is_page_b = 2 AND document_a <> document_b
        """,
    )
    create_comparisons(engine, "mirror_document_pairs", "mirror_compared")
    engine.create(
        "mirror_tests",
        f"""
        SELECT t.*,
               CASE WHEN is_page_a = 0 THEN 'failed_a'
                    WHEN is_page_b = 0 THEN 'failed_b'
                    WHEN fingerprint_a = fingerprint_b THEN 'same_bytes'
                    WHEN document_a = document_b THEN 'same_text'
                    WHEN c.resemblance >= {SIMILAR_MIN} THEN 'similar_text'
                    WHEN c.resemblance > {RELATED_MIN} THEN 'related'
                    ELSE 'different' END AS outcome
        FROM mirror_answered AS t
        LEFT JOIN mirror_compared AS c
            ON c.a = least(t.document_a, t.document_b) AND c.b = greatest(t.document_a, t.document_b)
        """,
    )
    engine.drop("mirror_answers", "mirror_answered", "mirror_document_pairs", "mirror_compared")


def _create_answers(engine: SqlEngine, pairs: str) -> None:
    """Create `mirror_answers`: the pages and lasting errors of all paired hosts."""
    hosts = f"(SELECT a AS host FROM {pairs} UNION SELECT b AS host FROM {pairs}) AS paired"
    columns = "p.host, p.path, p.page, p.url_key, p.document, p.fingerprint, p.tokens, p.link_list"
    engine.create(
        "mirror_answers",
        f"""
        SELECT {columns}, CASE WHEN p.filler THEN 0 ELSE 1 END AS is_page
        FROM mirror_pages AS p JOIN {hosts} ON paired.host = p.host
        UNION ALL
        SELECT {columns}, 0 AS is_page
        FROM pages AS p JOIN {hosts} ON paired.host = p.host
        WHERE p.document IS NULL AND p.status IN (404, 410)
        """,
    )


def create_counts(engine: SqlEngine, pairs: str) -> None:
    """Create `mirror_counts`: a row (a, b, COUNTS) for each pair, including pairs without a tested path.

    `failed_a` counts paths at which host a has an error, `answered_a` the pages of a at paths that b answered, and
    `pages_a` all pages of a. `paths` and `answered_a` include the paths beyond `tests_max`.
    """
    outcomes = ("same_bytes", "same_text", "similar_text", "related", "different", "failed_a", "failed_b")
    counted = ", ".join(f"sum(CASE WHEN outcome = '{name}' THEN 1 ELSE 0 END) AS {name}" for name in outcomes)
    # Only lengths of different texts are correlated: equal texts have equal lengths, and a few of them that are very
    # long or short would feign a correlation.
    differs = "outcome IN ('related', 'different')"
    engine.create(
        "mirror_outcomes",
        f"""
        SELECT a, b, count(*) AS tests, max(paths) AS paths, {counted},
               sum(CASE WHEN document_a IS NOT NULL AND document_b IS NOT NULL AND is_page_a + is_page_b = 1
                        THEN 1 ELSE 0 END) AS soft_404s,
               min(CASE WHEN outcome = 'failed_a' THEN url_key_a END) AS example_a,
               min(CASE WHEN outcome = 'failed_b' THEN url_key_b END) AS example_b,
               corr(CASE WHEN {differs} THEN ln(1 + tokens_a) END, CASE WHEN {differs} THEN ln(1 + tokens_b) END)
                   AS length_correlation,
               max(answered_a) AS answered_a, max(answered_b) AS answered_b
        FROM mirror_tests GROUP BY a, b
        """,
    )
    columns = ", ".join(
        name if name.startswith(("pages_", "example_", "length_")) else f"coalesce({name}, 0) AS {name}"
        for name in COUNTS.split(", ")
    )
    engine.create(
        "mirror_counts",
        f"""
        SELECT p.a, p.b, {columns} FROM (
            SELECT pairs.a, pairs.b, coalesce(x.pages, 0) AS pages_a, coalesce(y.pages, 0) AS pages_b
            FROM {pairs} AS pairs
            LEFT JOIN mirror_hosts AS x ON x.host = pairs.a
            LEFT JOIN mirror_hosts AS y ON y.host = pairs.b
        ) AS p
        LEFT JOIN mirror_outcomes AS o ON o.a = p.a AND o.b = p.b
        """,
    )
    engine.drop("mirror_outcomes")

"""Decide whether pairs of directories are replicas, by comparing documents at the same paths below them.

The pages directly in each subdirectory form a group. A subdirectory with a single page belongs to the group of its
parent. Up to `paths_max` paths per subdirectory that occur below both directories are compared. A group is

    good      if at least GOOD_MIN of its compared documents resemble each other
    unknown   if no document could be compared, or if a crawl may have missed all its paths by chance, given how many
              paths of other groups are missing
    bad       otherwise

Two directories are replicas if all of these hold:

- AGREEMENT_MIN of the compared documents resemble each other, weighted by the number of common paths.
- Good groups contain COVERAGE_MIN of the pages of each directory. The pages of unknown groups are not counted.
- COMMON_MIN of the pages of each directory resemble the page at the same path. For copies, whose documents are nearly
  the same, COPIES_COMMON_MIN is enough, because pages may be missing from the crawl.
- Pages of at least EVIDENCE_CLUSTERS_MIN clusters resemble each other.
"""

from __future__ import annotations

from streams.analyses.replicas.directories import up_to_last_slash
from streams.analyses.resemblance import create_comparisons
from streams.analyses.sql_engine import SqlEngine

RESEMBLANCE_MIN = 0.5
GOOD_MIN = 0.5
AGREEMENT_MIN = 0.8
COVERAGE_MIN = 0.8
COMMON_MIN = 0.75
COPIES_COMMON_MIN = 0.3  # if a crawl misses half of each copy at random, half of the crawled pages are common
MARGIN_PAGES = 1  # number by which copies may miss COPIES_COMMON_MIN: small directories vary by chance
COPIES_RESEMBLANCE_MIN = 0.9
COPIES_SHARE_MIN = 0.8  # of the compared documents of copies, which must have COPIES_RESEMBLANCE_MIN
MISSING_PROBABILITY_MIN = 0.01  # a group that is missing with this probability may be missing by chance
EVIDENCE_CLUSTERS_MIN = 3

# The paths with a page below both directories of a pair. A path is left out if one of its pages has a text that
# is repeated on its host, such as a soft 404, and the other page is in a different cluster.
COMMON_PATHS = """
    SELECT m.pair, m.relative, pages_a.page, pages_a.cluster, pages_a.document AS a, pages_b.document AS b,
           pages_a.evidence * pages_b.evidence AS evidence
    FROM (
        SELECT frontier.pair, members_a.relative, members_a.directory AS a, members_b.directory AS b
        FROM frontier
        JOIN members AS members_a ON members_a.root = frontier.a
        JOIN members AS members_b ON members_b.root = frontier.b AND members_b.relative = members_a.relative
    ) AS m
    JOIN tree_pages AS pages_a ON pages_a.directory = m.a
    JOIN tree_pages AS pages_b ON pages_b.directory = m.b AND pages_b.name = pages_a.name
    WHERE pages_a.cluster = pages_b.cluster OR pages_a.evidence * pages_b.evidence = 1
"""


def compare_directories(engine: SqlEngine, paths_max: int) -> None:
    """Create `verdicts` and `children` for the pairs of directories in the table `frontier(pair, a, b)`.

    verdicts(pair, a, b, pages_a, pages_b, common, replica): `replica` is 1 or 0.
    children(pair, child, common): the names of the child directories of a and b with common paths.
    """
    create_members(engine)
    _create_samples(engine, paths_max)
    _create_agreements(engine)
    _create_groups(engine)
    _create_verdicts(engine)
    engine.drop("members", "samples", "agreements", "subdirectories", "groups")


def create_members(engine: SqlEngine) -> None:
    """Create `members(root, directory, relative, pages)`: the directories with pages below the frontier.

    `relative` is the path from the root to the directory, which is empty for the root itself. Directories in the
    inner copies of a root are left out.
    """
    engine.create(
        "members",
        """
        SELECT roots.root, members.directory, members.pages,
               substring(members.prefix, length(root_directories.prefix) + 1) AS relative
        FROM (SELECT a AS root FROM frontier UNION SELECT b AS root FROM frontier) AS roots
        JOIN directories AS root_directories ON root_directories.directory = roots.root
        JOIN ancestors ON ancestors.ancestor = roots.root
        JOIN directories AS members ON members.directory = ancestors.directory
        LEFT JOIN inner_copies ON inner_copies.root = roots.root AND inner_copies.directory = members.directory
        WHERE inner_copies.root IS NULL AND members.pages > 0
        """,
    )


def _create_samples(engine: SqlEngine, paths_max: int) -> None:
    """Create `samples`: up to `paths_max` common paths per pair and subdirectory, with both documents."""
    engine.create(
        "samples",
        f"""
        SELECT pair, relative, common, evidence, cluster, a, b
        FROM (
            SELECT pair, relative, evidence, cluster, a, b,
                   row_number() OVER (PARTITION BY pair, relative ORDER BY evidence DESC, page) AS position,
                   count(*) OVER (PARTITION BY pair, relative) AS common
            FROM (
                {COMMON_PATHS}
            ) AS common_paths
        ) AS ordered
        WHERE position <= {paths_max}
        """,
    )


def _create_agreements(engine: SqlEngine) -> None:
    """Create `agreements`: per pair and subdirectory, how many documents resemble each other."""
    engine.create("document_pairs", "SELECT DISTINCT a, b FROM samples WHERE evidence = 1 AND a <> b")
    create_comparisons(engine, "document_pairs", "compared_documents")
    engine.create(
        "compared_samples",
        f"""
        SELECT samples.pair, samples.relative, samples.common, samples.evidence, samples.cluster,
               CASE WHEN samples.evidence = 0 THEN 0
                    WHEN samples.a = samples.b OR compared.resemblance >= {RESEMBLANCE_MIN} THEN 1
                    ELSE 0 END AS agrees,
               CASE WHEN samples.evidence = 0 THEN 0
                    WHEN samples.a = samples.b OR compared.resemblance >= {COPIES_RESEMBLANCE_MIN} THEN 1
                    ELSE 0 END AS is_copy
        FROM samples
        LEFT JOIN compared_documents AS compared ON compared.a = samples.a AND compared.b = samples.b
        """,
    )
    engine.create(
        "agreements",
        """
        SELECT pair, relative, max(common) AS common, sum(evidence) AS compared, sum(agrees) AS agreed,
               sum(is_copy) AS copies
        FROM compared_samples GROUP BY pair, relative
        """,
    )
    engine.create(
        "pair_evidence",
        "SELECT pair, count(DISTINCT cluster) AS clusters FROM compared_samples WHERE agrees = 1 GROUP BY pair",
    )
    engine.drop("document_pairs", "compared_documents", "compared_samples")


def _create_groups(engine: SqlEngine) -> None:
    """Create `groups` with the pages and agreements of each group, and `children`."""
    engine.create(
        "subdirectories",
        """
        SELECT pair, relative, max(pages_a) AS pages_a, max(pages_b) AS pages_b, max(common) AS common,
               max(compared) AS compared, max(agreed) AS agreed, max(copies) AS copies
        FROM (
            SELECT pair, relative, pages AS pages_a, 0 AS pages_b,
                   0 AS common, 0 AS compared, 0 AS agreed, 0 AS copies
            FROM frontier JOIN members ON members.root = frontier.a
            UNION ALL
            SELECT pair, relative, 0 AS pages_a, pages AS pages_b,
                   0 AS common, 0 AS compared, 0 AS agreed, 0 AS copies
            FROM frontier JOIN members ON members.root = frontier.b
            UNION ALL
            SELECT pair, relative, 0 AS pages_a, 0 AS pages_b, common, compared, agreed, copies FROM agreements
        ) AS figures
        GROUP BY pair, relative
        """,
    )
    engine.create(
        "groups",
        f"""
        SELECT pair, sum(pages_a) AS pages_a, sum(pages_b) AS pages_b, sum(common) AS common,
               sum(compared) AS compared, sum(agreed) AS agreed, sum(copies) AS copies
        FROM (
            SELECT *, CASE WHEN relative <> '' AND greatest(pages_a, pages_b) <= 1
                           THEN {up_to_last_slash("substring(relative, 1, length(relative) - 1)")}
                           ELSE relative END AS group_name
            FROM subdirectories
        ) AS named
        GROUP BY pair, group_name
        """,
    )
    engine.create(
        "children",
        """
        SELECT pair, substring(relative, 1, instr(relative, '/')) AS child, sum(common) AS common
        FROM subdirectories GROUP BY pair, substring(relative, 1, instr(relative, '/'))
        """,
    )


def _create_verdicts(engine: SqlEngine) -> None:
    engine.create(
        "present_shares",
        """
        SELECT pair, 1.0 * sum(common) / sum(pages_a) AS share_a, 1.0 * sum(common) / sum(pages_b) AS share_b
        FROM groups WHERE common > 0 GROUP BY pair
        """,
    )
    engine.create(
        "judged_groups",
        f"""
        SELECT g.*,
               CASE WHEN g.compared > 0 THEN CASE WHEN g.agreed >= {GOOD_MIN} * g.compared THEN 'good' ELSE 'bad' END
                    WHEN g.common > 0 THEN 'unknown'
                    WHEN power(1 - s.share_a, g.pages_a) >= {MISSING_PROBABILITY_MIN}
                     AND power(1 - s.share_b, g.pages_b) >= {MISSING_PROBABILITY_MIN} THEN 'unknown'
                    ELSE 'bad' END AS verdict
        FROM groups AS g JOIN present_shares AS s ON s.pair = g.pair
        """,
    )
    engine.create(
        "verdicts",
        f"""
        SELECT f.pair, f.a, f.b, v.pages_a, v.pages_b, v.common,
               CASE WHEN v.agreed >= {AGREEMENT_MIN} * v.weight AND v.weight > 0
                     AND v.good_a >= {COVERAGE_MIN} * v.known_a AND v.good_b >= {COVERAGE_MIN} * v.known_b
                     AND v.agreed >= CASE WHEN v.copies >= {COPIES_SHARE_MIN} * v.weight
                                          THEN {COPIES_COMMON_MIN} * greatest(v.pages_a, v.pages_b) - {MARGIN_PAGES}
                                          ELSE {COMMON_MIN} * greatest(v.pages_a, v.pages_b) END
                     AND e.clusters >= {EVIDENCE_CLUSTERS_MIN}
                    THEN 1 ELSE 0 END AS replica
        FROM (
            SELECT pair, sum(pages_a) AS pages_a, sum(pages_b) AS pages_b, sum(common) AS common,
                   sum(CASE WHEN compared > 0 THEN 1.0 * common * agreed / compared ELSE 0 END) AS agreed,
                   sum(CASE WHEN compared > 0 THEN 1.0 * common * copies / compared ELSE 0 END) AS copies,
                   sum(CASE WHEN compared > 0 THEN common ELSE 0 END) AS weight,
                   sum(CASE WHEN verdict = 'good' THEN pages_a ELSE 0 END) AS good_a,
                   sum(CASE WHEN verdict = 'good' THEN pages_b ELSE 0 END) AS good_b,
                   sum(CASE WHEN verdict <> 'unknown' THEN pages_a ELSE 0 END) AS known_a,
                   sum(CASE WHEN verdict <> 'unknown' THEN pages_b ELSE 0 END) AS known_b
            FROM judged_groups GROUP BY pair
        ) AS v
        JOIN frontier AS f ON f.pair = v.pair
        JOIN pair_evidence AS e ON e.pair = v.pair
        """,
    )
    engine.drop("present_shares", "judged_groups", "pair_evidence")

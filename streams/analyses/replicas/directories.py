"""Create the tables of directories that contain pages, directly or in subdirectories.

A directory is identified by its position among all directories, sorted by their reversed URL keys. Directories with
the same trailing segments, such as the copies of `docs/api/`, are therefore neighbours.
"""

from __future__ import annotations

from streams.analyses.sql_engine import SqlEngine
from streams.export.hashes import INDEX_EXTENSIONS, INDEX_NAMES

TABLES = ("tree_pages", "directories", "ancestors", "host_pages")
_INDEX_FILE = "^({})[.]({})$".format(
    "|".join(name.decode() for name in INDEX_NAMES), "|".join(extension.decode() for extension in INDEX_EXTENSIONS)
)
# A text that many pages of a host share is not evidence. The labels of these pages are counted (see `_same_text`).
_LABELS_MIN = 4
_PAGES_PER_LABEL_MAX = 10  # the labels are at least a tenth of the host's pages ...
_DOCUMENT_LABELS_MIN = 16  # ... or at least this many labels belong to one document


def create_directories(engine: SqlEngine, depth_max: int) -> int:
    """Create the tables in `TABLES` from `pages`.

    Pages in directories with more than `depth_max` segments are left out. Return the number of these pages.

    tree_pages(page, host, directory, name, document, cluster, evidence): the pages with text. `name` is the part of
    the URL after the directory, and empty for index files. `evidence` is 0 if many pages of the host have similar
    text.
    directories(directory, parent, name, prefix, pages): `parent` is null for a host's root; `prefix` is the beginning
    of a URL key, `name` its last segment with a `/`, `pages` the number of pages directly in the directory.
    ancestors(directory, ancestor): all directories above a directory, and the directory itself.
    host_pages(host, pages, https): `https` is 1 if a page of the host was captured over https.
    """
    deep_pages = _create_named_pages(engine, depth_max)
    _create_directory_table(engine)
    _create_ancestors(engine)
    _create_tree_pages(engine)
    engine.drop("named_pages", "same_text")
    return deep_pages


def _create_named_pages(engine: SqlEngine, depth_max: int) -> int:
    """Split the URL keys of pages with text into directory and name. Return the number of pages that are too deep."""
    engine.create(
        "split_pages",
        f"""
        SELECT page, host, https, document, cluster, prefix,
               length(prefix) - length(replace(prefix, '/', '')) - 1 AS depth,
               CASE WHEN regexp_replace(lower(name), '{_INDEX_FILE}', '') = '' THEN '' ELSE name END AS name
        FROM (
            SELECT page, host, https, document, cluster, prefix, substring(url_key, length(prefix) + 1) AS name
            FROM (
                SELECT page, host, https, document, coalesce(cluster, document) AS cluster, url_key,
                       {up_to_last_slash("split_part(url_key, '?', 1)")} AS prefix
                FROM pages
                WHERE document IS NOT NULL AND coalesce(status, 200) < 400
            ) AS split_keys
        ) AS split_names
        """,
    )
    deep_pages: int = engine.rows(f"SELECT count(*) FROM split_pages WHERE depth > {depth_max}")[0][0]
    engine.create("named_pages", f"SELECT * FROM split_pages WHERE depth <= {depth_max}")
    engine.drop("split_pages")
    return deep_pages


def up_to_last_slash(expression: str) -> str:
    """Return the SQL expression that removes everything after the last `/` from the value of a string expression."""
    return f"substring({expression}, 1, length({expression}) - instr(reverse({expression}), '/') + 1)"


def _create_directory_table(engine: SqlEngine) -> None:
    engine.create("prefixes_0", "SELECT DISTINCT prefix FROM named_pages")
    tables = ["prefixes_0"]
    while engine.rows(f"SELECT count(*) FROM {tables[-1]}")[0][0]:
        parent = up_to_last_slash("substring(prefix, 1, length(prefix) - 1)")
        table = f"prefixes_{len(tables)}"
        engine.create(
            table,
            f"""
            SELECT DISTINCT {parent} AS prefix
            FROM {tables[-1]}
            WHERE instr(prefix, '/') < length(prefix)
            """,
        )
        tables.append(table)
    engine.create(
        "numbered_prefixes",
        f"""
        SELECT row_number() OVER (ORDER BY reverse(prefix)) AS directory, prefix,
               CASE WHEN instr(prefix, '/') < length(prefix)
                    THEN {up_to_last_slash("substring(prefix, 1, length(prefix) - 1)")} END AS parent_prefix
        FROM ({" UNION ".join(f"SELECT prefix FROM {table}" for table in tables)}) AS prefixes
        """,
    )
    engine.drop(*tables)
    engine.create(
        "directories",
        """
        SELECT d.directory, parents.directory AS parent, d.prefix, coalesce(direct.pages, 0) AS pages,
               CASE WHEN d.parent_prefix IS NULL THEN ''
                    ELSE substring(d.prefix, length(d.parent_prefix) + 1) END AS name
        FROM numbered_prefixes AS d
        LEFT JOIN numbered_prefixes AS parents ON parents.prefix = d.parent_prefix
        LEFT JOIN (SELECT prefix, count(*) AS pages FROM named_pages GROUP BY prefix) AS direct
               ON direct.prefix = d.prefix
        """,
    )
    engine.drop("numbered_prefixes")


def _create_ancestors(engine: SqlEngine) -> None:
    engine.create("ancestors_0", "SELECT directory, directory AS ancestor FROM directories")
    tables = ["ancestors_0"]
    while engine.rows(f"SELECT count(*) FROM {tables[-1]}")[0][0]:
        table = f"ancestors_{len(tables)}"
        engine.create(
            table,
            f"""
            SELECT below.directory, directories.parent AS ancestor
            FROM {tables[-1]} AS below JOIN directories ON directories.directory = below.ancestor
            WHERE directories.parent IS NOT NULL
            """,
        )
        tables.append(table)
    engine.create("ancestors", " UNION ALL ".join(f"SELECT directory, ancestor FROM {table}" for table in tables))
    engine.drop(*tables)


def _create_tree_pages(engine: SqlEngine) -> None:
    engine.create(
        "host_pages",
        """
        SELECT host, count(*) AS pages, max(CASE WHEN https THEN 1 ELSE 0 END) AS https FROM named_pages GROUP BY host
        """,
    )
    engine.create(
        "same_text",
        f"""
        {_same_text("document", f"OR labels >= {_DOCUMENT_LABELS_MIN}")}
        UNION
        {_same_text("cluster", "")}
        """,
    )
    engine.create(
        "tree_pages",
        """
        SELECT p.page, p.host, d.directory, p.name, p.document, p.cluster,
               CASE WHEN same_document.host IS NULL AND same_cluster.host IS NULL THEN 1 ELSE 0 END AS evidence
        FROM named_pages AS p
        JOIN directories AS d ON d.prefix = p.prefix
        LEFT JOIN same_text AS same_document
               ON same_document.kind = 'document'
              AND same_document.host = p.host AND same_document.text_id = p.document
        LEFT JOIN same_text AS same_cluster
               ON same_cluster.host = p.host AND same_cluster.text_id = p.cluster AND same_cluster.kind = 'cluster'
        """,
    )


def _same_text(kind: str, alternative: str) -> str:
    """Return the query for the documents or clusters that pages with many labels share on a host, such as soft 404s.

    The label of a page is its name; the label of an index file is the name of its directory. Copies of a page have
    the same label, which is counted once. `alternative` is a condition that replaces the one on the host's pages.
    """
    return f"""
        SELECT labelled.host, labelled.text_id, '{kind}' AS kind
        FROM (
            SELECT p.host, p.{kind} AS text_id,
                   count(DISTINCT CASE WHEN p.name = '' THEN d.name ELSE p.name END) AS labels
            FROM named_pages AS p
            JOIN directories AS d ON d.prefix = p.prefix
            JOIN (
                SELECT host, {kind} FROM named_pages GROUP BY host, {kind} HAVING count(*) >= {_LABELS_MIN}
            ) AS repeated ON repeated.host = p.host AND repeated.{kind} = p.{kind}
            GROUP BY p.host, p.{kind}
        ) AS labelled
        JOIN host_pages ON host_pages.host = labelled.host
        WHERE labels >= {_LABELS_MIN} AND (labels * {_PAGES_PER_LABEL_MAX} >= host_pages.pages {alternative})
    """

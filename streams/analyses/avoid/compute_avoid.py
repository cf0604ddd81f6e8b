"""Compute the avoid-list: the topmost directories in which nearly all pages have copies elsewhere, and exceptions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from state.codecs.url_key import url_of
from streams.analyses.analysis_session import Analysis, Session
from streams.analyses.avoid.avoid_list import Entry, Reason, deciding_entry, prefixes_of
from streams.analyses.avoid.keepers import Root, choose_keepers, read_roots
from streams.analyses.collections.compute_collections import compute_in
from streams.analyses.sql_engine import SqlEngine
from streams.export.hashes import host_hash

DEPTH_MAX = 32  # directories with more slashes are decided together with their parent


class _PageCounts(NamedTuple):
    """Numbers of pages: all pages, pages with a copy in their class, and pages with a copy that is kept."""

    pages: int
    copies: int
    kept_copies: int

    def minus(self, other: _PageCounts) -> _PageCounts:
        return _PageCounts(*(a - b for a, b in zip(self, other, strict=True)))


_SAMPLED_PAGE = _PageCounts(1, 1, 1)


class _Directory:
    """The numbers of pages below a directory, in total and by collection, and its child directories."""

    def __init__(self) -> None:
        self.pages = self.copies = self.kept_copies = 0
        self.copies_by_collection: Counter[int] = Counter()
        self.children: list[str] = []

    def add(self, collection: int, pages: int, copies: int, kept_copies: int) -> None:
        self.pages += pages
        self.copies += copies
        self.kept_copies += kept_copies
        self.copies_by_collection[collection] += copies

    def counts(self) -> _PageCounts:
        return _PageCounts(self.pages, self.copies, self.kept_copies)

    def main_collection(self) -> int:
        """Return the collection with the most copies."""
        return max(
            self.copies_by_collection, key=lambda collection: (self.copies_by_collection[collection], collection)
        )


class _Decision(NamedTuple):
    """The decision whether the pages of a directory stay on the crawl list. `key` is the directory's URL key."""

    key: str
    keep: bool
    directory: _Directory


def compute_avoid(engine: SqlEngine, *, copied_share_min: float, sample_share: float) -> list[Entry]:
    """Return the avoid-list, sorted by prefix. Needs the tables that `compute_collections.compute` leaves.

    A directory is skipped if at least the share `copied_share_min` of its pages has a copy in a different collection
    of the class. The kept collection need not contain the copy, because an incomplete crawl may have missed it there.
    Directories above the root of a collection are not considered. Of each copy, the share `sample_share`, selected by
    the hash of the path, stays on the crawl list.
    """
    roots = read_roots(engine)
    keepers = choose_keepers(engine, roots)
    if not keepers:
        return []
    _create_labelled_pages(engine, keepers, roots)
    directories = _read_directories(engine)
    decisions = {
        decision.key: decision
        for top in _topmost(directories)
        for decision in _decide(top, directories, copied_share_min)
    }
    sampled = _read_sample(engine, sample_share)
    engine.drop("labelled_pages")
    return sorted(_entries(decisions, sampled, keepers, roots), key=lambda entry: entry.prefix)


def _create_labelled_pages(engine: SqlEngine, keepers: dict[int, int], roots: dict[int, Root]) -> None:
    """Create `labelled_pages`: the pages below the roots of skippable collections, and whether they have copies.

    A page below several roots belongs to the collection in which it has a copy. Among these, the longest root wins.
    """
    _create_copies(engine, keepers, roots)
    # A different collection of the class contains a cluster if the lowest or the highest collection is different.
    engine.create(
        "rooted_pages",
        """
        SELECT p.page, p.path, p.url_key, s.collection, length(s.root) AS root_length,
               CASE WHEN kept_pages.page IS NULL
                     AND (class_clusters.lowest <> s.collection OR class_clusters.highest <> s.collection)
                    THEN 1 ELSE 0 END AS is_copy,
               CASE WHEN kept_pages.page IS NULL AND keeper_clusters.cluster IS NOT NULL
                    THEN 1 ELSE 0 END AS is_kept_copy
        FROM pages AS p
        JOIN skippable AS s ON s.host = p.host AND substring(p.url_key, 1, length(s.root)) = s.root
        LEFT JOIN class_clusters
               ON class_clusters.class = s.class AND class_clusters.cluster = coalesce(p.cluster, p.document)
        LEFT JOIN keeper_clusters
               ON keeper_clusters.collection = s.collection
              AND keeper_clusters.cluster = coalesce(p.cluster, p.document)
        LEFT JOIN kept_pages ON kept_pages.page = p.page
        WHERE p.document IS NOT NULL
        """,
    )
    engine.create(
        "labelled_pages",
        """
        SELECT page, path, url_key, collection, top_length, is_copy, is_kept_copy FROM (
            SELECT page, path, url_key, collection, is_copy, is_kept_copy,
                   min(root_length) OVER (PARTITION BY page) AS top_length,
                   row_number() OVER (
                       PARTITION BY page ORDER BY is_kept_copy DESC, is_copy DESC, root_length DESC, collection
                   ) AS position
            FROM rooted_pages
        ) AS ordered
        WHERE position = 1
        """,
    )
    engine.drop("skippable", "keeper_clusters", "class_clusters", "kept_collections", "kept_pages", "rooted_pages")


def _create_copies(engine: SqlEngine, keepers: dict[int, int], roots: dict[int, Root]) -> None:
    """Create `skippable` (collections), tables with the clusters of their copies, and `kept_pages`."""
    skippable = sorted(keepers)
    columns = {
        "collection": pa.array(skippable, pa.int64()),
        "class": pa.array([roots[collection].class_id for collection in skippable], pa.int64()),
        "keeper": pa.array([keepers[collection] for collection in skippable], pa.int64()),
        "host": pa.array([host_hash(roots[collection].key.encode()) for collection in skippable], pa.int64()),
        "root": pa.array([roots[collection].key for collection in skippable], pa.string()),
    }
    engine.insert("skippable", pa.table(columns))
    engine.create(
        "keeper_clusters",
        """
        SELECT DISTINCT s.collection, m.cluster
        FROM skippable AS s JOIN collection_members AS m ON m.collection = s.keeper
        """,
    )
    engine.create(
        "class_clusters",
        """
        SELECT c.class, m.cluster, min(m.collection) AS lowest, max(m.collection) AS highest
        FROM collection_members AS m JOIN collections AS c ON c.collection = m.collection
        GROUP BY c.class, m.cluster
        """,
    )
    remaining = sorted(roots.keys() - keepers.keys())
    engine.insert("kept_collections", pa.table({"collection": pa.array(remaining, pa.int64())}))
    engine.create(
        "kept_pages",
        """
        SELECT DISTINCT m.page
        FROM collection_members AS m JOIN kept_collections AS k ON k.collection = m.collection
        """,
    )


def _read_directories(engine: SqlEngine) -> dict[str, _Directory]:
    """Return the directories at or below the roots, by key."""
    directories: defaultdict[str, _Directory] = defaultdict(_Directory)
    for depth in range(1, DEPTH_MAX + 1):
        pattern = f"^([^/?]*/){{{depth}}}"  # matches the directory with this number of slashes, or nothing
        query = f"""
            SELECT directory, collection, count(*), sum(is_copy), sum(is_kept_copy) FROM (
                SELECT regexp_extract(url_key, '{pattern}', 0) AS directory, collection, is_copy, is_kept_copy,
                       top_length
                FROM labelled_pages
            ) AS levels
            WHERE directory <> '' AND length(directory) >= top_length
            GROUP BY directory, collection
        """
        for key, collection, pages, copies, kept_copies in engine.rows(query):
            directories[key].add(collection, pages, int(copies), int(kept_copies))
    for key in list(directories):
        parent = key[: key.rfind("/", 0, -1) + 1]
        if parent in directories:
            directories[parent].children.append(key)
    return dict(directories)


def _topmost(directories: dict[str, _Directory]) -> Iterator[str]:
    """Yield the keys of the directories whose parent is not in `directories`."""
    children = {child for directory in directories.values() for child in directory.children}
    return (key for key in directories if key not in children)


def _decide(top: str, directories: dict[str, _Directory], copied_share_min: float) -> Iterator[_Decision]:
    """Yield a decision for each directory that is decided differently from its parent."""
    undecided = [(top, False)]
    while undecided:
        key, is_parent_skipped = undecided.pop()
        directory = directories[key]
        is_skipped = directory.copies > 0 and directory.copies >= copied_share_min * directory.pages
        if is_skipped != is_parent_skipped:
            yield _Decision(key, not is_skipped, directory)
        undecided += [(child, is_skipped) for child in directory.children]


def _read_sample(engine: SqlEngine, share: float) -> list[tuple[int, str]]:
    """Return the collection and the URL key of each sampled page, at least one per collection.

    An index page is not sampled, because its URL is the prefix of its directory.
    """
    query = f"""
        SELECT collection, url_key FROM (
            SELECT collection, url_key,
                   row_number() OVER (PARTITION BY collection ORDER BY path, url_key) AS position,
                   count(*) OVER (PARTITION BY collection) AS pages
            FROM labelled_pages WHERE is_kept_copy = 1 AND url_key NOT LIKE '%/'
        ) AS ordered
        WHERE position - 1 < {share} * pages
    """
    return engine.rows(query) if share else []


def _entries(
    decisions: dict[str, _Decision],
    sampled: Iterable[tuple[int, str]],
    keepers: dict[int, int],
    roots: dict[int, Root],
) -> Iterator[Entry]:
    """Yield the entries. The pages of an inner entry are not counted for the entries that contain it."""

    def entry(key: str, collection: int, reason: Reason, count: _PageCounts) -> Entry:
        keeper = roots[keepers[collection]]
        keep = reason != "copy"
        return Entry(
            prefix=url_of(key.encode(), https=roots[collection].https),
            keep=keep,
            pages=count.pages,
            lost=0 if keep else count.pages - count.copies,
            unconfirmed=0 if keep else count.copies - count.kept_copies,
            kept_prefix=url_of(keeper.key.encode(), https=keeper.https),
            reason=reason,
        )

    counts = {key: decision.directory.counts() for key, decision in decisions.items()}
    for key, decision in decisions.items():
        _, _, *parents = prefixes_of(key)  # the first two are the key itself, as a URL and as a directory
        parent = next((parent for parent in parents if parent in decisions), None)
        if parent is not None:
            counts[parent] = counts[parent].minus(decision.directory.counts())
    for collection, key in sampled:
        outer = deciding_entry(key, decisions)
        if outer is not None and not outer.keep:
            counts[outer.key] = counts[outer.key].minus(_SAMPLED_PAGE)
            yield entry(key, collection, "sample", _SAMPLED_PAGE)
    for key, decision in decisions.items():
        yield entry(key, decision.directory.main_collection(), "exception" if decision.keep else "copy", counts[key])


def _compute_in(session: Session) -> list[Entry]:
    compute_in(session, "regions")
    settings = session.settings
    return compute_avoid(session.engine, copied_share_min=settings.avoid_pure, sample_share=settings.avoid_sample)


ANALYSIS = Analysis("avoid", "regions", Entry, _compute_in)

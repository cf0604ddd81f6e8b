"""Compute the replicated collections of the current pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from state.codecs.url_key import decode_host, host_prefix, url_of
from streams.analyses.analysis_session import Analysis, Session
from streams.analyses.collections.attached_pages import attach_pages
from streams.analyses.collections.classes import create_collections
from streams.analyses.collections.collection_results import ClassSize, Collection, Links, Reason, Result, Rule
from streams.analyses.collections.collection_roots import create_roots
from streams.analyses.collections.published_rules import create_similar_clusters
from streams.analyses.collections.regions import create_regions
from streams.analyses.sql_engine import SqlEngine


class _Row(NamedTuple):
    """A collection before its class is numbered."""

    collection: int
    class_id: int
    pages: int
    clusters: int
    linking_hosts: int
    root_key: bytes
    https: bool
    urls: tuple[str, ...]


def compute(engine: SqlEngine, *, rule: Rule = "regions", clusters_min: int, urls_max: int) -> Result:
    """Find the collections with one of the rules. Needs the tables of a data set and `pages`.

    The tables `collections` (collection, class, pages, clusters), `collection_members` (page, cluster,
    collection), `collection_roots` (collection, host, root, https) and `representatives` (collection) remain for
    other analyses.
    """
    if rule == "regions":
        create_regions(engine, clusters_min)
    else:
        create_similar_clusters(engine, rule)
    create_collections(engine, clusters_min)
    create_roots(engine)
    if rule == "regions":
        attach_pages(engine)
        engine.drop("node_links")
    rows = _read_rows(engine, urls_max)
    classes = _order_classes(rows)
    representatives = [members[0].collection for members in classes]
    engine.insert("representatives", pa.table({"collection": pa.array(representatives, pa.int64())}))
    return Result(
        collections=tuple(_number_classes(classes)),
        classes=_class_sizes(engine, rows, rule),
        links=_count_links(engine),
    )


def _read_rows(engine: SqlEngine, urls_max: int) -> list[_Row]:
    engine.create(
        "collection_pages",
        """
        SELECT m.collection, p.page, p.url_key, p.https
        FROM collection_members AS m JOIN pages AS p ON p.page = m.page
        """,
    )
    urls: defaultdict[int, list[str]] = defaultdict(list)
    query = f"""
        SELECT collection, url_key, https FROM (
            SELECT collection, url_key, https,
                   row_number() OVER (PARTITION BY collection ORDER BY url_key) AS position
            FROM collection_pages
        ) AS ordered
        WHERE position <= {urls_max} ORDER BY collection, position
    """
    for collection, key, https in engine.rows(query):
        urls[collection].append(url_of(key.encode(), https=https))
    query = """
        SELECT collections.collection, collections.class, collections.pages, collections.clusters, linking.hosts,
               roots.root, roots.https
        FROM collections
        JOIN collection_roots AS roots ON roots.collection = collections.collection
        LEFT JOIN (
            SELECT members.collection, count(DISTINCT sources.host) AS hosts
            FROM links
            JOIN collection_members AS members ON members.page = links.target
            JOIN pages AS sources ON sources.page = links.source AND sources.link_list = links.link_list
            WHERE sources.host <> links.target_host
            GROUP BY members.collection
        ) AS linking ON linking.collection = collections.collection
    """
    rows = [
        _Row(collection, class_id, pages, clusters, hosts or 0, root.encode(), https, tuple(urls[collection]))
        for collection, class_id, pages, clusters, hosts, root, https in engine.rows(query)
    ]
    engine.drop("collection_pages")
    return rows


def _order_classes(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Return the collections of each class, from the largest class to the smallest, with the representative first."""
    classes: defaultdict[int, list[_Row]] = defaultdict(list)
    for row in rows:
        classes[row.class_id].append(row)
    ordered = [sorted(members, key=_preference) for members in classes.values()]
    ordered.sort(key=lambda members: (-sum(row.pages for row in members), members[0].root_key, members[0].collection))
    return ordered


def _number_classes(classes: Iterable[list[_Row]]) -> list[Collection]:
    collections = []
    for number, members in enumerate(classes, 1):
        reason = _reason(members)
        others = sorted(members[1:], key=lambda row: (row.root_key, row.collection))
        collections += [
            _to_collection(number, row, reason if row is members[0] else None) for row in (members[0], *others)
        ]
    return collections


def _preference(row: _Row) -> tuple[int, int, int, bytes, int]:
    """Return a sort key: the collection with the smallest key represents its class."""
    return (-row.clusters, -row.linking_hosts, row.root_key.count(b"/"), row.root_key, row.collection)


_REASONS: tuple[Reason, ...] = ("most_clusters", "most_linking_hosts", "shortest_root", "first_root")


def _reason(members: list[_Row]) -> Reason:
    """Return the first criterion by which the representative differs from the next collection of its class."""
    if len(members) == 1:
        return "first_root"
    best, second = map(_preference, members[:2])
    return next((reason for reason, a, b in zip(_REASONS, best, second, strict=False) if a != b), "first_root")


def _to_collection(number: int, row: _Row, reason: Reason | None) -> Collection:
    name, port = decode_host(host_prefix(row.root_key))
    return Collection(
        class_=number,
        host=f"{name}:{port}" if port else name,
        root=url_of(row.root_key, https=row.https),
        pages=row.pages,
        clusters=row.clusters,
        linking_hosts=row.linking_hosts,
        urls=row.urls,
        representative=reason is not None,
        reason=reason,
    )


def _class_sizes(engine: SqlEngine, rows: Iterable[_Row], rule: Rule) -> tuple[ClassSize, ...]:
    """Return the sizes of all classes. With a published rule, the classes are the similar clusters."""
    if rule != "regions":
        sizes = engine.rows("SELECT cardinality, size FROM similar_clusters")
        return tuple(sorted(ClassSize(cardinality=cardinality, size=size) for cardinality, size in sizes))
    classes: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows:
        classes[row.class_id].append(row.clusters)
    return tuple(sorted(ClassSize(cardinality=len(sizes), size=max(sizes)) for sizes in classes.values()))


def _count_links(engine: SqlEngine) -> Links:
    query = """
        SELECT count(*), count(targets.page)
        FROM links
        JOIN pages AS sources ON sources.page = links.source AND sources.link_list = links.link_list
                             AND sources.host = links.target_host
        LEFT JOIN pages AS targets ON targets.page = links.target
        WHERE links.target <> links.source
    """
    ((total, resolved),) = engine.rows(query)
    return Links(total=total, resolved=resolved)


def analysis(rule: Rule) -> Analysis[Collection]:
    """Return the analysis that finds collections with a rule. Its counters are `links` and `links_resolved`."""
    return Analysis("collections", rule, Collection, lambda session: compute_in(session, rule).collections)


def compute_in(session: Session, rule: Rule) -> Result:
    """Compute the collections of a session with its settings, and count links."""
    settings = session.settings
    result = compute(
        session.engine,
        rule=rule,
        clusters_min=settings.collection_clusters_min,
        urls_max=settings.collection_urls_max,
    )
    session.counters.update(links=result.links.total, links_resolved=result.links.resolved)
    return result

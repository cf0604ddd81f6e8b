"""Questions about documents and clusters: what is this a copy of, what belongs together, what was here before."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import TypeVar

import msgspec
import numpy as np

from state.codecs import edge as edge_codec
from state.families import Family
from state.values import ID_BYTES, PREFIX_BYTES, Capture, DocumentRow, Sketch
from state.view import View
from streams import sketching
from streams.errors import InputError
from streams.settings import Settings
from streams.terms import most_sampled
from streams.urls import url_key

T = TypeVar("T")
SAME = sketching.Comparison(1.0, 0.0, 1.0, 0.0, 1.0, 0.0, exact=True)


class Match(msgspec.Struct, frozen=True):
    """A stored document that is like the one asked for; figures with their standard errors."""

    document: str
    resemblance: float
    resemblance_error: float
    containment: float  # of the asked document in this one
    containment_error: float
    contained: float  # of this one in the asked document
    contained_error: float
    exact: bool
    cluster: str
    title: str
    urls: list[str]  # bounded: those that had it first, and those that got it last
    url_count: int
    first_seen: int  # ms
    last_seen: int  # ms


class Version(msgspec.Struct, frozen=True):
    """One capture of a URL, and how much it resembles the version before it (None: there is none to compare)."""

    url: str
    time: int  # ms
    sweep: str
    status: int
    document: str | None
    redirect: str | None
    resemblance: float | None


class Cluster(msgspec.Struct, frozen=True):
    """Documents that belong together and the URLs that hold or held them; both bounded, the counts are not."""

    cluster: str
    documents: list[str]
    urls: list[str]
    document_count: int
    url_count: int


def similar(view: View, settings: Settings, sketch: Sketch, *, limit: int = 20) -> list[Match]:
    """Stored documents like this one, most alike first.

    Candidates come from the LSH bands, ranked by colliding buckets, and from the sampled shingles, ranked by how rare
    those are that both have: they also find a short document inside a long one.
    """
    rows = _candidates(view, settings, sketch, limit)
    if not rows:
        return []
    held = sketching.gather([row.sketch for row in rows])
    asked = sketching.gather([sketch])
    lefts, rights = np.zeros(len(rows), np.int64), np.arange(len(rows))
    found = sketching.compare_pairs(asked, held, lefts, rights)
    strength = np.maximum(found.resemblance, np.maximum(found.containment, found.contained))
    order = np.lexsort((-strength, -found.resemblance))
    alike: list[tuple[DocumentRow, sketching.Comparison]] = []
    for at in order.tolist():
        # A document is itself, however few of its shingles were sampled.
        figures = SAME if rows[at].sketch.document == sketch.document else found.comparison(at)
        if max(figures.resemblance, figures.containment, figures.contained) < settings.policy.threshold:
            continue
        alike.append((rows[at], figures))
    matches: list[Match] = []
    for start in range(0, len(alike), limit):
        matches += _matches(view, settings, alike[start : start + limit])
        if len(matches) >= limit:  # fewer: an open cancellation holds some
            break
    return matches[:limit]


def _candidates(view: View, settings: Settings, sketch: Sketch, limit: int) -> list[DocumentRow]:
    most = settings.limits.candidates_max
    buckets = sketching.buckets(sketch.signature[None, :], view.scheme)[0]
    collisions: Counter[bytes] = Counter()
    for postings in view.buckets([bucket.tobytes() for bucket in buckets]):
        collisions.update(postings)
    by_bands = sorted(collisions, key=lambda prefix: (-collisions[prefix], prefix))[: max(4 * most, limit)]
    # Rare shingles count for more: a shingle that many share says little of any of them. Of such a one the first
    # postings are enough: where all that a page holds is common, they are the same of each shingle.
    shared: defaultdict[bytes, float] = defaultdict(float)
    for postings in view.sample_postings(most_sampled(sketch), settings.limits.sample_postings_max):
        for prefix in postings:
            shared[prefix] += 1.0 / (1 + len(postings))
    for prefix in by_bands:
        shared.pop(prefix, None)
    by_samples = sorted(shared, key=lambda prefix: (-shared[prefix], prefix))[:most]
    own = sketch.document[:PREFIX_BYTES]
    return view.documents_by_prefixes(list(dict.fromkeys([own, *by_bands, *by_samples])))


def _matches(
    view: View, settings: Settings, alike: list[tuple[DocumentRow, sketching.Comparison]]
) -> Iterator[Match]:
    documents = [row.sketch.document for row, _ in alike]
    limits = settings.limits
    locations = view.locations_seen(documents, limits.members_shown_max)
    # While a sweep is being cancelled, only captures tell which URLs are its alone.
    most = limits.members_shown_max if view.cancelling else limits.match_urls_max
    captures = _captures(view, [_ends(_by_time(held), most) for held in locations])
    found = zip(alike, locations, captures, view.roots(documents), view.titles(documents), strict=True)
    for (row, figures), held, histories, root, title in found:
        document = row.sketch.document
        urls, first, last = _seen(document, histories)
        if not urls:
            continue  # only an open cancellation holds it
        yield Match(
            document.hex(),
            figures.resemblance,
            figures.resemblance_error,
            figures.containment,
            figures.containment_error,
            figures.contained,
            figures.contained_error,
            figures.exact,
            root.hex(),
            title,
            _ends(urls, limits.match_urls_max),
            len(urls) if view.cancelling else len(held),
            first,
            last,
        )


def _by_time(locations: list[tuple[bytes, int]]) -> list[bytes]:
    """URL keys of a document in the order in which they came to hold it."""
    return [key for key, _ in sorted(locations, key=lambda location: (location[1], location[0]))]


def _ends(values: list[T], most: int) -> list[T]:
    """At most so many of them: half from the beginning, half from the end."""
    if len(values) <= most:
        return values
    return [*values[: most - most // 2], *values[len(values) - most // 2 :]]


def _captures(view: View, keys: list[list[bytes]]) -> list[list[list[Capture]]]:
    """The captures of many URLs of several documents, each URL read once."""
    each = sorted({key for of_one in keys for key in of_one})
    histories = dict(zip(each, view.histories(each), strict=True))
    return [[histories[key] for key in of_one] for of_one in keys]


def seen(view: View, document: bytes, limit: int, sweep: int | None = None) -> tuple[list[str], int, int]:
    """URLs that hold or held a document (at most `limit`), and when it was first and last seen there, ms."""
    return _seen(document, view.histories(view.locations([document], limit)[0]), sweep)


def _seen(document: bytes, histories: list[list[Capture]], sweep: int | None = None) -> tuple[list[str], int, int]:
    urls: list[str] = []
    first, last = 0, 0
    for captures in histories:
        held = [c for c in captures if c.document == document and sweep in (None, c.sweep)]
        if held:
            urls.append(held[-1].url)
            times = [c.time for c in held]
            first, last = min(first or times[0], *times), max(last, *times)
    return urls, first, last


def versions(view: View, url: str) -> list[Version]:
    """The history of a URL: each capture with its resemblance to the version before."""
    names = {sweep.number: sweep.name for sweep in view.sweeps()}
    before: Capture | None = None
    history = []
    for held in view.captures(url_key(url)):
        likeness = None
        if before is not None and before.document and held.document:
            likeness = 1.0 if before.document == held.document else _resemblance(view, before.document, held.document)
        document = held.document.hex() if held.document else None
        history.append(
            Version(held.url, held.time, names[held.sweep], held.status, document, held.redirect, likeness)
        )
        before = held if held.document else before
    return history


def _resemblance(view: View, a: bytes, b: bytes) -> float | None:
    rows = [view.document(a), view.document(b)]
    if rows[0] is None or rows[1] is None:
        return None
    return sketching.compare(rows[0].sketch, rows[1].sketch).resemblance


def resolve(view: View, named: str) -> bytes:
    """The document that a URL holds now, or that a hex id (or its unique beginning) names.

    Raises InputError when there is none, or when the beginning fits several.
    """
    if "://" in named:
        held = [c.document for c in view.captures(url_key(named)) if c.document]
        if not held:
            raise InputError(f"no capture of {named} holds a document", "`lostfound find URL` says more")
        return held[-1] or b""
    try:
        prefix = bytes.fromhex(named)
    except ValueError:
        prefix = b""
    if not PREFIX_BYTES <= len(prefix) <= ID_BYTES:
        raise InputError(f"{named!r} is neither a URL nor a document id", "an id has 10 to 32 hex digits")
    rows = view.documents_by_prefix(prefix)
    if len(rows) != 1:
        raise InputError(f"{len(rows)} documents have an id that begins with {named}", "give more of its digits")
    return rows[0].sketch.document


def cluster(view: View, document: bytes, limit: int) -> Cluster:
    """The cluster of a document; a document alone is a cluster of one."""
    if view.cancelling:
        named = document.hex()
        all_clusters = clusters(view, min_size=2)
        found = next((c for c in all_clusters if named in c.documents), None)
        return _cluster(view, document, [bytes.fromhex(d) for d in found.documents] if found else [document], limit)
    root = view.root(document)
    return _cluster(view, root, view.members(root), limit)


def clusters(view: View, *, min_size: int = 2, limit: int | None = None) -> Iterator[Cluster]:
    """All clusters, biggest first: those with at least `min_size` documents or URLs.

    A document alone at one URL is a cluster of one; these come last, in order of id, without being held in memory.
    While a sweep is being cancelled, clusters are made from the edges of what other sweeps captured.
    """
    if view.cancelling:
        yield from clusters_by_policy(
            view, threshold=0.0, containment=False, sweep=None, min_size=min_size, limit=limit
        )
        return
    documents: Counter[bytes] = Counter()
    for key, _ in view.store.scan(Family.MEMBERS):
        documents[key[:ID_BYTES]] += 1
    places: Counter[bytes] = Counter()  # of documents at several URLs only
    for document, rows in groupby(view.store.scan(Family.LOCATIONS), key=lambda row: row[0][:ID_BYTES]):
        if (count := sum(1 for _ in rows)) > 1:
            places[document] = count
    sizes = {root: count + 1 for root, count in documents.items()}
    for document, count in places.items():
        root = view.root(document)
        sizes[root] = max(sizes.get(root, 1), count)
    large = (root for root, size in sizes.items() if size >= min_size)
    for root in sorted(large, key=lambda root: (-sizes[root], root)):
        yield _cluster(view, root, view.members(root), limit)
    if min_size > 1:
        return
    for key, _ in view.store.scan(Family.DOCUMENTS):
        if key not in sizes and view.store.get(Family.PARENTS, key) is None:
            yield _cluster(view, key, [key], limit)


def clusters_by_policy(
    view: View, *, threshold: float, containment: bool, sweep: int | None, min_size: int, limit: int | None
) -> Iterator[Cluster]:
    """Clusters by another policy, from the edges that are kept: no page is read or sketched again.

    `threshold` must not be below the one of the ingest. With `containment`, a pair also counts when one of the two
    holds the other to at least the threshold. With `sweep`, only what that sweep captured takes part.
    """
    wanted = _captured_by(view, sweep) if sweep is not None or view.cancelling else None
    forest = _Forest()
    for key, value in view.store.scan(Family.EDGES):
        pair = edge_codec.decode(key, value)
        alike = max(pair.resemblance, pair.containment, pair.contained) if containment else pair.resemblance
        if alike >= threshold and (wanted is None or (pair.a in wanted and pair.b in wanted)):
            forest.union(pair.a, pair.b)
    groups: dict[bytes, list[bytes]] = {}
    for node in sorted(forest.parents):
        groups.setdefault(forest.root(node), []).append(node)
    alone = wanted if wanted is not None else (key for key, _ in view.store.scan(Family.DOCUMENTS))
    groups.update((key, [key]) for key in alone if key not in forest.parents)
    for members in sorted(groups.values(), key=lambda members: (-len(members), members[0])):
        found = _cluster(view, members[0], members, limit, sweep)
        if max(found.document_count, found.url_count) >= min_size:
            yield found


class _Forest:
    """A union-find in memory; the root of each tree is its smallest id."""

    def __init__(self) -> None:
        self.parents: dict[bytes, bytes] = {}

    def root(self, node: bytes) -> bytes:
        parents = self.parents
        while (above := parents.setdefault(node, node)) != node:
            parents[node] = node = parents.setdefault(above, above)
        return node

    def union(self, a: bytes, b: bytes) -> None:
        x, y = self.root(a), self.root(b)
        self.parents[max(x, y)] = min(x, y)


def _captured_by(view: View, sweep: int | None) -> set[bytes]:
    return {c.document for c in view.all_captures() if sweep in (None, c.sweep) and c.document}


def _cluster(view: View, root: bytes, members: list[bytes], limit: int | None, sweep: int | None = None) -> Cluster:
    urls: set[str] = set()
    for member in members:
        urls.update(seen(view, member, limit or 1 << 62, sweep)[0])
    shown = [member.hex() for member in members[:limit]]
    return Cluster(root.hex(), shown, sorted(urls)[:limit], len(members), len(urls))

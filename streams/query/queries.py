"""Questions about documents and clusters: what is this a copy of, what belongs together, what was here before."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, groupby
from typing import TypeVar

import msgspec
import numpy as np

from state.codecs import edge_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, DocumentRow, Sketch
from state.view import View
from streams.errors import InputError, NotFound
from streams.settings import Settings
from streams.sketch import sketcher
from streams.sketch.index_terms import most_sampled
from streams.urls import url_key

T = TypeVar("T")
ROWS_AT_ONCE = 1024  # read of a cluster, which may have any number
LOCATIONS_READ = 65_536  # of a member, to tell which of its URLs had it first and last
_ID = re.compile(rf"[0-9a-fA-F]{{{2 * PREFIX_BYTES},{2 * ID_BYTES}}}")
SAME = sketcher.Comparison(1.0, 0.0, 1.0, 0.0, 1.0, 0.0, exact=True)


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
    """One capture of a URL, and how much it resembles the version before it (None: there is none to compare).

    A resemblance of 1 says that it is the same document; however alike two others are, theirs is below.
    """

    url: str
    time: int  # ms
    sweep: str
    status: int
    document: str | None
    redirect: str | None
    resemblance: float | None


class Cluster(msgspec.Struct, frozen=True):
    """Documents that belong together and the URLs that hold or held them; both bounded, the counts are not.

    http and https of one page are one URL, written as it was last.
    """

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
    held = sketcher.gather([row.sketch for row in rows])
    asked = sketcher.gather([sketch])
    lefts, rights = np.zeros(len(rows), np.int64), np.arange(len(rows))
    found = sketcher.compare_pairs(asked, held, lefts, rights)
    strength = np.maximum(found.resemblance, np.maximum(found.containment, found.contained))
    order = np.lexsort((-strength, -found.resemblance))
    alike: list[tuple[DocumentRow, sketcher.Comparison]] = []
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
    buckets = sketcher.buckets(sketch.signature[None, :], view.scheme)[0]
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


def _matches(view: View, settings: Settings, alike: list[tuple[DocumentRow, sketcher.Comparison]]) -> Iterator[Match]:
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
            _first_seen(view, row, first),
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


def seen(view: View, row: DocumentRow, limit: int) -> tuple[list[str], int, int]:
    """URLs that hold or held a document, and when it was first and last seen, ms.

    Of many URLs at most `limit`, of which half had it first and half got it last; last seen is by these.
    """
    (held,) = view.locations_seen([row.sketch.document], LOCATIONS_READ)
    urls, first, last = _seen(row.sketch.document, view.histories(sorted(_ends(_by_time(held), limit))))
    return urls, _first_seen(view, row, first), last


def _is_shown(view: View, document: bytes) -> bool:
    """Whether a capture that is not being cancelled holds a document."""
    (keys,) = view.locations([document], 1 << 62)
    return bool(_seen(document, view.histories(keys))[0])


def _first_seen(view: View, row: DocumentRow, shown: int) -> int:
    """When a document was first seen: its row knows of all its URLs, but also of those of an open cancellation."""
    return shown if view.cancelling else row.first_seen


def _seen(document: bytes, histories: list[list[Capture]]) -> tuple[list[str], int, int]:
    urls: list[str] = []
    first, last = 0, 0
    for captures in histories:
        held = [c for c in captures if c.document == document]
        if held:
            urls.append(held[-1].url)
            times = [c.time for c in held]
            first, last = min(first or times[0], *times), max(last, *times)
    return urls, first, last


def versions(view: View, url: str) -> list[Version]:
    """The captures of a URL in the order of sweeps, then of time; each with its likeness to the document before."""
    names = {sweep.number: sweep.name for sweep in view.sweeps()}
    before: Capture | None = None
    history = []
    for held in view.captures(url_key(url)):
        if held.sweep not in names:  # opened since the view was made: rows may be newer than it
            continue
        likeness = None
        if before is not None and before.document and held.document:
            likeness = _likeness(view, before.document, held.document)
        document = held.document.hex() if held.document else None
        history.append(
            Version(held.url, held.time, names[held.sweep], held.status, document, held.redirect, likeness)
        )
        before = held if held.document else before
    return history


def _likeness(view: View, a: bytes, b: bytes) -> float | None:
    """1 of the same document; of two others the resemblance, at most what a single shingle more makes of it."""
    if a == b:
        return 1.0
    rows = view.documents([a, b])
    if rows[0] is None or rows[1] is None:
        return None
    one, other = rows[0].sketch, rows[1].sketch
    most = max(one.shingles, other.shingles)
    return min(sketcher.compare(one, other).resemblance, most / (most + 1))


def resolve(view: View, named: str) -> bytes:
    """The document that a URL holds now, or that a hex id (or its unique beginning) names.

    Raises NotFound when there is none, InputError when the beginning fits several.
    """
    if "://" in named:
        held = [c.document for c in view.captures(url_key(named)) if c.document]
        if not held:
            raise NotFound(f"no capture of {named} holds a document", "`lostfound find URL` says more")
        return held[-1] or b""
    if not _ID.fullmatch(named):
        hint = "a URL begins with https:// or http://, an id has 10 to 32 hex digits"
        raise InputError(f"{named!r} is neither a URL nor a document id", hint)
    digits = named.lower()
    # Rows are sought by whole bytes, which are two digits each.
    rows = view.documents_by_prefix(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    found = [row.sketch.document for row in rows if row.sketch.document.hex().startswith(digits)]
    if view.cancelling:
        found = [document for document in found if _is_shown(view, document)]
    if not found:
        raise NotFound(f"no document has an id that begins with {named}", "`lostfound similar URL` tells ids")
    if len(found) > 1:
        raise InputError(f"{len(found)} documents have an id that begins with {named}", "give more of its digits")
    return found[0]


def cluster(view: View, document: bytes, limit: int) -> Cluster:
    """The cluster of a document; a document alone is a cluster of one. Lists end at `limit`, counts do not."""
    if view.cancelling:
        found = cluster_by_policy(view, document, threshold=0.0, containment=False, sweep=None, limit=limit)
        return found or _cluster(view, [document], limit)
    return _cluster(view, view.members(view.root(document)), limit)


def clusters(view: View, *, min_size: int = 2) -> Iterator[Cluster]:
    """All clusters, biggest first: those with at least `min_size` documents or URLs.

    A document alone at one URL is a cluster of one; these come last, in order of id, without being held in memory.
    While a sweep is being cancelled, clusters are made from the edges of what other sweeps captured.
    """
    if view.cancelling:
        yield from clusters_by_policy(view, threshold=0.0, containment=False, sweep=None, min_size=min_size)
        return
    sizes: dict[bytes, int] = {}
    for key, _ in view.store.scan(Family.MEMBERS):
        root = key[:ID_BYTES]
        sizes[root] = sizes.get(root, 1) + 1
    above = view.store.get_many(Family.PARENTS, list(sizes))  # what a former owner lists members under may be no root
    sizes = {root: size for (root, size), parent in zip(sizes.items(), above, strict=True) if parent is None}
    for document, count in _places(view):
        root = view.root(document)
        sizes[root] = sizes.get(root, 1) + count - 1
    yield from _biggest_first(view, sizes, view.members, min_size)
    if min_size > 1:
        return
    for key, _ in view.store.scan(Family.DOCUMENTS):
        if key not in sizes and view.store.get(Family.PARENTS, key) is None:
            yield _cluster(view, [key])


def clusters_by_policy(
    view: View, *, threshold: float, containment: bool, sweep: int | None, min_size: int
) -> Iterator[Cluster]:
    """Clusters by another policy, from the edges that are kept, in the order of `clusters`: no page is read again.

    `threshold` must not be below the one of the ingest. With `containment`, a kept pair also counts when one of the
    two holds the other to at least the threshold: at the threshold of the ingest that adds nothing, as all kept pairs
    count. Pairs below are not kept: of a page and a far longer one that holds it, bands would bring few anyway. With
    `sweep`, only what that sweep captured takes part.
    """
    captured = _captured(view, sweep)
    forest = _joined(view, captured, threshold, containment)
    groups = forest.groups()
    sizes = {root: len(members) for root, members in groups.items()}
    for document, count in _places(view) if captured is None else captured.items():
        if count > 1:
            root = forest.root(document) if document in forest.parents else document
            sizes[root] = sizes.get(root, 1) + count - 1
    yield from _biggest_first(view, sizes, lambda root: groups.get(root, [root]), min_size, sweep)
    if min_size > 1:
        return
    for key in (key for key, _ in view.store.scan(Family.DOCUMENTS)) if captured is None else sorted(captured):
        if key not in sizes and key not in forest.parents:
            yield _cluster(view, [key], None, sweep)


def cluster_by_policy(
    view: View, document: bytes, *, threshold: float, containment: bool, sweep: int | None, limit: int
) -> Cluster | None:
    """The one of `clusters_by_policy` that holds a document; None where it was not captured by what takes part."""
    captured = _captured(view, sweep)
    if captured is not None and document not in captured:
        return None
    forest = _joined(view, captured, threshold, containment)
    return _cluster(view, forest.groups().get(forest.root(document), [document]), limit, sweep)


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

    def groups(self) -> dict[bytes, list[bytes]]:
        """The nodes of each tree, ascending, by its root."""
        found: dict[bytes, list[bytes]] = {}
        for node in sorted(self.parents):
            found.setdefault(self.root(node), []).append(node)
        return found


def _joined(view: View, captured: Counter[bytes] | None, threshold: float, containment: bool) -> _Forest:
    """What kept edges join by a policy, among the captured documents."""
    forest = _Forest()
    for key, value in view.store.scan(Family.EDGES):
        pair = edge_row.decode(key, value)
        alike = max(pair.resemblance, pair.containment, pair.contained) if containment else pair.resemblance
        if alike >= threshold and (captured is None or (pair.a in captured and pair.b in captured)):
            forest.union(pair.a, pair.b)
    return forest


def _captured(view: View, sweep: int | None) -> Counter[bytes] | None:
    """Documents that a sweep captured, or any that is not being cancelled, and at how many URLs; None: all are."""
    if _all_count(view, sweep):
        return None
    counts: Counter[bytes] = Counter()
    for _, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        counts.update({c.document for c in captures if c.document and sweep in (None, c.sweep)})
    return counts


def _all_count(view: View, sweep: int | None) -> bool:
    """Every location counts, so that no capture need be read to tell which do."""
    return sweep is None and not view.cancelling


def _places(view: View) -> Iterator[tuple[bytes, int]]:
    """Documents at several URLs, and at how many."""
    for document, rows in groupby(view.store.scan(Family.LOCATIONS), key=lambda row: row[0][:ID_BYTES]):
        if (count := sum(1 for _ in rows)) > 1:
            yield document, count


def _biggest_first(
    view: View,
    sizes: Mapping[bytes, int],
    members_of: Callable[[bytes], list[bytes]],
    min_size: int,
    sweep: int | None = None,
) -> Iterator[Cluster]:
    """Clusters by the larger of their counts of documents and URLs, of `min_size` or more; ties by root.

    `sizes` count a URL for each document that it held, so they are upper bounds: a cluster is counted when its turn
    comes by these, and if it is smaller waits for those between. So the first need not wait until all are counted.
    """
    waiting = [(-size, root) for root, size in sizes.items() if size >= min_size]
    heapify(waiting)
    while waiting:
        bound, root = heappop(waiting)
        members = members_of(root)
        size = len(members)
        if -bound > size:
            size = -bound if size == 1 else max(size, _url_count(view, members, sweep))
        if size == -bound:
            yield _cluster(view, members, None, sweep)
        elif size >= min_size:
            heappush(waiting, (-size, root))


def _cluster(view: View, members: list[bytes], limit: int | None = None, sweep: int | None = None) -> Cluster:
    """The cluster of these documents, its root first; only URLs that are listed are looked up, where all count."""
    keys = _location_keys(view, members)
    every = _all_count(view, sweep)
    urls = list(_urls(view, keys[:limit] if every else keys, members, sweep))
    shown = [member.hex() for member in members[:limit]]
    count = len(keys) if every else len(urls)
    return Cluster(members[0].hex(), shown, sorted(urls[:limit]), len(members), count)


def _url_count(view: View, members: list[bytes], sweep: int | None) -> int:
    keys = _location_keys(view, members)
    return len(keys) if _all_count(view, sweep) else sum(1 for _ in _urls(view, keys, members, sweep))


def _location_keys(view: View, documents: list[bytes]) -> list[bytes]:
    """Keys of all URLs that hold or held one of these, ascending. http and https of a page are one."""
    found: set[bytes] = set()
    for start in range(0, len(documents), ROWS_AT_ONCE):
        found.update(chain.from_iterable(view.locations(documents[start : start + ROWS_AT_ONCE], 1 << 62)))
    return sorted(found)


def _urls(view: View, keys: list[bytes], documents: list[bytes], sweep: int | None) -> Iterator[str]:
    """URLs of these keys that hold or held one of the documents in a sweep, or in any; as they were last written."""
    wanted = set(documents)
    for start in range(0, len(keys), ROWS_AT_ONCE):
        for captures in view.histories(keys[start : start + ROWS_AT_ONCE]):
            held = [c.url for c in captures if c.document in wanted and sweep in (None, c.sweep)]
            if held:
                yield held[-1]

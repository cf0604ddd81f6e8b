"""Find stored documents that resemble a sketched text, contain it or are contained in it, and read their URLs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from state.model import PREFIX_BYTES, Capture, DocumentRow, Sketch
from state.view import View
from streams.settings import Settings
from streams.sketch import sketcher
from streams.sketch.index_terms import most_divisible_shingles
from streams.sketch.sketcher import Comparison

T = TypeVar("T")
_HISTORIES_PER_READ = 16
LOCATIONS_READ_MAX = 65_536  # per document, to select its earliest and latest locations
IDENTICAL = Comparison(
    resemblance=1.0,
    resemblance_error=0.0,
    containment=1.0,
    containment_error=0.0,
    contained=1.0,
    contained_error=0.0,
    exact=True,
)


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A stored document that is similar to the query. Each figure has its standard error."""

    document: str
    resemblance: float
    resemblance_error: float
    containment: float  # share of the query's shingles that this document contains
    containment_error: float
    contained: float  # share of this document's shingles that the query contains
    contained_error: float
    exact: bool
    cluster: str
    title: str
    urls: list[str]  # if there are too many, half are the earliest locations and half the latest
    url_count: int
    first_seen: int  # ms since the epoch
    last_seen: int


def find_similar(view: View, settings: Settings, sketch: Sketch, *, limit: int = 20) -> list[Match]:
    """Return stored documents that are similar to a sketch, highest resemblance first.

    Candidates come from the LSH bands, ranked by the number of shared buckets, and from the sampled shingles,
    ranked by the rarity of the shingles they share with the query. The samples also reveal a short document inside a
    long one.
    """
    assert limit > 0, limit
    rows = _find_candidates(view, settings, sketch, limit)
    if not rows:
        return []
    comparisons = sketcher.compare_with_each(sketch, [row.sketch for row in rows])
    highest_figures = np.maximum(comparisons.resemblance, np.maximum(comparisons.containment, comparisons.contained))
    similar_rows: list[tuple[DocumentRow, Comparison]] = []
    for index in np.lexsort((-highest_figures, -comparisons.resemblance)).tolist():
        # A document is identical to itself, however few of its shingles were sampled.
        is_same = rows[index].sketch.document == sketch.document
        comparison = IDENTICAL if is_same else comparisons.comparison(index)
        if max(comparison.resemblance, comparison.containment, comparison.contained) >= settings.policy.threshold:
            similar_rows.append((rows[index], comparison))
    matches: list[Match] = []
    # `_read_matches` may skip documents, so `limit` pairs may not be enough.
    for start in range(0, len(similar_rows), limit):
        matches += _read_matches(view, settings, similar_rows[start : start + limit])
        if len(matches) >= limit:
            break
    return matches[:limit]


def _find_candidates(view: View, settings: Settings, sketch: Sketch, limit: int) -> list[DocumentRow]:
    candidates_max = settings.limits.candidates_max
    buckets = sketcher.cut_into_buckets(sketch.signature[None, :], view.scheme)[0]
    collisions: Counter[bytes] = Counter()
    for postings in view.bucket_postings([bucket.tobytes() for bucket in buckets]):
        collisions.update(postings)
    by_bands = sorted(collisions, key=lambda prefix: (-collisions[prefix], prefix))[: max(4 * candidates_max, limit)]
    # Rare shingles weigh more, because a shingle of many documents says little about any of them. Reading only the
    # first postings of a common shingle is enough: postings are sorted by id, so a page with only common shingles
    # still finds the same documents under each of them.
    weights: defaultdict[bytes, float] = defaultdict(float)
    for postings in view.sample_postings(most_divisible_shingles(sketch), settings.limits.sample_postings_max):
        for prefix in postings:
            weights[prefix] += 1.0 / (1 + len(postings))
    for prefix in by_bands:
        weights.pop(prefix, None)
    by_samples = sorted(weights, key=lambda prefix: (-weights[prefix], prefix))[:candidates_max]
    own_prefix = sketch.document[:PREFIX_BYTES]
    return view.documents_by_prefixes(list(dict.fromkeys([own_prefix, *by_bands, *by_samples])))


def _read_matches(view: View, settings: Settings, pairs: list[tuple[DocumentRow, Comparison]]) -> Iterator[Match]:
    """Yield these documents as matches. Skip documents captured only in a sweep that is being cancelled."""
    documents = [row.sketch.document for row, _ in pairs]
    limits = settings.limits
    locations = view.locations_with_times(documents, limits.members_shown_max)
    # While a sweep is being cancelled, more URLs are read, because some locations belong only to that sweep.
    urls_max = limits.members_shown_max if view.has_cancelling_sweep else limits.match_urls_max
    selected = [take_both_ends(keys_by_first_seen(keys), urls_max) for keys in locations]
    distinct_keys = sorted({key for keys in selected for key in keys})  # each URL is read once
    histories = dict(zip(distinct_keys, view.histories(distinct_keys), strict=True))
    columns = zip(pairs, locations, selected, view.roots(documents), view.titles(documents), strict=True)
    for (row, comparison), keys, selected_keys, root, title in columns:
        occurrences = occurrences_in(view, row, [histories[key] for key in selected_keys])
        if not occurrences.urls:
            continue
        yield Match(
            **msgspec.structs.asdict(comparison),
            document=row.sketch.document.hex(),
            cluster=root.hex(),
            title=title,
            urls=take_both_ends(occurrences.urls, limits.match_urls_max),
            url_count=len(occurrences.urls) if view.has_cancelling_sweep else len(keys),
            first_seen=occurrences.first_seen,
            last_seen=occurrences.last_seen,
        )


class Occurrences(NamedTuple):
    """URLs of a document, possibly truncated, and the times (ms) when it was first and last seen.

    Captures of a sweep that is being cancelled are ignored.
    """

    urls: list[str]
    first_seen: int
    last_seen: int


def read_occurrences(view: View, rows: Sequence[DocumentRow], limit: int) -> list[Occurrences]:
    """Read at most `limit` URLs of each document: half are its earliest locations, half its latest.

    `last_seen` is the time of the last capture of the document at these URLs. The history of each URL is read once,
    however many of the documents were captured there.
    """
    documents_at: defaultdict[bytes, set[bytes]] = defaultdict(set)  # by URL key
    for row in rows:
        (locations,) = view.locations_with_times([row.sketch.document], LOCATIONS_READ_MAX)
        for key in take_both_ends(keys_by_first_seen(locations), limit):
            documents_at[key].add(row.sketch.document)
    histories: defaultdict[bytes, list[list[Capture]]] = defaultdict(list)  # by document
    keys = sorted(documents_at)
    for start in range(0, len(keys), _HISTORIES_PER_READ):
        batch = keys[start : start + _HISTORIES_PER_READ]
        for key, captures in zip(batch, view.histories(batch), strict=True):
            by_document: dict[bytes, list[Capture]] = {}
            for capture in captures:
                if capture.document in documents_at[key]:
                    by_document.setdefault(capture.document, []).append(capture)
            for document, matching in by_document.items():
                histories[document].append(matching)
    return [occurrences_in(view, row, histories[row.sketch.document]) for row in rows]


def occurrences_in(view: View, row: DocumentRow, histories: list[list[Capture]]) -> Occurrences:
    """Return the occurrences of a document in `histories`, one list of captures per URL."""
    urls: list[str] = []
    times: list[int] = []
    for captures in histories:
        matching = [capture for capture in captures if capture.document == row.sketch.document]
        if matching:
            urls.append(matching[-1].url)
            times += [capture.time for capture in matching]
    # `row.first_seen` covers all URLs of the document, but also captures of a sweep that is being cancelled.
    first_seen = min(times, default=0) if view.has_cancelling_sweep else row.first_seen
    return Occurrences(urls, first_seen, max(times, default=0))


def keys_by_first_seen(locations: list[tuple[bytes, int]]) -> list[bytes]:
    """Return the URL keys of a document's locations, the earliest first."""
    return [key for key, _ in sorted(locations, key=lambda location: (location[1], location[0]))]


def take_both_ends(values: list[T], limit: int) -> list[T]:
    """Return at most `limit` values: half from the beginning of the list, half from its end."""
    if len(values) <= limit:
        return values
    return [*values[: limit - limit // 2], *values[len(values) - limit // 2 :]]

"""Score collections and avoid-lists against a crawl with known copies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from streams.analyses.avoid.avoid_list import Entry, deciding_entry
from streams.export.hashes import page_hash
from streams.urls import url_key

PURE = 0.9  # share of a good collection's pages that belong to one copy
COVERED = 0.5  # share of a copy's pages that its good collection contains


class TruePage(NamedTuple):
    """A page of the truth; without a target, it is unrelated."""

    target: str
    copy: int
    url: str
    is_crawled: bool


class Member(NamedTuple):
    """A page of a collection."""

    page: int
    collection: int
    class_id: int
    cluster: int


class Scores(NamedTuple):
    """The figures of one rule."""

    targets: int
    targets_found: int  # good collections cover half of at least two copies
    copies: int
    good: int  # the copy's largest collection is pure, and in a class of its target
    problems: int  # all other collections
    target_pages: float  # share of the crawled target pages that are in the good collection of their copy
    unrelated_pages: int  # in collections


def read_truth(path: Path) -> list[TruePage]:
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [TruePage(target, int(copy), url, state == "crawled") for target, copy, url, state in rows]


def score(members: Iterable[Member], truth: Iterable[TruePage]) -> Scores:
    """Compare collections with the truth. A class belongs to the target with most of its pages."""
    crawled = {page_hash(url_key(page.url)): page for page in truth if page.is_crawled}
    sizes = Counter(page.copy for page in crawled.values() if page.target)
    targets = {page.copy: page.target for page in crawled.values() if page.target}
    copy_pages: defaultdict[int, Counter[int]] = defaultdict(Counter)  # by collection
    class_of: dict[int, int] = {}
    class_targets: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for member in members:
        page = crawled[member.page]
        class_of[member.collection] = member.class_id
        copy_pages[member.collection][page.copy] += 1
        class_targets[member.class_id][page.target] += 1
    good: dict[int, int] = {}  # by copy
    for copy, target in targets.items():
        collection = _largest_collection(copy, copy_pages)
        if (
            collection is not None
            and copy_pages[collection][copy] >= PURE * copy_pages[collection].total()
            and class_targets[class_of[collection]].most_common(1)[0][0] == target
        ):
            good[copy] = collection
    covered = {copy: copy_pages[collection][copy] for copy, collection in good.items()}
    half_covered = Counter(targets[copy] for copy, pages in covered.items() if pages >= COVERED * sizes[copy])
    return Scores(
        targets=len(set(targets.values())),
        targets_found=sum(copies >= 2 for copies in half_covered.values()),
        copies=len(targets),
        good=len(good),
        problems=len(copy_pages) - len(set(good.values())),
        target_pages=sum(covered.values()) / sizes.total(),
        unrelated_pages=sum(counts[""] for counts in class_targets.values()),
    )


def _largest_collection(copy: int, copy_pages: Mapping[int, Counter[int]]) -> int | None:
    candidates = [collection for collection, counts in copy_pages.items() if counts[copy]]
    return max(candidates, key=lambda collection: (copy_pages[collection][copy], collection), default=None)


class AvoidScores(NamedTuple):
    """What a crawl with an avoid-list does not fetch."""

    pages: int
    skipped: float  # share of all pages
    without_copy: float  # share of the skipped pages without a fetched page in the same cluster
    unrelated_lost: float  # share of the unrelated pages that are skipped


def score_avoid(entries: Iterable[Entry], truth: Iterable[TruePage], clusters: Mapping[int, int]) -> AvoidScores:
    """Apply an avoid-list to all pages. `clusters` are those of the complete crawl, by page."""
    by_prefix = {entry.prefix: entry for entry in entries}
    pages = skipped = unrelated = unrelated_skipped = 0
    fetched_clusters: set[int] = set()
    skipped_clusters: list[int] = []
    for page in truth:
        cluster = clusters.get(page_hash(url_key(page.url)))
        if cluster is None:
            continue
        entry = deciding_entry(page.url, by_prefix)
        is_skipped = entry is not None and not entry.keep
        pages += 1
        skipped += is_skipped
        unrelated += not page.target
        unrelated_skipped += is_skipped and not page.target
        if is_skipped:
            skipped_clusters.append(cluster)
        else:
            fetched_clusters.add(cluster)
    lost = sum(cluster not in fetched_clusters for cluster in skipped_clusters)
    return AvoidScores(pages, skipped / max(1, pages), lost / max(1, skipped), unrelated_skipped / max(1, unrelated))

"""Measure which copies of javadoc collections are found by each rule, and what an avoid-list saves and loses.

    python -m bench.replicas.collections CACHE [--seed 21] [--missing 0.3] [--partial 0.2]

Archives are downloaded to CACHE with Maven, crawls are built from them, and their states are kept there too. The
first run takes about half an hour. Prints, for a complete crawl and one without a share of the pages, the figures of
`collection_scores.Scores` for each rule. Then prints what an avoid-list saves that was learned from a crawl without a
share `--partial` of the pages, and applied to all pages.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from bench.replicas import javadocs
from bench.replicas.collection_scores import Member, read_truth, score, score_avoid
from bench.replicas.collection_truth import write
from state.store import Store
from state.view import View
from streams.analyses.avoid.compute_avoid import compute_avoid
from streams.analyses.collections.collection_results import Rule
from streams.analyses.collections.compute_collections import compute
from streams.analyses.current_pages import create_pages
from streams.analyses.sql_engine import DuckDb, SqlEngine
from streams.engine.ingest import ingest
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from streams.query.group import ClassRoots, group
from streams.settings import Settings, load

MEMORY_MIB = 1024
URLS_PER_LIST, LISTS = 100, 50


class Crawl:
    """A crawl in the cache: its truth, its state and its export."""

    def __init__(self, cache: Path, seed: int, missing: float) -> None:
        self.folder = cache / f"crawl-{seed}-{missing:g}"
        self.settings = load()
        if not (self.folder / "complete").exists():
            write(cache / "archives", self.folder, seed, missing)
            self._ingest()
            (self.folder / "complete").touch()
        self.truth = read_truth(self.folder / "truth.tsv")

    def _ingest(self) -> None:
        with Store(self.folder / "state", self.settings.store, create_if_missing=True) as store:
            ingest(store, self.settings, [str(self.folder / "pages.jsonl.zst")], "1", now=time.time_ns() // 10**6)
            limits = SqlLimits(MEMORY_MIB, self.settings.analyses.threads)
            export_state(store, self.folder / "export", limits)

    @contextmanager
    def engine(self) -> Iterator[SqlEngine]:
        threads = self.settings.analyses.threads
        with DuckDb(self.folder / "export", memory_mib=MEMORY_MIB, threads=threads) as engine:
            create_pages(engine, 1)
            yield engine


def report_collections(crawl: Crawl, rule: Rule) -> None:
    settings = crawl.settings.analyses
    with crawl.engine() as engine:
        start = time.process_time()
        result = compute(engine, rule=rule, clusters_min=settings.collection_clusters_min, urls_max=1)
        seconds = time.process_time() - start
        query = """
            SELECT m.page, m.collection, c.class, m.cluster
            FROM collection_members AS m JOIN collections AS c ON c.collection = m.collection
        """
        scores = score((Member(*row) for row in engine.rows(query)), crawl.truth)
    print(
        f"| {crawl.folder.name} | {rule} | {scores.targets_found} of {scores.targets} "
        f"| {scores.good} of {scores.copies} / {scores.problems} | {scores.target_pages:.3f} "
        f"| {scores.unrelated_pages} | {result.links.resolved / result.links.total:.2f} | {seconds:.1f} |"
    )


def report_avoid(partial: Crawl, complete: Crawl) -> None:
    with complete.engine() as engine:
        clusters: dict[int, int] = dict(engine.rows("SELECT page, cluster FROM pages WHERE cluster IS NOT NULL"))
    settings = partial.settings.analyses
    with partial.engine() as engine:
        compute(engine, clusters_min=settings.collection_clusters_min, urls_max=1)
        entries = compute_avoid(engine, copied_share_min=settings.avoid_pure, sample_share=settings.avoid_sample)
    scores = score_avoid(entries, partial.truth, clusters)
    print(
        f"| {partial.folder.name} | {len(entries)} | {scores.pages:,} | {scores.skipped:.3f} "
        f"| {scores.without_copy:.4f} | {scores.unrelated_lost:.4f} |"
    )


def report_group(crawl: Crawl, settings: Settings) -> None:
    """Print the CPU time to fold a list of URLs of all kinds, from stored collections."""
    with crawl.engine() as engine:
        result = compute(engine, clusters_min=settings.analyses.collection_clusters_min, urls_max=1)
    roots = ClassRoots((collection.root, collection.class_) for collection in result.collections)
    urls = [page.url for page in crawl.truth]
    rng = random.Random(1)
    seconds = []
    with Store(crawl.folder / "state", settings.store, writable=False) as store:
        view = View(store)
        for _ in range(LISTS):
            urls_of_list = rng.sample(urls, URLS_PER_LIST)
            start = time.thread_time()
            group(view, urls_of_list, roots)
            seconds.append(time.thread_time() - start)
    median = sorted(seconds)[LISTS // 2]
    print(f"\nfolding {URLS_PER_LIST} URLs: {median * 1000:.2f} ms of CPU time, the median of {LISTS} lists")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--missing", type=float, default=0.3)
    parser.add_argument("--partial", type=float, default=0.2)
    arguments = parser.parse_args()
    javadocs.download(arguments.cache / "archives")
    complete, incomplete, partial = (
        Crawl(arguments.cache, arguments.seed, missing) for missing in (0.0, arguments.missing, arguments.partial)
    )
    print(
        "| crawl | rule | targets found | good / problem | target pages | unrelated pages | links resolved | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for crawl in (complete, incomplete):
        for rule in get_args(Rule):
            report_collections(crawl, rule)
    print("\n| learned from | entries | pages | not fetched | of these without a copy | unrelated pages lost |")
    print("|---|---|---|---|---|---|")
    for crawl in (incomplete, partial):
        report_avoid(crawl, complete)
    report_group(complete, complete.settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Report the clusters of replicated trees, such as several releases of one manual.

    python -m bench.replicas.clusters SET [SET...] > replicas.md

A SET is a folder with pages.jsonl.zst: trees of one site below one prefix, `prefix/TREE/path`. The set is ingested
into a fresh state with the default settings. Its clusters are compared with exact sets of 4-word shingles of the same
texts. Pages with the same path in two trees are treated as versions of one page.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.codecs import edge_row
from state.families import Family
from state.store import Store
from state.view import View
from streams import query
from streams import settings as settings_module
from streams.engine.ingest import ingest
from streams.settings import Settings
from streams.sketch.sketcher import Sketcher

MARGIN = 0.1  # pairs this far above the threshold must be found
SHOWN_URLS, SHOWN_CHANGES, SHOWN_WORDS = 4, 3, 14
SHOWN = 4  # examples per section


class Page(NamedTuple):
    """A page: its tree, its path in the tree, and its document."""

    url: str
    tree: str
    path: str
    document: bytes


class Replicas:
    """An ingested set: its pages, clusters and exact shingles."""

    def __init__(self, view: View, settings: Settings) -> None:
        self.view, self.settings = view, settings
        self.pages = _pages(view)
        self.clusters = list(query.clusters(view, min_size=2))
        self.cluster_of: dict[str, str] = {url: cluster.cluster for cluster in self.clusters for url in cluster.urls}
        self.edges = [edge_row.decode(*row) for row in view.store.scan(Family.EDGES)]
        sketcher = Sketcher(settings.scheme)
        texts = {page.document: view.text(page.document) or "" for page in self.pages}
        self.texts = texts
        self.shingles = {document: sketcher.shingle_hashes(text) for document, text in texts.items()}

    def resemblance(self, a: bytes, b: bytes) -> float:
        """Return the exact resemblance, computed from sets of shingle hashes."""
        common = len(np.intersect1d(self.shingles[a], self.shingles[b], assume_unique=True))
        union = len(self.shingles[a]) + len(self.shingles[b]) - common
        return common / union if union else 0.0

    def is_joined(self, a: Page, b: Page) -> bool:
        """Return whether two pages have the same document or cluster."""
        return a.document == b.document or self.cluster_of.get(a.url, a.url) == self.cluster_of.get(b.url)

    def same_paths(self) -> Iterator[tuple[Page, Page]]:
        """Yield the pairs of pages with the same path in different trees."""
        by_path: defaultdict[str, list[Page]] = defaultdict(list)
        for page in self.pages:
            by_path[page.path].append(page)
        for versions in by_path.values():
            yield from combinations(versions, 2)


def _pages(view: View) -> list[Page]:
    """Return one page per URL, from its last capture with a document."""
    last_documents = {capture.url: capture.document for capture in view.all_captures() if capture.document}
    prefix = os.path.commonprefix(list(last_documents))  # noqa: RUF071  the next line removes an incomplete segment
    prefix = prefix[: prefix.rfind("/") + 1]
    pages = []
    for url, document in last_documents.items():
        tree, _, path = url[len(prefix) :].partition("/")
        pages.append(Page(url, tree, path, document))
    return pages


def figures(replicas: Replicas) -> list[tuple[str, str]]:
    """Return the labels and values of the summary table."""
    threshold = replicas.settings.policy.threshold
    pairs = [(a, b, replicas.resemblance(a.document, b.document)) for a, b in replicas.same_paths()]
    above = [(a, b) for a, b, exact in pairs if exact >= threshold]
    well_above = [(a, b) for a, b, exact in pairs if exact >= threshold + MARGIN]
    exact_edges = np.array([replicas.resemblance(edge.a, edge.b) for edge in replicas.edges])
    mixed = [cluster for cluster in replicas.clusters if len(_paths(replicas, cluster.urls)) > 1]
    return [
        ("pages, trees", f"{len(replicas.pages):,}, {len({page.tree for page in replicas.pages})}"),
        ("distinct documents", f"{len(replicas.texts):,}"),
        ("clusters of two or more documents", f"{len(replicas.clusters):,}"),
        ("of these with pages of a single path", f"{len(replicas.clusters) - len(mixed):,}"),
        (f"pairs of one path with exact resemblance ≥ {threshold}", f"{len(above):,}"),
        ("of these in one cluster", _share(replicas, above)),
        (f"pairs of one path with exact resemblance ≥ {threshold + MARGIN:.1f}", f"{len(well_above):,}"),
        ("of these in one cluster", _share(replicas, well_above)),
        ("verified edges", f"{len(replicas.edges):,}"),
        (f"of these with exact resemblance ≥ {threshold}", _at_least(exact_edges, threshold)),
        (f"of these with exact resemblance ≥ {threshold - 0.05:.2f}", _at_least(exact_edges, threshold - 0.05)),
    ]


def _share(replicas: Replicas, pairs: list[tuple[Page, Page]]) -> str:
    joined = [replicas.is_joined(a, b) for a, b in pairs]
    return f"{sum(joined):,} ({np.mean(joined):.3f})" if pairs else "none"


def _at_least(values: NDArray[np.float64], minimum: float) -> str:
    return f"{int((values >= minimum).sum()):,} ({(values >= minimum).mean():.3f})" if len(values) else "none"


def _paths(replicas: Replicas, urls: list[str]) -> set[str]:
    url_set = set(urls)
    return {page.path for page in replicas.pages if page.url in url_set}


def trees(replicas: Replicas, limit: int = 8) -> list[tuple[str, str, int, int]]:
    """Return the most similar pairs of trees: (tree, tree, shared paths, shared paths in one cluster)."""
    shared: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for a, b in replicas.same_paths():
        names = (min(a.tree, b.tree), max(a.tree, b.tree))
        shared[names].append(replicas.is_joined(a, b))
    rows = [(*names, len(joined), sum(joined)) for names, joined in shared.items() if len(joined) >= 20]
    return sorted(rows, key=lambda row: (-row[3] / row[2], -row[2], row))[:limit]


def changes(a: str, b: str) -> list[str]:
    """Return the first differences between two texts, word by word, as Markdown."""
    left, right = a.split()[:3000], b.split()[:3000]
    differences: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "equal" and len(differences) < SHOWN_CHANGES:
            differences.append(f"{_quoted(left[i:j])} → {_quoted(right[k:m])}")
    return differences


def _quoted(words: list[str]) -> str:
    text = " ".join(words[:SHOWN_WORDS]) + (" ..." if len(words) > SHOWN_WORDS else "")
    return f"`{text.replace('`', chr(39))}`" if words else "nothing"


def report(name: str, replicas: Replicas) -> Iterator[str]:
    """Yield the report on one set as lines of Markdown."""
    yield f"# {name}\n"
    yield "| what | figure |\n|---|---|"
    yield from (f"| {what} | {figure} |" for what, figure in figures(replicas))
    yield "\n## The most similar pairs of trees\n"
    yield "| tree | tree | paths in both | in one cluster |\n|---|---|---|---|"
    yield from (
        f"| {a} | {b} | {count} | {joined} ({joined / count:.2f}) |" for a, b, count, joined in trees(replicas)
    )
    yield "\n## The largest clusters\n"
    for cluster in replicas.clusters[:SHOWN]:
        yield from _example(replicas, cluster)
    yield "\n## Further clusters with pages of several paths\n"
    mixed = [cluster for cluster in replicas.clusters[SHOWN:] if len(_paths(replicas, cluster.urls)) > 1]
    for cluster in mixed[:SHOWN]:
        yield from _example(replicas, cluster)
    yield "\n## Just below the threshold, in different clusters\n"
    for a, b, exact in _near_misses(replicas):
        yield f"- {a.url} and {b.url}: resemblance {exact:.3f}"
        yield from (f"    - {change}" for change in changes(replicas.texts[a.document], replicas.texts[b.document]))


def _example(replicas: Replicas, cluster: query.Cluster) -> Iterator[str]:
    paths = sorted(_paths(replicas, cluster.urls))
    yield f"- {cluster.document_count} documents at {cluster.url_count} URLs, paths: {', '.join(paths[:SHOWN_URLS])}"
    yield from (f"    - {url}" for url in cluster.urls[:SHOWN_URLS])
    inside = [
        edge for edge in replicas.edges if edge.a.hex() in cluster.documents and edge.b.hex() in cluster.documents
    ]
    if not inside:
        return
    weakest = min(inside, key=lambda edge: edge.resemblance)
    exact = replicas.resemblance(weakest.a, weakest.b)
    yield f"    - its weakest edge: estimated {weakest.resemblance:.3f}, exactly {exact:.3f}; differences:"
    yield from (f"        - {change}" for change in changes(replicas.texts[weakest.a], replicas.texts[weakest.b]))


def _near_misses(replicas: Replicas) -> list[tuple[Page, Page, float]]:
    threshold = replicas.settings.policy.threshold
    apart = [
        (a, b, replicas.resemblance(a.document, b.document))
        for a, b in replicas.same_paths()
        if replicas.cluster_of.get(a.url, a.url) != replicas.cluster_of.get(b.url, b.url)
    ]
    close = sorted((row for row in apart if row[2] < threshold), key=lambda row: (-row[2], row[0].url, row[1].url))
    return close[:SHOWN]


def main() -> int:
    parser = argparse.ArgumentParser(description="Report the clusters of replicated trees, in Markdown.")
    parser.add_argument("sets", type=Path, nargs="+")
    settings = settings_module.load()
    for folder in parser.parse_args().sets:
        pages = folder / "pages.jsonl.zst"
        if not pages.exists():
            print(f"{folder} is not a set of replicas: it has no pages.jsonl.zst", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory() as scratch, Store(Path(scratch) / "state", settings.store) as store:
            ingest(store, settings, [str(pages)], folder.name, now=1_700_000_000_000)
            print("\n".join(report(folder.name, Replicas(View(store), settings))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Clusters of replicated trees, such as releases of one manual side by side, as a short report for a person to judge.

    python -m bench.replicas SET [SET...] > replicas.md

A SET is a folder with pages.jsonl.zst: trees of one site below one prefix, `prefix/TREE/path`. It is ingested into a
fresh state with the settings as they come, and its clusters are held against exact sets of 4-word shingles of the
same texts. Pages at one path in two trees are taken for versions of one page, which is how a person would begin.
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

MARGIN = 0.1  # pairs this far above the threshold are to be found
SHOWN_URLS, SHOWN_CHANGES, SHOWN_WORDS = 4, 3, 14
SHOWN = 4  # examples of a kind


class Page(NamedTuple):
    """A page by its place: the tree that it is in, its path there, and its document."""

    url: str
    tree: str
    path: str
    document: bytes


class Replicas:
    """A set, ingested: its pages, clusters and exact shingles."""

    def __init__(self, view: View, settings: Settings) -> None:
        self.view, self.settings = view, settings
        self.pages = _pages(view)
        self.clusters = list(query.clusters(view, min_size=2))
        self.of: dict[str, str] = {url: each.cluster for each in self.clusters for url in each.urls}
        self.edges = [edge_row.decode(*row) for row in view.store.scan(Family.EDGES)]
        sketcher = Sketcher(settings.scheme)
        texts = {page.document: view.text(page.document) or "" for page in self.pages}
        self.texts = texts
        self.shingles = {document: sketcher.shingle_hashes(text) for document, text in texts.items()}

    def resemblance(self, a: bytes, b: bytes) -> float:
        """Exact, by sets of shingle hashes."""
        common = len(np.intersect1d(self.shingles[a], self.shingles[b], assume_unique=True))
        union = len(self.shingles[a]) + len(self.shingles[b]) - common
        return common / union if union else 0.0

    def same_paths(self) -> Iterator[tuple[Page, Page]]:
        """Pairs of pages with the same path in two trees."""
        by_path: defaultdict[str, list[Page]] = defaultdict(list)
        for page in self.pages:
            by_path[page.path].append(page)
        for held in by_path.values():
            yield from combinations(held, 2)


def _pages(view: View) -> list[Page]:
    """The last capture of every URL that holds a document."""
    last = {capture.url: capture.document for capture in view.all_captures() if capture.document}
    head = os.path.commonprefix(list(last))  # noqa: RUF071  of the characters, which the next line cuts
    head = head[: head.rfind("/") + 1]
    found = []
    for url, document in last.items():
        tree, _, path = url[len(head) :].partition("/")
        found.append(Page(url, tree, path, document))
    return found


def figures(held: Replicas) -> list[tuple[str, str]]:
    """What is counted, and the counts."""
    threshold = held.settings.policy.threshold
    pairs = [(a, b, held.resemblance(a.document, b.document)) for a, b in held.same_paths()]
    alike = [(a, b) for a, b, exact in pairs if exact >= threshold]
    clear = [(a, b) for a, b, exact in pairs if exact >= threshold + MARGIN]
    exact_edges = np.array([held.resemblance(edge.a, edge.b) for edge in held.edges])
    mixed = [each for each in held.clusters if len(_paths(held, each.urls)) > 1]
    return [
        ("pages, trees", f"{len(held.pages):,}, {len({page.tree for page in held.pages})}"),
        ("distinct documents", f"{len(held.texts):,}"),
        ("clusters of two or more documents", f"{len(held.clusters):,}"),
        ("of these with pages of one path only", f"{len(held.clusters) - len(mixed):,}"),
        (f"pairs of one path with resemblance ≥ {threshold}, exactly", f"{len(alike):,}"),
        ("of these in one cluster", _share(held, alike)),
        (f"pairs of one path with resemblance ≥ {threshold + MARGIN:.1f}", f"{len(clear):,}"),
        ("of these in one cluster", _share(held, clear)),
        ("verified edges", f"{len(held.edges):,}"),
        (f"of these with exact resemblance ≥ {threshold}", _at_least(exact_edges, threshold)),
        (f"of these with exact resemblance ≥ {threshold - 0.05:.2f}", _at_least(exact_edges, threshold - 0.05)),
    ]


def _share(held: Replicas, pairs: list[tuple[Page, Page]]) -> str:
    together = [a.document == b.document or held.of.get(a.url, a.url) == held.of.get(b.url) for a, b in pairs]
    return f"{sum(together):,} ({np.mean(together):.3f})" if pairs else "none"


def _at_least(values: NDArray[np.float64], least: float) -> str:
    return f"{int((values >= least).sum()):,} ({(values >= least).mean():.3f})" if len(values) else "none"


def _paths(held: Replicas, urls: list[str]) -> set[str]:
    wanted = set(urls)
    return {page.path for page in held.pages if page.url in wanted}


def trees(held: Replicas, most: int = 8) -> list[tuple[str, str, int, int]]:
    """Pairs of trees that replicate one another most: shared paths, and how many of them are in one cluster."""
    shared: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for a, b in held.same_paths():
        names = (min(a.tree, b.tree), max(a.tree, b.tree))
        shared[names].append(a.document == b.document or held.of.get(a.url, a.url) == held.of.get(b.url))
    rows = [(*names, len(found), sum(found)) for names, found in shared.items() if len(found) >= 20]
    return sorted(rows, key=lambda row: (-row[3] / row[2], -row[2], row))[:most]


def changes(a: str, b: str) -> list[str]:
    """The first passages in which two texts differ, as Markdown; words, not lines."""
    left, right = a.split()[:3000], b.split()[:3000]
    found: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "equal" and len(found) < SHOWN_CHANGES:
            found.append(f"{_quoted(left[i:j])} → {_quoted(right[k:m])}")
    return found


def _quoted(words: list[str]) -> str:
    text = " ".join(words[:SHOWN_WORDS]) + (" ..." if len(words) > SHOWN_WORDS else "")
    return f"`{text.replace('`', chr(39))}`" if words else "nothing"


def report(name: str, held: Replicas) -> Iterator[str]:
    """The report on one set, in lines of Markdown."""
    yield f"# {name}\n"
    yield "| what | figure |\n|---|---|"
    yield from (f"| {what} | {figure} |" for what, figure in figures(held))
    yield "\n## Trees that replicate one another most\n"
    yield "| tree | tree | paths in both | in one cluster |\n|---|---|---|---|"
    yield from (
        f"| {a} | {b} | {count} | {together} ({together / count:.2f}) |" for a, b, count, together in trees(held)
    )
    yield "\n## The largest clusters\n"
    for each in held.clusters[:SHOWN]:
        yield from _example(held, each)
    yield "\n## Further clusters with pages of several paths\n"
    mixed = [each for each in held.clusters[SHOWN:] if len(_paths(held, each.urls)) > 1]
    for each in mixed[:SHOWN]:
        yield from _example(held, each)
    yield "\n## Just below the threshold, and apart\n"
    for a, b, exact in _near_misses(held):
        yield f"- {a.url} and {b.url}: resemblance {exact:.3f}"
        yield from (f"    - {change}" for change in changes(held.texts[a.document], held.texts[b.document]))


def _example(held: Replicas, each: query.Cluster) -> Iterator[str]:
    paths = sorted(_paths(held, each.urls))
    yield f"- {each.document_count} documents at {each.url_count} URLs, paths: {', '.join(paths[:SHOWN_URLS])}"
    yield from (f"    - {url}" for url in each.urls[:SHOWN_URLS])
    inside = [edge for edge in held.edges if edge.a.hex() in each.documents and edge.b.hex() in each.documents]
    if not inside:
        return
    least = min(inside, key=lambda edge: edge.resemblance)
    exact = held.resemblance(least.a, least.b)
    yield f"    - its weakest edge: estimated {least.resemblance:.3f}, exactly {exact:.3f}; it differs in"
    yield from (f"        - {change}" for change in changes(held.texts[least.a], held.texts[least.b]))


def _near_misses(held: Replicas) -> list[tuple[Page, Page, float]]:
    threshold = held.settings.policy.threshold
    apart = [
        (a, b, held.resemblance(a.document, b.document))
        for a, b in held.same_paths()
        if held.of.get(a.url, a.url) != held.of.get(b.url, b.url)
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
            print(f"{folder}: no pages.jsonl.zst, not a set of replicas", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory() as scratch, Store(Path(scratch) / "state", settings.store) as store:
            ingest(store, settings, [str(pages)], folder.name, now=1_700_000_000_000)
            print("\n".join(report(folder.name, Replicas(View(store), settings))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

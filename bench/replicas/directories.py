"""Measure how many replicated directories are found, and how many of the reported ones are right.

    python -m bench.replicas.directories ARCHIVES [--seeds 21 22] [--sets FOLDER...]

Packages are downloaded to the folder ARCHIVES unless it contains them. `tree_truth` builds a crawl from them for each
seed, complete and with missing pages. Both methods analyse it, after a normal ingest. A SET is a folder with real trees
of one site, `prefix/TREE/path`, in pages.jsonl.zst.

A tree is found if reported pairs contain at least half of its pairs of pages. Its boundary is right if exactly this pair
of directories is reported. A reported pair is right if it lies in a pair of trees, or if AGREEMENT_MIN of its common
paths have pages whose exact resemblance is at least RESEMBLANCE_MIN.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from bench.engine import FETCHED, one_process_settings, temporary_folder
from bench.replicas import debian_docs, javadocs
from bench.replicas.tree_truth import TreePair, build
from state.store import Store
from state.view import View
from streams.analyses.current_pages import create_pages
from streams.analyses.replicas import METHODS, Replica, compute
from streams.analyses.sql_engine import DuckDb
from streams.engine.ingest import ingest
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from streams.sketch.sketcher import Sketcher

RESEMBLANCE_MIN, AGREEMENT_MIN = 0.5, 0.8
VERSIONS_MIN = 0.75  # of the pages of both releases resemble a page with the same path
MEMORY_MIB = 1024
EXAMPLES = 8  # of wrong and missed pairs, printed to stderr


class Texts:
    """The exact shingles of the pages of a crawl, by URL."""

    def __init__(self, view: View, sketcher: Sketcher) -> None:
        self._view, self._sketcher = view, sketcher
        self._documents = {capture.url: capture.document for capture in view.all_captures() if capture.document}
        self._shingles = lru_cache(maxsize=20_000)(self._read_shingles)
        self._paths: defaultdict[str, set[str]] = defaultdict(set)
        for url in self._documents:
            for position, character in enumerate(url):
                if character == "/":
                    self._paths[url[: position + 1]].add(url[position + 1 :])

    def paths(self, prefix: str) -> set[str]:
        return self._paths[prefix]

    def resembling(self, a: str, b: str) -> tuple[int, int]:
        """Return how many paths two directories have in common, and on how many of these the pages resemble."""
        common = self.paths(a) & self.paths(b)
        return len(common), sum(self._resemblance(a + path, b + path) >= RESEMBLANCE_MIN for path in common)

    def _resemblance(self, a: str, b: str) -> float:
        if self._documents[a] == self._documents[b]:
            return 1.0
        shingles_a, shingles_b = self._shingles(self._documents[a]), self._shingles(self._documents[b])
        common = len(np.intersect1d(shingles_a, shingles_b, assume_unique=True))
        return common / max(1, len(shingles_a) + len(shingles_b) - common)

    def _read_shingles(self, document: bytes) -> NDArray[np.uint32]:
        return self._sketcher.shingle_hashes(self._view.text(document) or "")


class Score(NamedTuple):
    """What a method found in a crawl, by kind of tree."""

    trees: Counter[str]
    detected: Counter[str]
    exact: Counter[str]  # the pairs with the right boundary
    reported: int
    right: int
    wrong: list[Replica]
    missed: list[TreePair]  # not found, or with another boundary


def score(results: list[Replica], pairs: list[TreePair], texts: Texts) -> Score:
    """Compare reported pairs with the pairs of trees."""
    trees, detected, exact = Counter[str](), Counter[str](), Counter[str]()
    reported = {(replica.a, replica.b) for replica in results}
    true_pairs = [pair for pair in pairs if _is_replica(pair, texts)]
    explained = set()
    missed = []
    for pair in true_pairs:
        trees[pair.kind] += 1
        exact[pair.kind] += pair[1:] in reported
        inside = [names for names in reported if _relative(names, pair[1:]) is not None]
        outside = [names for names in reported if _relative(pair[1:], names) is not None]
        explained.update(inside)
        common = texts.paths(pair.a) & texts.paths(pair.b)
        starts = tuple(_relative(names, pair[1:]) or "" for names in inside)
        covered = len(common) if outside else sum(path.startswith(starts) for path in common)
        is_detected = covered >= len(common) / 2 and bool(inside or outside)
        detected[pair.kind] += is_detected
        if not is_detected or pair[1:] not in reported:
            missed.append(pair)
    wrong = [
        replica for replica in results if (replica.a, replica.b) not in explained and not _is_right(replica, texts)
    ]
    return Score(trees, detected, exact, len(results), len(results) - len(wrong), wrong, missed)


def _is_replica(pair: TreePair, texts: Texts) -> bool:
    if pair.kind != "versions":
        return True
    pages = max(len(texts.paths(pair.a)), len(texts.paths(pair.b)))
    return texts.resembling(pair.a, pair.b)[1] >= VERSIONS_MIN * pages


def _is_right(replica: Replica, texts: Texts) -> bool:
    common, resembling = texts.resembling(replica.a, replica.b)
    return common > 0 and resembling >= AGREEMENT_MIN * common


def _relative(inner: tuple[str, str], outer: tuple[str, str]) -> str | None:
    """Return the path from one pair of directories to a pair of the same directories below them, or None."""
    for a, b in (outer, outer[::-1]):
        if inner[0].startswith(a) and inner[1].startswith(b) and inner[0][len(a) :] == inner[1][len(b) :]:
            return inner[0][len(a) :]
    return None


def measure(pages: Path, pairs: list[TreePair] | None) -> Iterator[tuple[str, Score]]:
    """Yield the score of each method. Without `pairs`, all pairs of trees of the set are compared."""
    settings = one_process_settings({"keep_links": "off", "index_find": False})
    with temporary_folder() as folder, Store(folder / "state", settings.store) as store:
        ingest(store, settings, [str(pages)], "crawl", now=FETCHED)
        export_state(store, folder / "data", SqlLimits(MEMORY_MIB, 1))
        view = View(store)
        texts = Texts(view, Sketcher(settings.scheme))
        for method in METHODS:
            with DuckDb(folder / "data", memory_mib=MEMORY_MIB, threads=1) as engine:
                create_pages(engine, sweep=1)
                results = compute(engine, settings.analyses, method)
            yield method, score(results, pairs or _pairs_of_trees(view), texts)


def _pairs_of_trees(view: View) -> list[TreePair]:
    """Return all pairs of the directories that are directly below the longest common directory of all URLs."""
    urls = sorted(capture.url for capture in view.all_captures() if capture.document)
    first, last = urls[0], urls[-1]
    length = next(n for n in range(len(first)) if first[n] != last[n])
    prefix = first[: first.rfind("/", 0, length) + 1]
    trees = sorted({url[: url.find("/", len(prefix)) + 1] for url in urls} - {""})
    return [TreePair("versions", a, b) for number, a in enumerate(trees) for b in trees[number + 1 :]]


def print_scores(title: str, scores: Iterable[tuple[str, Score]]) -> None:
    """Print a table with a row for each method and kind of tree."""
    print(f"\n### {title}\n")
    print("| method | kind | found | boundary | reported | right |\n|---|---|---|---|---|---|")
    for method, result in scores:
        for kind, trees in result.trees.items():
            boundary = result.exact[kind] / max(1, result.detected[kind])
            print(
                f"| {method} | {kind} | {result.detected[kind]} of {trees} | {boundary:.3f} "
                f"| {result.reported} | {result.right / max(1, result.reported):.3f} |"
            )
        for row in (*result.wrong[:EXAMPLES], *result.missed[:EXAMPLES]):
            print(f"{method}: {'wrong' if isinstance(row, Replica) else 'missed'} {row}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how many replicated directories are found.")
    parser.add_argument("archives", type=Path, help="folder of downloaded packages; created if necessary")
    parser.add_argument("--seeds", type=int, nargs="*", default=[21, 22, 23])
    parser.add_argument("--sets", type=Path, nargs="*", default=[], help="folders with pages.jsonl.zst")
    arguments = parser.parse_args()
    for folder in arguments.sets:
        print_scores(folder.name, measure(folder / "pages.jsonl.zst", None))
    if arguments.seeds:
        debian_docs.download(arguments.archives / "debs")
        javadocs.download(arguments.archives / "jars")
    for seed in arguments.seeds:
        for incomplete in (False, True):
            with temporary_folder() as folder:
                crawl = build(arguments.archives, seed, incomplete=incomplete)
                pages = folder / "pages.jsonl.zst"
                lines = (msgspec.json.encode({"url": url, "html": html}) for url, html in crawl.pages.items())
                pages.write_bytes(zstandard.compress(b"\n".join(lines), level=1))
                title = f"seed {seed}, {'10-50 % missing' if incomplete else 'complete'}, {len(crawl.pages):,} pages"
                print_scores(title, measure(pages, crawl.pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Edges and clusters of the engine against exact shingle sets; every pair of documents is compared.

Two questions: which share of the pairs at least 0.1 above the threshold ended in one cluster, and does any stored edge
join documents whose true resemblance is below the threshold by more than the estimate's stated error?
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.engine import one_process, scratch, take, write_pages
from bench.generator import Shape, texts
from bench.peers import shingles_of
from state.codecs import edge_row
from state.families import Family
from state.store import Store
from state.view import View
from streams.sketch.sketcher import Sketcher, compare

ALIKE: dict[str, Any] = {
    "near_share": 0.6,
    "pages_per_cluster": 40,
    "words_median": 200,
}  # many pairs near the threshold
ERRORS_MAX = 3.0  # standard errors; chance alone exceeds them for 0.13 % of pairs


def against_exact(documents: int) -> dict[str, Any]:
    """Compare all pairs of synthetic documents (a few thousand are enough) and return shares and counts."""
    settings = one_process()
    threshold = settings.policy.threshold
    corpus = list(dict.fromkeys(texts(Shape(**ALIKE), 0, documents)))
    alike = resemblances(corpus, settings.scheme.shingle_words)
    ids = Sketcher(settings.scheme).sketch_batch(corpus).documents
    index = {document: i for i, document in enumerate(ids)}
    with scratch() as folder, Store(folder / "state", settings.store) as store:
        take(store, settings, write_pages(folder / "pages.jsonl", documents, **ALIKE), "sweep")
        view = View(store)
        roots = [view.root(document) for document in ids]
        lefts, rights = np.nonzero(np.triu(alike >= threshold + 0.1, 1))
        joined = sum(roots[a] == roots[b] for a, b in zip(lefts.tolist(), rights.tolist(), strict=True))
        edges = [edge_row.decode(key, value) for key, value in store.scan(Family.EDGES)]
        short, truths = 0, []
        for edge in edges:
            a, b = view.document(edge.a), view.document(edge.b)
            assert a is not None
            assert b is not None
            truths.append(float(alike[index[edge.a], index[edge.b]]))
            short += threshold - truths[-1] > ERRORS_MAX * compare(a.sketch, b.sketch).resemblance_error + 1e-9
    return {
        "documents": len(corpus),
        "pairs": len(lefts),
        "joined": joined / max(1, len(lefts)),
        "edges": len(edges),
        "edges_below": sum(truth < threshold for truth in truths) / max(1, len(edges)),
        "edges_short": short / max(1, len(edges)),
        "lowest": min(truths, default=threshold),
    }


def resemblances(corpus: list[str], width: int) -> NDArray[np.float64]:
    """Return the exact resemblance of every pair, float64[n, n]."""
    names: dict[str, int] = {}
    rows = [[names.setdefault(shingle, len(names)) for shingle in shingles_of(text, width)] for text in corpus]
    holders: list[list[int]] = [[] for _ in names]
    for i, row in enumerate(rows):
        for name in row:
            holders[name].append(i)
    lists = [np.array(holder) for holder in holders]
    sizes = np.array([len(row) for row in rows])
    matrix = np.empty((len(rows), len(rows)))
    for i, row in enumerate(rows):
        common = np.bincount(np.concatenate([lists[name] for name in row]), minlength=len(rows))
        matrix[i] = common / (sizes[i] + sizes - common)
    return matrix


if __name__ == "__main__":
    print(against_exact(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))

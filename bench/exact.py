"""Compare the engine's edges and clusters with exact shingle sets of all pairs of documents.

This answers two questions. Of the pairs at least 0.1 above the threshold, which share ended in one cluster? And which
share of the edges join documents whose exact resemblance is far below the threshold, given the stated error?
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.engine import ingest_file, one_process_settings, temporary_folder, write_pages
from bench.generator import Shape, texts
from bench.peers import shingles_of
from state.codecs import edge_row
from state.families import Family
from state.store import Store
from state.view import View
from streams.sketch.sketcher import Sketcher, compare

# Many pairs have a resemblance near the threshold.
ALIKE: dict[str, Any] = {"near_share": 0.6, "pages_per_cluster": 40, "words_median": 200}
ERRORS_MAX = 3.0  # in standard errors; 0.13% of pairs exceed this by chance


def compare_with_exact(documents: int) -> dict[str, Any]:
    """Compare all pairs of synthetic documents, of which a few thousand are enough. Return shares and counts."""
    settings = one_process_settings()
    threshold = settings.policy.threshold
    corpus = list(dict.fromkeys(texts(Shape(**ALIKE), 0, documents)))
    exact = exact_resemblances(corpus, settings.scheme.shingle_words)
    ids = Sketcher(settings.scheme).sketch_batch(corpus).documents
    index = {document: i for i, document in enumerate(ids)}
    with temporary_folder() as folder, Store(folder / "state", settings.store) as store:
        ingest_file(store, settings, write_pages(folder / "pages.jsonl", documents, **ALIKE), "sweep")
        view = View(store)
        roots = [view.root(document) for document in ids]
        lefts, rights = np.nonzero(np.triu(exact >= threshold + 0.1, 1))
        joined = sum(roots[a] == roots[b] for a, b in zip(lefts.tolist(), rights.tolist(), strict=True))
        edges = [edge_row.decode(key, value) for key, value in store.scan(Family.EDGES)]
        far_below, truths = 0, []
        for edge in edges:
            a, b = view.document(edge.a), view.document(edge.b)
            assert a is not None
            assert b is not None
            truths.append(float(exact[index[edge.a], index[edge.b]]))
            far_below += threshold - truths[-1] > ERRORS_MAX * compare(a.sketch, b.sketch).resemblance_error + 1e-9
    return {
        "documents": len(corpus),
        "pairs": len(lefts),
        "joined": joined / max(1, len(lefts)),
        "edges": len(edges),
        "edges_below": sum(truth < threshold for truth in truths) / max(1, len(edges)),
        "edges_short": far_below / max(1, len(edges)),
        "lowest": min(truths, default=threshold),
    }


def exact_resemblances(corpus: list[str], width: int) -> NDArray[np.float64]:
    """Return the exact resemblance of every pair, float64[n, n]."""
    number_of: dict[str, int] = {}
    rows = [
        [number_of.setdefault(shingle, len(number_of)) for shingle in shingles_of(text, width)] for text in corpus
    ]
    lists: list[list[int]] = [[] for _ in number_of]
    for i, row in enumerate(rows):
        for number in row:
            lists[number].append(i)
    documents_with = [np.array(documents) for documents in lists]
    sizes = np.array([len(row) for row in rows])
    matrix = np.empty((len(rows), len(rows)))
    for i, row in enumerate(rows):
        common = np.bincount(np.concatenate([documents_with[number] for number in row]), minlength=len(rows))
        matrix[i] = common / (sizes[i] + sizes - common)
    return matrix


if __name__ == "__main__":
    print(compare_with_exact(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))

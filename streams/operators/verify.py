"""verify: compares the sketches of candidate pairs, and writes an edge for every pair at or above the threshold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.changes import Changes
from state.codecs import edge_row
from state.families import Family
from state.model import Sketch
from streams.operators.forest import DisjointSets
from streams.operators.join import Union, union
from streams.operators.messages import CandidatePair
from streams.sketch.sketcher import Comparison, Comparisons, compare_pairs, to_batch


class NearPairs(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs at or above the threshold. Row `rows[i]` of `figures` contains the comparison of pair i."""

    ids: list[bytes]  # the documents of pair i are `ids[lefts[i]]` and `ids[rights[i]]`
    lefts: NDArray[np.int64]
    rights: NDArray[np.int64]
    rows: NDArray[np.int64]
    figures: Comparisons


class VerifyResult(msgspec.Struct, frozen=True):
    """The result of `verify`; `near_pairs` is None if nothing was compared."""

    changes: Changes
    unions: list[Union]
    pairs_compared: int
    near_pairs: NearPairs | None = None


def verify(
    pairs: Sequence[CandidatePair],
    documents: Mapping[bytes, Sketch],
    candidates: Mapping[bytes, Sequence[Sketch]],
    threshold: float,
) -> VerifyResult:
    """Compare each pair once. Return edges and unions for the pairs at or above the threshold.

    `documents` maps ids to the sketches of the pairs' documents. `candidates` maps each prefix to the sketches of all
    documents whose ids begin with it. A candidate without a sketch has been deleted and is skipped.
    """
    candidates = {pair.prefix: candidates.get(pair.prefix, ()) for pair in pairs}
    sketches = {sketch.document: sketch for group in (documents.values(), *candidates.values()) for sketch in group}
    ids = sorted(sketches)
    index_pairs = _to_index_pairs(pairs, candidates, ids)
    if not index_pairs:
        return VerifyResult(Changes(), [], 0)
    lefts, rights = np.array(sorted(index_pairs), np.int64).T
    columns = to_batch([sketches[document] for document in ids])
    figures = compare_pairs(columns, columns, lefts, rights)
    rows = np.flatnonzero(figures.resemblance >= threshold)
    near_pairs = NearPairs(ids=ids, lefts=lefts[rows], rights=rights[rows], rows=rows, figures=figures)
    changes = Changes()
    ratios = (figures.resemblance[rows], figures.containment[rows], figures.contained[rows])
    changes.puts_of(Family.EDGES).update(edge_row.encode_many(ids, near_pairs.lefts, near_pairs.rights, *ratios))
    # Keep only the unions that merge two sets: n near-copies need n - 1 unions, not one per pair.
    sets = DisjointSets[int]()
    pair_indexes = zip(near_pairs.lefts.tolist(), near_pairs.rights.tolist(), strict=True)
    unions = [union(ids[left], ids[right]) for left, right in pair_indexes if sets.union(left, right)]
    return VerifyResult(changes, unions, len(index_pairs), near_pairs)


def _to_index_pairs(
    pairs: Sequence[CandidatePair], candidates: Mapping[bytes, Sequence[Sketch]], ids: Sequence[bytes]
) -> set[tuple[int, int]]:
    """Return the distinct pairs of different documents as indexes into `ids`, the smaller index first."""
    index = {document: i for i, document in enumerate(ids)}
    by_prefix = {prefix: [index[sketch.document] for sketch in group] for prefix, group in candidates.items()}
    return {
        (min(own, other), max(own, other))
        for pair in pairs
        for own in (index[pair.document],)
        for other in by_prefix[pair.prefix]
        if own != other
    }


def find_closest(near_pairs: NearPairs, documents: Collection[bytes]) -> dict[bytes, tuple[bytes, Comparison]]:
    """Return the closest near-duplicate of each document, and the comparison of the two.

    In a tie, the near-duplicate with the smaller id is the closest. Documents without a near-duplicate are omitted.
    """
    best: dict[bytes, tuple[float, bytes, int, bool]] = {}
    resemblance = near_pairs.figures.resemblance[near_pairs.rows].tolist()
    for i, (left, right) in enumerate(zip(near_pairs.lefts.tolist(), near_pairs.rights.tolist(), strict=True)):
        for own, other, is_swapped in ((left, right, False), (right, left, True)):
            document = near_pairs.ids[own]
            rank = (-resemblance[i], near_pairs.ids[other], i, is_swapped)
            if document in documents and (document not in best or rank < best[document]):
                best[document] = rank
    return {
        document: (other, _orient(near_pairs.figures.comparison(int(near_pairs.rows[i])), is_swapped))
        for document, (_, other, i, is_swapped) in best.items()
    }


def _orient(comparison: Comparison, is_swapped: bool) -> Comparison:
    """Return the comparison, with the two documents exchanged if `is_swapped`."""
    if not is_swapped:
        return comparison
    return msgspec.structs.replace(
        comparison,
        containment=comparison.contained,
        containment_error=comparison.contained_error,
        contained=comparison.containment,
        contained_error=comparison.containment_error,
    )

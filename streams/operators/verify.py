"""verify: compares the sketches of candidate pairs and keeps an edge for each at or above the threshold."""

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
from streams.sketch.sketcher import Comparison, Comparisons, compare_pairs, gather


class Near(msgspec.Struct, frozen=True):
    """Pairs at or above the threshold: row `rows[i]` of `figures` is of ids[lefts[i]] and ids[rights[i]]."""

    ids: list[bytes]
    lefts: NDArray[np.int64]
    rights: NDArray[np.int64]
    rows: NDArray[np.int64]
    figures: Comparisons


class Verified(msgspec.Struct, frozen=True):
    """What `verify` makes of a batch; `near` is None where nothing was compared."""

    changes: Changes
    unions: list[Union]
    compared: int
    near: Near | None = None


def verify(
    pairs: Sequence[CandidatePair],
    asking: Mapping[bytes, Sketch],
    candidates: Mapping[bytes, Sequence[Sketch]],
    threshold: float,
) -> Verified:
    """Compare each pair once; `asking` is by document id, `candidates` by prefix (a clash gives several).

    A prefix without a sketch is of a document that was forgotten since, and is passed over.
    """
    found = {pair.prefix: candidates.get(pair.prefix, ()) for pair in pairs}
    sketches = {sketch.document: sketch for held in (asking.values(), *found.values()) for sketch in held}
    ids = sorted(sketches)
    places = {document: at for at, document in enumerate(ids)}
    by_prefix = {prefix: [places[sketch.document] for sketch in held] for prefix, held in found.items()}
    met = set()
    for pair in pairs:
        asks = places[pair.document]
        for other in by_prefix[pair.prefix]:
            if asks != other:
                met.add((asks, other) if asks < other else (other, asks))
    if not met:
        return Verified(Changes(), [], 0)
    lefts, rights = np.array(sorted(met), np.int64).T
    columns = gather([sketches[document] for document in ids])
    compared = compare_pairs(columns, columns, lefts, rights)
    near = np.flatnonzero(compared.resemblance >= threshold)
    lefts, rights = lefts[near], rights[near]
    changes = Changes()
    shares = (compared.resemblance[near], compared.containment[near], compared.contained[near])
    changes.family(Family.EDGES).update(edge_row.encode_many(ids, lefts, rights, *shares))
    # A crowd of n documents needs n - 1 unions, not one per pair.
    sets = DisjointSets[int]()
    pairs_near = zip(lefts.tolist(), rights.tolist(), strict=True)
    unions = [union(ids[left], ids[right]) for left, right in pairs_near if sets.union(left, right)]
    return Verified(changes, unions, len(met), Near(ids, lefts, rights, near, compared))


def closest(near: Near, asking: Collection[bytes]) -> dict[bytes, tuple[bytes, Comparison]]:
    """Of each asking document the one most like it among these pairs (ties: the smaller id), and the figures."""
    best: dict[bytes, tuple[float, bytes, int, bool]] = {}
    likeness = near.figures.resemblance[near.rows].tolist()
    for at, (left, right) in enumerate(zip(near.lefts.tolist(), near.rights.tolist(), strict=True)):
        for mine, other, turned in ((left, right, False), (right, left, True)):
            document = near.ids[mine]
            rank = (-likeness[at], near.ids[other], at, turned)
            if document in asking and (document not in best or rank < best[document]):
                best[document] = rank
    return {
        document: (other, _oriented(near.figures.comparison(int(near.rows[at])), turned))
        for document, (_, other, at, turned) in best.items()
    }


def _oriented(figures: Comparison, turned: bool) -> Comparison:
    """The comparison of a with b as that of b with a, if it is to be turned round."""
    if not turned:
        return figures
    return msgspec.structs.replace(
        figures,
        containment=figures.contained,
        containment_error=figures.contained_error,
        contained=figures.containment,
        contained_error=figures.containment_error,
    )

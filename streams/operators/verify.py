"""verify: compares the sketches of candidate pairs and keeps an edge for each at or above the threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from state.changes import Changes
from state.codecs import edge as codec
from state.families import Family
from state.values import Sketch
from streams.operators.join import Union, union
from streams.sketching import compare_pairs, gather
from streams.values import Pair


class Verified(msgspec.Struct, frozen=True):
    """What `verify` makes of a batch."""

    changes: Changes
    unions: list[Union]
    compared: int


def verify(
    pairs: Sequence[Pair],
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
    changes.family(Family.EDGES).update(codec.encode_many(ids, lefts, rights, *shares))
    unions = [union(ids[left], ids[right]) for left, right in _spanning(len(ids), lefts.tolist(), rights.tolist())]
    return Verified(changes, unions, len(met))


def _spanning(nodes: int, lefts: list[int], rights: list[int]) -> Iterator[tuple[int, int]]:
    """As few of the pairs as give the same components: a crowd of n documents needs n - 1 unions, not one a pair."""
    parents = list(range(nodes))
    for a, b in zip(lefts, rights, strict=True):
        left, right = a, b
        while parents[left] != left:
            parents[left] = left = parents[parents[left]]
        while parents[right] != right:
            parents[right] = right = parents[parents[right]]
        if left != right:
            parents[right] = left
            yield a, b

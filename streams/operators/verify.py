"""verify: compares the sketches of candidate pairs and keeps an edge for each at or above the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from state.changes import Changes
from state.codecs import edge as codec
from state.families import Family
from state.values import Edge, Sketch
from streams.operators.join import Union, union
from streams.sketching import compare_pairs, gather
from streams.values import Pair


class Verified(msgspec.Struct, frozen=True):
    """What `verify` makes of a batch."""

    changes: Changes
    unions: list[Union]
    compared: int
    near: set[bytes]  # documents that have an edge


def verify(
    pairs: Sequence[Pair],
    asking: Mapping[bytes, Sketch],
    candidates: Mapping[bytes, Sequence[Sketch]],
    threshold: float,
) -> Verified:
    """Compare each pair once; `asking` is by document id, `candidates` by prefix (a clash gives several).

    A prefix without a sketch is of a document that was forgotten since, and is passed over.
    """
    sketches: list[Sketch] = []
    places: dict[bytes, int] = {}

    def place(sketch: Sketch) -> int:
        if (at := places.get(sketch.document)) is None:
            at = places[sketch.document] = len(sketches)
            sketches.append(sketch)
        return at

    met: set[tuple[int, int]] = set()
    for pair in pairs:
        left = place(asking[pair.document])
        for candidate in candidates.get(pair.prefix, ()):
            right = place(candidate)
            if left != right:
                met.add((left, right) if left < right else (right, left))
    changes = Changes()
    if not met:
        return Verified(changes, [], 0, set())
    lefts, rights = np.array(sorted(met), np.int64).T
    columns = gather(sketches)
    found = compare_pairs(columns, columns, lefts, rights)
    rows = changes.family(Family.EDGES)
    unions: list[Union] = []
    near: set[bytes] = set()
    for at in np.flatnonzero(found.resemblance >= threshold).tolist():
        a, b = sketches[int(lefts[at])].document, sketches[int(rights[at])].document
        figures = (found.resemblance[at], found.containment[at], found.contained[at])
        key, value = codec.encode(Edge(a, b, *map(float, figures)))
        rows[key] = value
        unions.append(union(a, b))
        near.update((a, b))
    return Verified(changes, unions, len(met), near)

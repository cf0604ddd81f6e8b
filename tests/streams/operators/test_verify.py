"""verify: edges for pairs at or above the threshold, with figures that plain sets of shingles give."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from state.codecs import edge_row
from state.families import Family
from state.model import Sketch
from state.scheme import Scheme
from streams.operators.messages import CandidatePair
from streams.operators.verify import verify
from streams.sketch.sketcher import Sketcher

SKETCHER = Sketcher(Scheme(sample_max=256))
RNG = random.Random(6)


def _texts() -> list[list[str]]:
    text = [f"w{n}" for n in range(60)]
    versions = [text]
    for _ in range(7):
        text = list(text)
        for _ in range(2):
            text[RNG.randrange(60)] = f"v{RNG.randrange(10**6)}"
        versions.append(text)
    return versions


TEXTS = _texts()
SKETCHES = [SKETCHER.sketch(" ".join(text)) for text in TEXTS]
SHINGLES = {
    sketch.document: {tuple(text[i : i + 4]) for i in range(57)} for sketch, text in zip(SKETCHES, TEXTS, strict=True)
}
BY_ID = {sketch.document: sketch for sketch in SKETCHES}


def by_prefix(sketches: list[Sketch]) -> dict[bytes, list[Sketch]]:
    groups: dict[bytes, list[Sketch]] = {}
    for sketch in sketches:
        groups.setdefault(sketch.document[:5], []).append(sketch)
    return groups


def pair(a: Sketch, b: Sketch) -> CandidatePair:
    return CandidatePair(a.document, b.document[:5], 1)


def share(a: bytes, b: bytes) -> float:
    return len(SHINGLES[a] & SHINGLES[b]) / len(SHINGLES[a] | SHINGLES[b])


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.7, 0.9])
def test_edges_equal_those_of_plain_sets(threshold: float) -> None:
    pairs = [pair(a, b) for a, b in combinations(SKETCHES, 2)]
    result = verify(pairs, BY_ID, by_prefix(SKETCHES), threshold)
    edges = [edge_row.decode(*row) for row in result.changes.puts_of(Family.EDGES).items()]
    expected = {(a, b): share(a, b) for a, b in combinations(sorted(SHINGLES), 2) if share(a, b) >= threshold}
    assert {(edge.a, edge.b): edge.resemblance for edge in edges} == pytest.approx(expected, abs=1e-4)
    for edge in edges:
        common = len(SHINGLES[edge.a] & SHINGLES[edge.b])
        assert edge.containment == pytest.approx(common / len(SHINGLES[edge.a]), abs=1e-4)
        assert edge.contained == pytest.approx(common / len(SHINGLES[edge.b]), abs=1e-4)
    assert result.pairs_compared == len(pairs)


def test_unions_give_the_components_of_the_edges() -> None:
    pairs = [pair(a, b) for a, b in combinations(SKETCHES, 2)]
    result = verify(pairs, BY_ID, by_prefix(SKETCHES), 0.5)
    edges = [(key[:16], key[16:]) for key in result.changes.puts_of(Family.EDGES)]
    unions = [(union.smaller, union.larger) for union in result.unions]
    assert set(unions) <= set(edges)
    assert components(unions) == components(edges)
    assert len(unions) == sum(len(group) - 1 for group in components(edges))


def components(pairs: list[tuple[bytes, bytes]]) -> list[list[bytes]]:
    groups: list[set[bytes]] = []
    for a, b in pairs:
        joined = [group for group in groups if {a, b} & group]
        groups = [group for group in groups if group not in joined] + [{a, b}.union(*joined)]
    return sorted(sorted(group) for group in groups)


def test_repeated_and_swapped_pairs_are_compared_once() -> None:
    a, b = SKETCHES[:2]
    one = verify([pair(a, b)], BY_ID, by_prefix([b]), 0.5)
    other = verify([pair(b, a)], BY_ID, by_prefix([a]), 0.5)
    both = verify([pair(a, b), pair(b, a), pair(a, b)], BY_ID, by_prefix([a, b]), 0.5)
    assert one.changes.puts == other.changes.puts == both.changes.puts
    assert both.pairs_compared == 1
    assert len(both.unions) == 1


def test_a_deleted_candidate_is_skipped() -> None:
    result = verify([pair(*SKETCHES[:2])], BY_ID, {}, 0.5)
    assert (len(result.changes), result.unions, result.pairs_compared) == (0, [], 0)


def test_a_document_is_not_compared_with_itself() -> None:
    a = SKETCHES[0]
    assert verify([pair(a, a)], BY_ID, by_prefix([a]), 0.5).pairs_compared == 0


def test_all_documents_with_the_prefix_are_compared() -> None:
    a, b, c = SKETCHES[:3]
    clash = Sketch(
        document=b.document[:5] + bytes(11),
        signature=c.signature,
        sample=c.sample,
        exponent=c.exponent,
        shingles=c.shingles,
        tokens=c.tokens,
    )
    result = verify([pair(a, b)], BY_ID, {b.document[:5]: [b, clash]}, 0.1)
    assert result.pairs_compared == 2
    assert len(result.changes.puts_of(Family.EDGES)) == 2


def test_no_pairs_give_no_changes() -> None:
    result = verify([], {}, {}, 0.5)
    assert (len(result.changes), result.unions, result.pairs_compared) == (0, [], 0)

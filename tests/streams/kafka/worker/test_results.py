"""Test the results that are built from a partition and a batch."""

from __future__ import annotations

import struct
from pathlib import Path

from state.changes import Changes
from state.families import Family
from state.scheme import Scheme
from state.store import Store
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import ClusterChange, NearDuplicate
from streams.kafka.worker import results
from streams.operators import admit
from streams.operators.messages import CandidatePair, Sighting
from streams.operators.verify import find_closest, verify
from streams.query.similar import IDENTICAL
from streams.sketch.sketcher import Sketcher, compare
from tests.streams.operators.test_verify import SKETCHES, by_prefix

A, B, C = (letter * 16 for letter in (b"A", b"B", b"C"))


def located(*rows: tuple[bytes, str, int]) -> Changes:
    changes = Changes()
    for document, key, time in rows:
        changes.put(Family.LOCATIONS, document + key.encode(), struct.pack(">Q", time))
    return changes


def test_the_closest_document_has_the_figures_of_the_new_page() -> None:
    asking = {sketch.document: sketch for sketch in (SKETCHES[2], SKETCHES[5])}
    pairs = [CandidatePair(document, other.document[:5], 1) for document in asking for other in SKETCHES]
    near = verify(pairs, asking, by_prefix(SKETCHES), 0.3).near
    assert near is not None
    matches = find_closest(near, asking)
    assert matches.keys() == asking.keys()
    for document, (other, figures) in matches.items():
        others = [sketch for sketch in SKETCHES if sketch.document != document]
        best = max(others, key=lambda sketch: compare(asking[document], sketch).resemblance)
        assert other == best.document
        assert figures == compare(asking[document], best)
    assert find_closest(near, []) == {}


def test_containment_is_that_of_the_new_page() -> None:
    sketcher = Sketcher(Scheme())
    words = [f"w{n}" for n in range(80)]
    long, short = (sketcher.sketch(" ".join(text)) for text in (words, words[:60]))
    for asks, other in ((long, short), (short, long)):
        near = verify(
            [CandidatePair(asks.document, other.document[:5], 1)], {asks.document: asks}, by_prefix([other]), 0.5
        ).near
        assert near is not None
        (_, figures) = find_closest(near, {asks.document})[asks.document]
        assert (figures.containment == 1.0) == (asks is short)


def test_only_new_locations_of_known_documents_are_copies() -> None:
    def sighting(document: bytes, key: bytes) -> Sighting:
        return Sighting(document=document, key=key, time=1, words=b"", payload=None)

    sightings = [
        sighting(A, b"a)/1"),
        sighting(A, b"a)/2"),
        sighting(A, b"a)/2"),
        sighting(B, b"b)/"),
        sighting(A, b"a)/3"),
    ]
    matches = admit.find_copies(sightings, {A: b"row"}, {A + b"a)/1": b"seen"})
    assert [result.key for result in matches] == [b"a)/2", b"a)/3"]


def test_locations_are_read_from_the_store_and_the_batch(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(located((A, "org,a)/2", 9), (A, "org,a)/9", 5)))
        places = results.Places(store, located((A, "org,a)/5", 5), (B, "org,b)/", 7)))
        assert places.first(A) == (b"org,a)/5", 5)
        assert places.first(A, b"org,a)/5") == (b"org,a)/9", 5)
        assert places.first(B) == (b"org,b)/", 7)
        assert places.first(B, b"org,b)/") == (b"", 0)
        assert places.first(C) == (b"", 0)


def test_documents_without_a_valid_url_are_skipped(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(located((A, "org,a)/", 9), (C, "no url", 9)))
        places = results.Places(store, Changes())
        cases = [
            (B, (b"org,b)/", 1), A), (B, (b"", 0), A), (B, (b"no url", 1), A), (B, (b"\xff)/", 1), A),
            (B, (b"org,b)/", 1), C), (B, (b"org,b)/", 1), B), (B, (b"org,b)/", 1 << 62), A),
        ]  # fmt: skip
        matches = [
            result
            for document, location, other in cases
            for result in results.near_duplicates([(document, location, other, IDENTICAL)], places, store, 4)
        ]
    assert [(result.topic, result.key) for result in matches] == [(Topic.NEAR_DUPLICATES, b"https://b.org/")] * 2
    value = matches[0].value
    assert isinstance(value, NearDuplicate)
    assert (value.document, value.cluster, value.closest.url) == (B.hex(), A.hex(), "https://a.org/")
    assert isinstance(matches[1].value, NearDuplicate)
    assert matches[1].value.first_seen is None


def test_retractions_report_changed_clusters(tmp_path: Path) -> None:
    before = Changes()
    for document in (A, B, C):
        before.put(Family.DOCUMENTS, document, b"row")
    before.put(Family.PARENTS, B, A)
    before.put(Family.PARENTS, C, A)
    with Store(tmp_path) as store:
        store.write(before)
        changes = Changes()
        for document in (A, B, C):
            changes.delete(Family.PARENTS, document)
        changes.delete(Family.DOCUMENTS, A)
        changes.put(Family.PARENTS, C, B)
        values = [result.value for result in results.retracted(changes, store, 0)]
        assert values == [
            ClusterChange("left", B.hex()),
            ClusterChange("forgotten", A.hex()),
            ClusterChange("joined", C.hex(), B.hex()),
        ]
        store.write(changes)
        assert not list(results.retracted(changes, store, 0))

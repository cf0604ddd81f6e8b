"""Test the results that are built from a partition's store and a batch."""

from __future__ import annotations

import struct
from pathlib import Path

from state.changes import Changes
from state.families import Family
from state.scheme import Scheme
from state.store import Store
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import ClusterChange, NearDuplicate
from streams.kafka.worker.results import Location, Locations, Match, near_duplicate_results, retraction_results
from streams.operators import admit
from streams.operators.messages import CandidatePair, Sighting
from streams.operators.verify import find_closest, verify
from streams.query.similar import IDENTICAL
from streams.sketch.sketcher import Sketcher, compare
from tests.streams.operators.test_verify import SKETCHES, by_prefix

A, B, C = (letter * 16 for letter in (b"A", b"B", b"C"))


def location_rows(*locations: tuple[bytes, str, int]) -> Changes:
    """Changes that put locations: a document, a URL key, and a time in ms."""
    changes = Changes()
    for document, key, time in locations:
        changes.put(Family.LOCATIONS, document + key.encode(), struct.pack(">Q", time))
    return changes


def test_the_closest_document_has_the_figures_of_the_new_page() -> None:
    new = {sketch.document: sketch for sketch in (SKETCHES[2], SKETCHES[5])}
    pairs = [CandidatePair(document, other.document[:5], 1) for document in new for other in SKETCHES]
    near = verify(pairs, new, by_prefix(SKETCHES), 0.3).near_pairs
    assert near is not None
    matches = find_closest(near, new)
    assert matches.keys() == new.keys()
    for document, (closest, comparison) in matches.items():
        others = [sketch for sketch in SKETCHES if sketch.document != document]
        best = max(others, key=lambda sketch: compare(new[document], sketch).resemblance)
        assert closest == best.document
        assert comparison == compare(new[document], best)
    assert find_closest(near, []) == {}


def test_containment_is_measured_from_the_new_page() -> None:
    sketcher = Sketcher(Scheme())
    words = [f"w{n}" for n in range(80)]
    long, short = (sketcher.sketch(" ".join(text)) for text in (words, words[:60]))
    for new, stored in ((long, short), (short, long)):
        pairs = [CandidatePair(new.document, stored.document[:5], 1)]
        near = verify(pairs, {new.document: new}, by_prefix([stored]), 0.5).near_pairs
        assert near is not None
        (_, comparison) = find_closest(near, {new.document})[new.document]
        assert (comparison.containment == 1.0) == (new is short)


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


def test_the_earliest_location_comes_from_the_store_or_the_batch(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(location_rows((A, "org,a)/2", 9), (A, "org,a)/9", 5)))
        locations = Locations(store, location_rows((A, "org,a)/5", 5), (B, "org,b)/", 7)))
        assert locations.earliest(A) == (b"org,a)/5", 5)
        assert locations.earliest(A, b"org,a)/5") == (b"org,a)/9", 5)
        assert locations.earliest(B) == (b"org,b)/", 7)
        assert locations.earliest(B, b"org,b)/") == (b"", 0)
        assert locations.earliest(C) == (b"", 0)


def test_a_match_is_skipped_if_a_document_has_no_valid_url(tmp_path: Path) -> None:
    valid = Location(b"org,b)/", 1)
    matches = [
        Match(B, valid, A, IDENTICAL),
        Match(B, Location(b"org,b)/", 1 << 62), A, IDENTICAL),
        Match(B, Location(b"", 0), A, IDENTICAL),
        Match(B, Location(b"no url", 1), A, IDENTICAL),
        Match(B, Location(b"\xff)/", 1), A, IDENTICAL),
        Match(B, valid, C, IDENTICAL),
        Match(B, valid, B, IDENTICAL),
    ]
    with Store(tmp_path) as store:
        store.write(location_rows((A, "org,a)/", 9), (C, "no url", 9)))
        results = list(near_duplicate_results(matches, Locations(store, Changes()), store, 4))
    assert [(result.topic, result.key) for result in results] == [(Topic.NEAR_DUPLICATES, b"https://b.org/")] * 2
    first, second = (result.value for result in results)
    assert isinstance(first, NearDuplicate)
    assert isinstance(second, NearDuplicate)
    assert (first.document, first.cluster, first.closest.url) == (B.hex(), A.hex(), "https://a.org/")
    assert second.first_seen is None, "a time that is not a date"


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
        values = [result.value for result in retraction_results(changes, store, 0)]
        assert values == [
            ClusterChange("left", B.hex()),
            ClusterChange("forgotten", A.hex()),
            ClusterChange("joined", C.hex(), B.hex()),
        ]
        store.write(changes)
        assert not list(retraction_results(changes, store, 0))

"""admit: a document is stored once, with all its URLs; a batch that is supplied again changes nothing."""

from __future__ import annotations

import random
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from state.changes import Changes, merge
from state.codecs import document_row
from state.families import Family
from state.model import DocumentRow, Sketch
from streams.operators.admit import admit, row_keys
from streams.operators.messages import DocumentPayload, Sighting

Rows = dict[Family, dict[bytes, bytes]]


def payload(name: str, time: int, text: bytes = b"text") -> DocumentPayload:
    document = name.encode() * 16
    sketch = Sketch(
        document=document,
        signature=np.zeros(8, np.uint8),
        sample=np.arange(3, dtype=np.uint32),
        exponent=0,
        shingles=3,
        tokens=6,
    )
    return DocumentPayload(
        document=document,
        row=document_row.encode(DocumentRow(sketch, time)),
        buckets=b"bucket",
        samples=b"smp1smp2",
        text=text,
    )


def titled(key: str, text: bytes) -> Sighting:
    """Return a sighting of document A with another text row."""
    return Sighting(document=b"A" * 16, key=key.encode(), time=5, words=b"", payload=payload("A", 5, text))


def sighting(name: str, key: str, time: int, *, has_payload: bool = True) -> Sighting:
    made = payload(name, time)
    return Sighting(
        document=made.document,
        key=key.encode(),
        time=time,
        words=b"sitewrd" + key[:1].encode(),
        payload=made if has_payload else None,
    )


def run(sightings: list[Sighting], rows: Rows) -> tuple[Changes, list[DocumentPayload]]:
    documents, locations = row_keys(sightings)
    stored = [
        {key: rows[family][key] for key in keys if key in rows.get(family, {})}
        for family, keys in (
            (Family.DOCUMENTS, documents),
            (Family.LOCATIONS, locations),
            (Family.TEXTS, documents),
        )
    ]
    return admit(sightings, *stored)


def store(rows: Rows, changes: Changes, *, merged: bool) -> None:
    for family, puts in changes.puts.items():
        family_rows = rows.setdefault(family, {})
        for key, value in puts.items():
            family_rows[key] = merge(family, family_rows.get(key), value) if merged else value


def test_the_smallest_text_row_of_a_document_is_stored_in_any_order_and_batches() -> None:
    pages = [titled("x", b"text b"), titled("y", b"text a"), titled("z", b"text c")]
    for order in permutations(pages):
        for cut in range(4):
            rows: Rows = {}
            for part in (list(order[:cut]), list(order[cut:])):
                store(rows, run(part, rows)[0], merged=False)
            assert rows[Family.TEXTS] == {b"A" * 16: b"text a"}


def test_a_new_document_is_stored_and_returned() -> None:
    one = sighting("A", "x", 5)
    changes, new = run([one], {})
    assert new == [one.payload]
    document = b"A" * 16
    assert changes.puts == {
        Family.DOCUMENTS: {document: payload("A", 5).row},
        Family.LOCATIONS: {document + b"x": (5).to_bytes(8, "big")},
        Family.TEXTS: {document: b"text"},
        Family.SAMPLES: {b"smp1AAAAA": b"", b"smp2AAAAA": b""},
        Family.WORDS: {b"sitewrdxAAAAA": b""},
    }


def test_a_document_at_many_urls_is_new_once() -> None:
    rows: Rows = {}
    changes, new = run([sighting("A", "x", 5), sighting("A", "y", 6), sighting("B", "x", 7)], rows)
    assert [payload.document for payload in new] == [b"A" * 16, b"B" * 16]
    store(rows, changes, merged=False)
    changes, new = run([sighting("A", "z", 8)], rows)
    assert new == []
    assert set(changes.puts_of(Family.LOCATIONS)) == {b"A" * 16 + b"z"}
    assert changes.puts_of(Family.DOCUMENTS) == {}


def test_only_an_earlier_sighting_moves_first_seen_back() -> None:
    rows: Rows = {}
    for time, expected in ((50, 50), (70, 50), (30, 30)):
        store(rows, run([sighting("A", "x", time)], rows)[0], merged=False)
        assert document_row.first_seen(rows[Family.DOCUMENTS][b"A" * 16]) == expected
        assert rows[Family.LOCATIONS][b"A" * 16 + b"x"] == expected.to_bytes(8, "big")


def test_a_document_without_text_has_no_text_row() -> None:
    one = Sighting(document=b"A" * 16, key=b"x", time=1, words=b"", payload=payload("A", 1, text=b""))
    assert Family.TEXTS not in {f for f, puts in run([one], {})[0].puts.items() if puts}


def test_a_sighting_without_a_payload_updates_a_stored_document() -> None:
    rows: Rows = {}
    store(rows, run([sighting("A", "x", 5)], rows)[0], merged=False)
    changes, new = run([sighting("A", "y", 2, has_payload=False)], rows)
    assert new == []
    assert document_row.first_seen(changes.puts_of(Family.DOCUMENTS)[b"A" * 16]) == 2


sightings = st.lists(
    st.builds(sighting, st.sampled_from("AB"), st.sampled_from("xyz"), st.integers(1, 9)), min_size=1, max_size=8
)


@given(sightings, st.integers(0, 2**32))
def test_any_order_batches_and_repeats_give_the_same_rows(todo: list[Sighting], seed: int) -> None:
    rng = random.Random(seed)
    expected: Rows = {}
    store(expected, run(todo, expected)[0], merged=False)
    shuffled = todo + rng.choices(todo, k=3)
    rng.shuffle(shuffled)
    rows: Rows = {}
    sent: list[bytes] = []
    while shuffled:
        size = rng.randint(1, 3)
        batch, shuffled = shuffled[:size], shuffled[size:]
        changes, new = run(batch, rows)
        store(rows, changes, merged=rng.random() < 0.5)
        sent += [payload.document for payload in new]
    assert rows == expected
    assert sorted(sent) == sorted({sighting.document for sighting in todo})


@given(sightings)
def test_a_batch_that_is_supplied_again_changes_nothing(todo: list[Sighting]) -> None:
    rows: Rows = {}
    store(rows, run(todo, rows)[0], merged=False)
    before = {family: dict(puts) for family, puts in rows.items()}
    changes, new = run(todo, rows)
    assert new == []
    store(rows, changes, merged=True)
    assert rows == before

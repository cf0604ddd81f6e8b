"""probe: documents that share buckets become candidate pairs, in any order and with full buckets."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codecs import posting_list
from state.families import Family
from streams.operators.messages import BucketProbe, CandidatePair, DocumentPayload
from streams.operators.probe import ProbeResult, group_buckets, probe

BANDS = 4


def document(number: int) -> bytes:
    return number.to_bytes(5, "big") + bytes(11)


def new(number: int, values: list[int]) -> DocumentPayload:
    """Return a document whose bucket of band i is values[i]."""
    buckets = b"".join(bytes((band, 0, value)) for band, value in enumerate(values))
    return DocumentPayload(document=document(number), row=b"row", buckets=buckets, samples=b"", text=b"")


def run(
    batch: list[DocumentPayload], state: dict[bytes, bytes], postings_max: int = 1_000, candidates_max: int = 1_000
) -> ProbeResult:
    grouped = group_buckets(batch, 3)
    stored = [state.get(key) for key in grouped.keys]
    result = probe(grouped, stored, postings_max, candidates_max)
    state.update(result.changes.puts_of(Family.BANDS))
    return result


def met(pairs: list[CandidatePair]) -> Counter[tuple[bytes, bytes]]:
    return Counter({(pair.document[:5], pair.prefix): pair.collisions for pair in pairs})


def test_the_first_document_has_no_pairs_and_is_added() -> None:
    state: dict[bytes, bytes] = {}
    assert run([new(1, [7, 7, 7, 7])], state).pairs == []
    assert state == {bytes((band, 0, 7)): document(1)[:5] for band in range(BANDS)}


def test_the_pairs_with_the_most_collisions_come_first() -> None:
    state: dict[bytes, bytes] = {}
    run([new(1, [1, 2, 3, 4])], state)
    run([new(2, [1, 2, 9, 9])], state)
    result = run([new(3, [1, 2, 3, 9])], state)
    assert result.pairs == [
        CandidatePair(document(3), document(1)[:5], 3),
        CandidatePair(document(3), document(2)[:5], 3),
    ]
    result = run([new(4, [1, 2, 3, 4])], state)
    assert [pair.collisions for pair in result.pairs] == [4, 3, 2]


def test_documents_of_one_batch_nominate_one_another() -> None:
    result = run([new(1, [1, 2, 3, 4]), new(2, [1, 2, 8, 8]), new(3, [5, 5, 5, 5])], {})
    one, two = document(1)[:5], document(2)[:5]
    assert met(result.pairs) == Counter({(one, two): 2, (two, one): 2})


def test_candidates_beyond_the_limit_are_dropped_and_counted() -> None:
    state: dict[bytes, bytes] = {}
    for number in range(1, 6):
        run([new(number, [1] * min(number, BANDS) + [100 + number] * (BANDS - min(number, BANDS)))], state)
    result = run([new(9, [1, 1, 1, 1])], state, candidates_max=2)
    assert [(pair.prefix, pair.collisions) for pair in result.pairs] == [(document(4)[:5], 4), (document(5)[:5], 4)]
    assert result.candidates_dropped == 3


def test_a_full_bucket_still_nominates_its_documents() -> None:
    state: dict[bytes, bytes] = {}
    postings_dropped = 0
    for number in range(1, 11):
        result = run([new(number, [1, 50 + number, 80 + number, 110 + number])], state, postings_max=3)
        postings_dropped += result.postings_dropped
        assert len(result.pairs) == min(number - 1, 3)
    assert postings_dropped == 7
    assert posting_list.decode(state[b"\0\0\1"]) == [document(n)[:5] for n in (1, 2, 3)]


batches = st.lists(
    st.lists(st.tuples(st.integers(1, 40), st.lists(st.integers(0, 2), min_size=BANDS, max_size=BANDS)), max_size=5),
    min_size=1,
    max_size=6,
)


@given(batches, st.integers(1, 4), st.integers(0, 2**32))
def test_the_content_of_buckets_does_not_depend_on_order(
    given_batches: list[list[tuple[int, list[int]]]], postings_max: int, seed: int
) -> None:
    documents = {number: values for batch in given_batches for number, values in batch}
    expected: dict[bytes, list[bytes]] = {}
    for number, values in documents.items():
        for band, value in enumerate(values):
            expected.setdefault(bytes((band, 0, value)), []).append(document(number)[:5])
    rng = random.Random(seed)
    todo = [new(number, values) for number, values in documents.items()]
    todo += rng.choices(todo, k=2) if todo else []
    rng.shuffle(todo)
    state: dict[bytes, bytes] = {}
    while todo:
        size = rng.randint(1, 4)
        batch, todo = todo[:size], todo[size:]
        run(batch, state, postings_max)
    postings = {key: posting_list.decode(value) for key, value in state.items()}
    assert postings == {key: sorted(prefixes)[:postings_max] for key, prefixes in expected.items()}


@given(batches)
def test_every_pair_that_shares_a_bucket_is_nominated_once(
    given_batches: list[list[tuple[int, list[int]]]],
) -> None:
    """With the number of buckets that they share."""
    state: dict[bytes, bytes] = {}
    known: dict[int, list[int]] = {}
    nominated: Counter[frozenset[bytes]] = Counter()
    for batch in given_batches:
        fresh = {number: values for number, values in batch if number not in known}
        known |= fresh
        for pair in run([new(number, values) for number, values in fresh.items()], state).pairs:
            nominated[frozenset((pair.document[:5], pair.prefix))] = pair.collisions
    expected = Counter[frozenset[bytes]]()
    for a, mine in known.items():
        for b, theirs in known.items():
            if a < b and (shared := sum(x == y for x, y in zip(mine, theirs, strict=True))):
                expected[frozenset((document(a)[:5], document(b)[:5]))] = shared
    assert nominated == expected


def test_a_batch_that_is_supplied_again_gives_the_same_pairs_and_no_changes() -> None:
    state: dict[bytes, bytes] = {}
    run([new(1, [1, 2, 3, 4])], state)
    batch = [new(2, [1, 2, 5, 5]), new(3, [1, 9, 9, 9])]
    first = run(batch, state)
    before = dict(state)
    again = run(batch, state)
    assert state == before
    assert met(first.pairs) == met(again.pairs)


def test_a_probe_can_contain_a_part_of_the_buckets() -> None:
    whole = [new(1, [1, 2, 3, 4]), new(2, [1, 2, 3, 9])]
    parts = [
        BucketProbe(document(1), whole[0].buckets[:9]),
        BucketProbe(document(2), whole[1].buckets[:3]),
        BucketProbe(document(2), whole[1].buckets[3:6]),
    ]
    batch = group_buckets(parts, 3)
    result = probe(batch, [None] * len(batch.keys), 9, 9)
    assert result.pairs[0] == CandidatePair(document(1), document(2)[:5], 2)
    assert batch.keys == sorted({whole[0].buckets[at : at + 3] for at in (0, 3, 6)})


def test_no_documents_give_no_pairs() -> None:
    assert run([], {}).pairs == []


@pytest.mark.parametrize("width", [2, 6, 8])
def test_buckets_of_any_width_are_grouped(width: int) -> None:
    bucket = bytes(range(width))
    batch = group_buckets([BucketProbe(document(n), bucket) for n in (1, 2)], width)
    assert batch.keys == [bucket]
    assert batch.indexes.tolist() == [0, 1]
    assert batch.starts.tolist() == [0, 2]

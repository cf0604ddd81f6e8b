"""routing: one owner a key, the same for all who ask."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from state.model import Capture
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.operators.routing import Message, Stage, bucket_probes, destination, owner, pack, partition_of

X, Y = b"X" * 16, b"Y" * 16
PAGE = SketchedPage(
    capture=Capture(key=b"org,a)/", url="https://a.org/", sweep=1, time=2, status=200, document=None, raw=b"")
)


def test_owners() -> None:
    revisit = SketchedPage(capture=PAGE.capture, revisit_of=b"org,b)/")
    assert [
        owner(message, 3)
        for message in (
            PAGE,
            revisit,
            Sighting(document=X, key=b"org,a)/", time=1, words=b"", payload=None),
            CandidatePair(X, Y[:5], 2),
            VerifyRequest(document=X, row=b"row", prefix=Y[:5]),
            BucketProbe(X, b"abcdef"),
            Union(Y, X),
            MemberTransfer(X, (Y,)),
        )
    ] == [
        (Stage.CAPTURES, b"org,a)/"),
        (Stage.CAPTURES, b"org,b)/"),
        (Stage.DOCUMENTS, X[:5]),
        (Stage.DOCUMENTS, X[:5]),
        (Stage.DOCUMENTS, Y[:5]),
        (Stage.BUCKETS, b"abc"),
        (Stage.JOINS, Y[:5]),
        (Stage.JOINS, X[:5]),
    ]


def test_partitions_stay_what_they_are() -> None:
    """State on disks is laid out by them."""
    assert [partition_of(b"org,example)/%d" % n, 16) for n in range(8)] == [11, 6, 14, 11, 1, 4, 15, 0]


@given(st.binary(), st.integers(1, 64))
def test_a_partition_is_one_of_those_there_are(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions
    assert partition_of(key, 1) == 0


def test_keys_spread() -> None:
    spread = Counter(partition_of(n.to_bytes(5, "big"), 16) for n in range(16_000))
    assert set(spread) == set(range(16))
    assert max(spread.values()) < 1_200


@given(st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=24, unique=True), st.integers(1, 16))
def test_announcements_bring_each_bucket_to_its_owner(buckets: list[bytes], partitions: int) -> None:
    found = bucket_probes(X, b"".join(buckets), 3, partitions)
    split = {at: [m.buckets[i : i + 3] for i in range(0, len(m.buckets), 3)] for at, m in enumerate(found)}
    assert sorted(bucket for held in split.values() for bucket in held) == sorted(buckets)
    for at, held in split.items():
        assert {partition_of(bucket, partitions) for bucket in held} == {destination(found[at], 3, partitions)[1]}
    assert len({destination(message, 3, partitions) for message in found}) == len(found)


def test_packets_are_one_a_place_and_in_order() -> None:
    pairs = [CandidatePair(bytes((n,)) * 16, Y[:5], 1) for n in range(50)]
    sent: list[Message] = [*pairs, PAGE]
    packets = pack(sent, 3, 4)
    assert {at for at in packets if at[0] is Stage.CAPTURES} == {destination(PAGE, 3, 4)}
    for at, held in packets.items():
        assert [m for m in sent if destination(m, 3, 4) == at] == held

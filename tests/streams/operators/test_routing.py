"""routing: every key has one owner, and every message one destination."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.model import Capture, Decision, DecisionKind
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.operators.routing import Message, Stage, bucket_probes, destination, partition_of

X, Y = b"X" * 16, b"Y" * 16
PAGE = SketchedPage(
    capture=Capture(
        key=b"org,a)/", url="https://a.org/", sweep=1, time=2, status=200, document=None, raw_fingerprint=b""
    )
)


@pytest.mark.parametrize(
    ("message", "stage", "key"),
    [
        (PAGE, Stage.CAPTURES, b"org,a)/"),
        (SketchedPage(capture=PAGE.capture, original_key=b"org,b)/"), Stage.CAPTURES, b"org,b)/"),
        (
            Decision(key=b"org,a)/", kind=DecisionKind.GONE, time=1, old_url="https://a.org/"),
            Stage.CAPTURES,
            b"org,a)/",
        ),
        (Sighting(document=X, key=b"org,a)/", time=1, words=b"", payload=None), Stage.DOCUMENTS, X[:5]),
        (CandidatePair(X, Y[:5], 2), Stage.DOCUMENTS, X[:5]),
        (VerifyRequest(document=X, row=b"row", prefix=Y[:5]), Stage.DOCUMENTS, Y[:5]),
        (BucketProbe(X, b"abcdef"), Stage.BUCKETS, b"abc"),
        (Union(Y, X), Stage.JOINS, Y[:5]),
        (MemberTransfer(X, (Y,)), Stage.JOINS, X[:5]),
    ],
)
def test_a_message_is_sent_to_the_owner_of_its_key(message: Message, stage: Stage, key: bytes) -> None:
    assert destination(message, 3, 997) == (stage, partition_of(key, 997))


def test_partitions_never_change() -> None:
    """State on disk is divided by them."""
    assert [partition_of(b"org,example)/%d" % n, 16) for n in range(8)] == [11, 6, 14, 11, 1, 4, 15, 0]


@given(st.binary(), st.integers(1, 64))
def test_partitions_are_in_range(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions
    assert partition_of(key, 1) == 0


def test_keys_are_spread_evenly() -> None:
    spread = Counter(partition_of(n.to_bytes(5, "big"), 16) for n in range(16_000))
    assert set(spread) == set(range(16))
    assert max(spread.values()) < 1_200


@given(st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=24, unique=True), st.integers(1, 16))
def test_every_bucket_is_sent_to_its_owner_once(buckets: list[bytes], partitions: int) -> None:
    probes = bucket_probes(X, b"".join(buckets), 3, partitions)
    sent: list[bytes] = []
    for probe in probes:
        own = [probe.buckets[at : at + 3] for at in range(0, len(probe.buckets), 3)]
        assert {partition_of(bucket, partitions) for bucket in own} == {destination(probe, 3, partitions)[1]}
        sent += own
    assert sorted(sent) == sorted(buckets)
    assert len({destination(probe, 3, partitions) for probe in probes}) == len(probes)

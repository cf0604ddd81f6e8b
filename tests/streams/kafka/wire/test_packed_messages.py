"""Test packing values into messages, and unpacking them."""

from __future__ import annotations

import pytest

from state.scheme import Scheme
from streams.kafka.wire import packed_messages
from streams.kafka.wire.packed_messages import BadMessage, Topic
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import CandidatePair, Sighting

SCHEME = Scheme()


def test_values_survive_packing_in_their_order() -> None:
    values = [
        CandidatePair(b"d" * 16, b"p" * 5, 3),
        Sighting(document=b"e" * 16, key=b"org,a)/", time=5, words=b"", payload=None),
        CandidatePair(b"f" * 16, b"q" * 5, 1),
    ]
    packed = list(packed_messages.pack(values, 60))
    assert len(packed) > 1
    headers = packed_messages.headers_for(Topic.DOCUMENTS, SCHEME.id)
    assert [
        item for message in packed for item in packed_messages.unpack(Topic.DOCUMENTS, message, headers, SCHEME)[0]
    ] == values
    joins = [Union(b"b" * 16, b"a" * 16), MemberTransfer(b"a" * 16, (b"b" * 16,))]
    (message,) = packed_messages.pack(joins, 1 << 20)
    join_headers = packed_messages.headers_for(Topic.JOINS, SCHEME.id)
    assert packed_messages.unpack(Topic.JOINS, message, join_headers, SCHEME) == (joins, [])
    assert packed_messages.unpack(Topic.DOCUMENTS, message, headers, SCHEME) == ([], ["KeyError(5)", "KeyError(6)"])


def test_an_invalid_value_does_not_affect_the_others_of_its_message() -> None:
    good, bad = CandidatePair(b"d" * 16, b"p" * 5, 3), CandidatePair(b"short", b"p" * 5, 3)
    (packed,) = packed_messages.pack([good, bad, good], 1 << 20)
    values, problems = packed_messages.unpack(
        Topic.DOCUMENTS, packed, packed_messages.headers_for(Topic.DOCUMENTS, SCHEME.id), SCHEME
    )
    assert values == [good, good]
    assert problems == ["invalid CandidatePair: the document id has 5 bytes instead of 16"]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [([], "bad_schema"), (packed_messages.headers_for(Topic.DOCUMENTS, "other"), "other_scheme")],
)
def test_a_message_with_another_schema_or_scheme_is_rejected(headers: packed_messages.Headers, reason: str) -> None:
    with pytest.raises(BadMessage) as error:
        packed_messages.unpack(Topic.DOCUMENTS, b"\x90", headers, SCHEME)
    assert error.value.reason == reason

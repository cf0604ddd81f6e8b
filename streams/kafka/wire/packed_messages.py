"""What the agents send one another: lists of values, packed into one message a batch and partition.

A message is a msgpack array of pairs: the number of a kind, and a value of it. Its headers say the schema with its
version, and the scheme of the sketches in it; a message of another schema or scheme is refused, naming both sides.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from state.scheme import Scheme
from streams.kafka.wire import validation
from streams.operators import routing
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest

Headers = Sequence[tuple[str, bytes]]
VERSION = 1
_ARRAY = struct.Struct(">BI")
_ARRAY32 = 0xDD


class Topic(StrEnum):
    """The topics, by the ends of their names."""

    PAGES = "pages"
    CAPTURES = "captures"
    DOCUMENTS = "documents"
    BUCKETS = "buckets"
    JOINS = "joins"
    RETRACTIONS = "retractions"
    CHANGELOG = "state-changelog"
    SWEEPS = "sweeps"
    DEAD_LETTERS = "dead-letters"
    NEAR_DUPLICATES = "near-duplicates"
    CLUSTERS = "clusters"
    MOVES = "moves"


# What others read: written where `kafka.results` names them.
RESULTS = frozenset({Topic.NEAR_DUPLICATES, Topic.CLUSTERS, Topic.MOVES})


class Retraction(msgspec.Struct, frozen=True):
    """Changes that overwrite, as a record of the changelog: something was forgotten.

    Of nodes whose pointer it changes `parents` are the pointers that may go, of buckets that it changes `postings`
    the prefixes that may; another one has come since, and stays.
    """

    record: bytes
    parents: dict[bytes, bytes] | None = None  # None: all may
    postings: list[bytes] | None = None  # None: all may


# What each topic carries; a value goes with its number, which is never used again.
MESSAGE_TYPES: dict[Topic, dict[int, type[msgspec.Struct]]] = {
    Topic.CAPTURES: {0: SketchedPage},
    Topic.DOCUMENTS: {1: Sighting, 2: CandidatePair, 3: VerifyRequest},
    Topic.BUCKETS: {4: BucketProbe},
    Topic.JOINS: {5: Union, 6: MemberTransfer},
    Topic.RETRACTIONS: {7: Retraction},
}
TOPIC_OF_ROUTE: dict[routing.Topic, Topic] = {
    routing.Topic.PAGES: Topic.CAPTURES,
    routing.Topic.DOCUMENTS: Topic.DOCUMENTS,
    routing.Topic.BUCKETS: Topic.BUCKETS,
    routing.Topic.JOINS: Topic.JOINS,
}
_NUMBERS = {kind: number for kinds in MESSAGE_TYPES.values() for number, kind in kinds.items()}
_DECODERS = {
    topic: {number: msgspec.msgpack.Decoder(kind).decode for number, kind in kinds.items()}
    for topic, kinds in MESSAGE_TYPES.items()
}
_encode = msgspec.msgpack.Encoder().encode
_decode_items = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]]).decode
_UNREADABLE = (msgspec.DecodeError, ValueError, KeyError, RecursionError, MemoryError)


class BadMessage(ValueError):
    """A message that cannot be taken; the first argument is a short stable reason, the second is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def schema(topic: Topic) -> str:
    """The schema of a topic's messages."""
    return f"lostfound.{topic.value}/{VERSION}"


def headers(topic: Topic, scheme: str) -> list[tuple[str, bytes]]:
    """What goes with a message."""
    return [("schema", schema(topic).encode()), ("scheme", scheme.encode())]


def pack(values: Iterable[msgspec.Struct], bytes_max: int) -> Iterator[bytes]:
    """Messages of at most so many bytes, where no single value is longer."""
    parts: list[bytes] = []
    size = 0
    for value in values:
        part = _encode((_NUMBERS[type(value)], value))
        if parts and size + len(part) > bytes_max:
            yield _ARRAY.pack(_ARRAY32, len(parts)) + b"".join(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield _ARRAY.pack(_ARRAY32, len(parts)) + b"".join(parts)


def decode_headers(given: Headers) -> dict[str, str]:
    """Headers by name, cut to a length that can be shown; one without a value is empty."""
    return {name: (held or b"")[:200].decode("utf-8", "replace") for name, held in given}


def unpack(topic: Topic, value: bytes | None, given: Headers, scheme: Scheme) -> tuple[list[Any], list[str]]:
    """The values of a message, whose sketches are of a scheme, and what is wrong with each of those left out.

    Raises BadMessage where it is no list of values at all.
    """
    held = decode_headers(given)
    said = held.get("schema", "")
    if said != schema(topic):
        raise BadMessage("bad_schema", f"the message has schema {said!r}, this worker reads {schema(topic)!r}")
    other = held.get("scheme", "")
    if other != scheme.id:
        raise BadMessage("other_scheme", f"the message has scheme {other!r}, this worker has {scheme.id!r}")
    try:
        items = _decode_items(value or b"")
    except _UNREADABLE as error:
        raise BadMessage("bad_message", repr(error)[:300]) from error
    values, faults = [], []
    for number, item in items:
        try:
            each = _DECODERS[topic][number](item)
            fault = (
                validation.find_retraction_fault(each.record)
                if isinstance(each, Retraction)
                else validation.find_fault(each, scheme)
            )
        except _UNREADABLE as error:
            fault = repr(error)
        if fault:
            faults.append(fault[:300])
        else:
            values.append(each)
    return values, faults

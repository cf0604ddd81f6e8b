"""The messages between agents: the values that a batch sends to a partition, packed into few messages.

A message is a msgpack array of pairs: a type number, and a value of that type. The headers contain the schema,
with its version, and the scheme of the sketches. Messages with an unexpected schema or scheme are rejected.

The header `sender` contains the partition from whose rows the values were derived, and the epoch with which its owner
claimed the partition (`state.partition`). After its claim, an owner sends an empty message to every partition of the
SENDER_TOPICS. Receivers drop later messages with a lower epoch: they come from a former owner.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from state.model import Decision
from state.scheme import Scheme
from streams.kafka.wire import validation
from streams.kafka.wire.record_batches import UNREADABLE
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest

Headers = Sequence[tuple[str, bytes | None]]
SCHEMA_VERSION = 1
_SCHEMA_PATTERN = re.compile(r"lostfound\.[a-z-]+/([1-9][0-9]{0,8})")
_ARRAY_HEADER = struct.Struct(">BI")
_SENDER_PATTERN = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_ARRAY32 = 0xDD  # msgpack's type byte for an array whose length is stored in 4 bytes
EMPTY_MESSAGE = _ARRAY_HEADER.pack(_ARRAY32, 0)


class Topic(StrEnum):
    """The topics of a collection. `topics.full_name` returns their names on the broker."""

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
    ANALYSES = "analyses"


# Topics that other systems read. Workers write only to the topics that the setting `kafka.results` lists.
RESULT_TOPICS = frozenset({Topic.NEAR_DUPLICATES, Topic.CLUSTERS, Topic.MOVES, Topic.ANALYSES})


class Retraction(msgspec.Struct, frozen=True):
    """Changes that overwrite or delete rows, as a changelog record. It is sent when data is forgotten.

    The owner of the rows removes only the parent pointers in `parents` and the postings in `postings`. It keeps
    pointers and postings that were added after the changes were computed.
    """

    record: bytes
    parents: dict[bytes, bytes] | None = None  # by document; None: all pointers may be removed
    postings: list[bytes] | None = None  # document prefixes; None: all postings may be removed


# The types of each topic's values, by type number. Messages contain these numbers, so a number is never reused.
VALUE_TYPES: dict[Topic, dict[int, type[msgspec.Struct]]] = {
    Topic.CAPTURES: {0: SketchedPage, 8: Decision},
    Topic.DOCUMENTS: {1: Sighting, 2: CandidatePair, 3: VerifyRequest},
    Topic.BUCKETS: {4: BucketProbe},
    Topic.JOINS: {5: Union, 6: MemberTransfer},
    Topic.RETRACTIONS: {7: Retraction},
}
_TYPE_NUMBERS = {value_type: number for types in VALUE_TYPES.values() for number, value_type in types.items()}
_DECODERS = {
    topic: {number: msgspec.msgpack.Decoder(value_type).decode for number, value_type in types.items()}
    for topic, types in VALUE_TYPES.items()
}
_encode = msgspec.msgpack.Encoder().encode
_decode_pairs = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]]).decode
_DECODE_ERRORS = (msgspec.DecodeError, ValueError, KeyError, RecursionError, MemoryError)


# The topics of messages whose values are derived from the rows of the sending partition.
SENDER_TOPICS = (Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS, Topic.JOINS)


class Sender(NamedTuple):
    """The partition from whose rows a message was derived, and the epoch of its owner."""

    partition: int
    epoch: int


class BadMessage(ValueError):
    """A message that cannot be processed, with a stable reason code and a human-readable detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def schema(topic: Topic) -> str:
    """Return the schema of a topic's messages, with its version."""
    return f"lostfound.{topic.value}/{SCHEMA_VERSION}"


def headers_for(topic: Topic, scheme_id: str, sender: Sender | None = None) -> list[tuple[str, bytes]]:
    """Return the headers for messages to a topic."""
    headers = [("schema", schema(topic).encode()), ("scheme", scheme_id.encode())]
    return headers if sender is None else [*headers, sender_header(sender)]


def sender_header(sender: Sender) -> tuple[str, bytes]:
    return "sender", f"{sender.partition}/{sender.epoch}".encode()


def decode_sender(headers: Headers) -> Sender | None:
    """Return the sender of a message, or None if it has none. Raise BadMessage for an invalid header."""
    text = decode_headers(headers).get("sender")
    if text is None:
        return None
    if not (match := _SENDER_PATTERN.fullmatch(text)):
        raise BadMessage("bad_sender", f"the header `sender` is {text!r} instead of PARTITION/EPOCH")
    return Sender(*map(int, match.groups()))


def pack(values: Iterable[msgspec.Struct], bytes_max: int) -> Iterator[bytes]:
    """Pack values into messages with at most `bytes_max` bytes of values. A larger value gets its own message."""
    pairs: list[bytes] = []
    size = 0
    for value in values:
        pair = _encode((_TYPE_NUMBERS[type(value)], value))
        if pairs and size + len(pair) > bytes_max:
            yield _ARRAY_HEADER.pack(_ARRAY32, len(pairs)) + b"".join(pairs)
            pairs, size = [], 0
        pairs.append(pair)
        size += len(pair)
    if pairs:
        yield _ARRAY_HEADER.pack(_ARRAY32, len(pairs)) + b"".join(pairs)


def decode_headers(headers: Headers) -> dict[str, str]:
    """Decode headers to strings of at most 200 characters, by name. A missing value becomes an empty string."""
    return {name: (value or b"")[:200].decode("utf-8", "replace") for name, value in headers}


def newer_version(headers: Headers) -> int:
    """Return the version in a schema header if it is too new for this process, otherwise 0."""
    match = _SCHEMA_PATTERN.fullmatch(decode_headers(headers).get("schema", ""))
    version = int(match[1]) if match else 0
    return version if version > SCHEMA_VERSION else 0


def check_readable(headers: Headers) -> None:
    """Raise BadMessage if the headers say that the message could not be decoded."""
    if (reason := decode_headers(headers).get(UNREADABLE)) is not None:
        raise BadMessage("bad_message", reason)


def unpack(topic: Topic, message: bytes | None, headers: Headers, scheme: Scheme) -> tuple[list[Any], list[str]]:
    """Return the valid values of a message, and a description of each invalid value.

    Raise BadMessage if the message is unreadable or not a list of values, or if its schema or scheme is unexpected.
    """
    check_readable(headers)
    decoded_headers = decode_headers(headers)
    if (actual := decoded_headers.get("schema", "")) != schema(topic):
        raise BadMessage("bad_schema", f"the message has schema {actual!r} instead of {schema(topic)!r}")
    if (actual := decoded_headers.get("scheme", "")) != scheme.id:
        raise BadMessage("other_scheme", f"the message has scheme {actual!r} instead of {scheme.id!r}")
    try:
        pairs = _decode_pairs(message or b"")
    except _DECODE_ERRORS as error:
        raise BadMessage("bad_message", repr(error)[:300]) from error
    values, problems = [], []
    for number, encoded in pairs:
        try:
            value = _DECODERS[topic][number](encoded)
            if isinstance(value, Retraction):
                problem = validation.find_retraction_problem(value.record)
            else:
                problem = validation.find_problem(value, scheme)
        except _DECODE_ERRORS as error:
            problem = repr(error)
        if problem:
            problems.append(problem[:300])
        else:
            values.append(value)
    return values, problems

"""Routing: who owns what, and where outputs go, when the operators are spread over partitions.

    topic      owner key          operators        takes                        sends
    pages      URL                resolve, capture SketchedPage                 Arrival; a SketchedPage to its own URL
    documents  document prefix    admit            Arrival                      Announcement to buckets
                                  gather           Pair                         Question
                                  verify           Question                     Union
    buckets    bucket             probe            Announcement                 Pair
    joins      document prefix    join             Union, Handover              Union, Handover

Each family of the state is written by one topic alone, and a topic's owner takes one message after another. A
document is owned by its prefix, since that is all that a posting says of it. A sketch travels once a candidate: probe
names candidates to the owner of the document that asks, which sends its sketch to their owners.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import mmh3

from state.model import PREFIX_BYTES
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest

_SEED = 0x0A11  # apart from every other use of the hash


class Topic(StrEnum):
    """A stage with owners of its own."""

    PAGES = "pages"
    DOCUMENTS = "documents"
    BUCKETS = "buckets"
    JOINS = "joins"


Message = SketchedPage | Sighting | CandidatePair | VerifyRequest | BucketProbe | Union | MemberTransfer
Destination = tuple[Topic, int]
"""A topic and the number of one of its partitions."""


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that owns a key; the same function wherever a partition is named."""
    return mmh3.hash(key, _SEED, signed=False) % partitions


def owner(message: Message, bucket_bytes: int) -> tuple[Topic, bytes]:
    """The topic of a message, and the key whose owner takes it."""
    match message:
        case SketchedPage():
            return Topic.PAGES, message.capture.key if message.revisit_of is None else message.revisit_of
        case Sighting() | CandidatePair():
            return Topic.DOCUMENTS, message.document[:PREFIX_BYTES]
        case VerifyRequest():
            return Topic.DOCUMENTS, message.prefix
        case BucketProbe():
            return Topic.BUCKETS, message.buckets[:bucket_bytes]
        case Union():
            return Topic.JOINS, message.larger[:PREFIX_BYTES]
        case MemberTransfer():
            return Topic.JOINS, message.root[:PREFIX_BYTES]


def destination(message: Message, bucket_bytes: int, partitions: int) -> Destination:
    """Where a message goes."""
    topic, key = owner(message, bucket_bytes)
    return topic, partition_of(key, partitions)


def pack(messages: Iterable[Message], bucket_bytes: int, partitions: int) -> dict[Destination, list[Message]]:
    """Messages by where they go, so that each place is sent one packet a batch."""
    packets: dict[Destination, list[Message]] = {}
    for message in messages:
        packets.setdefault(destination(message, bucket_bytes, partitions), []).append(message)
    return packets


def bucket_probes(document: bytes, buckets: bytes, bucket_bytes: int, partitions: int) -> list[BucketProbe]:
    """The buckets of a document, one message an owner."""
    shares: dict[int, list[bytes]] = {}
    for at in range(0, len(buckets), bucket_bytes):
        bucket = buckets[at : at + bucket_bytes]
        shares.setdefault(partition_of(bucket, partitions), []).append(bucket)
    return [BucketProbe(document, b"".join(share)) for share in shares.values()]

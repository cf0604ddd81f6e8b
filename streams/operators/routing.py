"""routing: defines the owner of every key and the destination of every message, for the Kafka engine.

    stage      owner key          operators         takes                        sends
    captures   URL                resolve, capture  SketchedPage                 Sighting; SketchedPage to its own URL
    documents  document prefix    admit             Sighting                     BucketProbe
                                  gather            CandidatePair                VerifyRequest
                                  verify            VerifyRequest                Union
    buckets    bucket             probe             BucketProbe                  CandidatePair
    joins      document prefix    join              Union, MemberTransfer        Union, MemberTransfer

Only one stage writes each family of the state, and the owner of a partition processes its messages one after another.
The prefix of a document decides who owns it, because a posting has nothing but the prefix. A sketch travels once per
candidate: probe sends the candidates' prefixes to the owner of the new document, and gather sends the new document's
sketch to the candidates' owners.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import mmh3

from state.model import PREFIX_BYTES
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest

_SEED = 0x0A11  # differs from the seed of every other use of the hash


class Stage(StrEnum):
    """Operators that share owners. The Kafka engine has one topic per stage, with the stage's name."""

    CAPTURES = "captures"
    DOCUMENTS = "documents"
    BUCKETS = "buckets"
    JOINS = "joins"


Message = SketchedPage | Sighting | CandidatePair | VerifyRequest | BucketProbe | Union | MemberTransfer
Destination = tuple[Stage, int]
"""A stage and the number of one of its partitions."""


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that owns a key. State on disk is laid out by it, so it must never change."""
    assert partitions > 0
    return mmh3.hash(key, _SEED, signed=False) % partitions


def owner(message: Message, bucket_bytes: int) -> tuple[Stage, bytes]:
    """Return the stage of a message, and the key whose owner processes it."""
    match message:
        case SketchedPage():
            return Stage.CAPTURES, message.capture.key if message.revisit_of is None else message.revisit_of
        case Sighting() | CandidatePair():
            return Stage.DOCUMENTS, message.document[:PREFIX_BYTES]
        case VerifyRequest():
            return Stage.DOCUMENTS, message.prefix
        case BucketProbe():
            return Stage.BUCKETS, message.buckets[:bucket_bytes]
        case Union():
            return Stage.JOINS, message.larger[:PREFIX_BYTES]
        case MemberTransfer():
            return Stage.JOINS, message.root[:PREFIX_BYTES]


def destination(message: Message, bucket_bytes: int, partitions: int) -> Destination:
    """Return the stage and the partition that a message is sent to."""
    stage, key = owner(message, bucket_bytes)
    return stage, partition_of(key, partitions)


def pack(messages: Iterable[Message], bucket_bytes: int, partitions: int) -> dict[Destination, list[Message]]:
    """Group messages by destination, in order, so that each destination gets one packet per batch."""
    packets: dict[Destination, list[Message]] = {}
    for message in messages:
        packets.setdefault(destination(message, bucket_bytes, partitions), []).append(message)
    return packets


def bucket_probes(document: bytes, buckets: bytes, bucket_bytes: int, partitions: int) -> list[BucketProbe]:
    """Split the buckets of a document into one message per owner."""
    assert len(buckets) % bucket_bytes == 0
    shares: dict[int, list[bytes]] = {}
    for at in range(0, len(buckets), bucket_bytes):
        bucket = buckets[at : at + bucket_bytes]
        shares.setdefault(partition_of(bucket, partitions), []).append(bucket)
    return [BucketProbe(document, b"".join(share)) for share in shares.values()]

"""routing: defines the owner of every key and the destination of every message, for the Kafka engine.

    stage      owner key          operators         receives                     sends
    captures   URL                resolve, capture  SketchedPage                 Sighting, resolved SketchedPage
                                  decide            Decision                     none
    documents  document prefix    admit             Sighting                     BucketProbe
                                  gather            CandidatePair                VerifyRequest
                                  verify            VerifyRequest                Union
    buckets    bucket             probe             BucketProbe                  CandidatePair
    joins      document prefix    join              Union, MemberTransfer        Union, MemberTransfer

Each family of the state is written by one stage only, and a partition's owner processes its messages one by one. The
prefix of a document's id determines its owner, because postings contain only the prefix. A sketch is sent once per
candidate: probe sends the candidates' prefixes to the owner of the new document, and gather sends the new document's
sketch to the candidates' owners.
"""

from __future__ import annotations

from enum import StrEnum

import mmh3

from state.model import PREFIX_BYTES, Decision
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest

_SEED = 0x0A11  # not used for any other hash


class Stage(StrEnum):
    """Operators that run on the same partitions. Each stage is a topic of the Kafka engine."""

    CAPTURES = "captures"
    DOCUMENTS = "documents"
    BUCKETS = "buckets"
    JOINS = "joins"


Message = SketchedPage | Decision | Sighting | CandidatePair | VerifyRequest | BucketProbe | Union | MemberTransfer
Destination = tuple[Stage, int]
"""A stage and the number of one of its partitions."""


def partition_of(key: bytes, partition_count: int) -> int:
    """Return the partition that owns a key. The result must never change, because rows are already stored there."""
    assert partition_count > 0
    return mmh3.hash(key, _SEED, signed=False) % partition_count


def destination(message: Message, bucket_bytes: int, partition_count: int) -> Destination:
    """Return the stage that processes a message, and the partition that owns its key."""
    match message:
        case SketchedPage():
            stage, key = Stage.CAPTURES, message.capture.key if message.original_key is None else message.original_key
        case Decision():
            stage, key = Stage.CAPTURES, message.key
        case Sighting() | CandidatePair():
            stage, key = Stage.DOCUMENTS, message.document[:PREFIX_BYTES]
        case VerifyRequest():
            stage, key = Stage.DOCUMENTS, message.prefix
        case BucketProbe():
            stage, key = Stage.BUCKETS, message.buckets[:bucket_bytes]
        case Union():
            stage, key = Stage.JOINS, message.larger[:PREFIX_BYTES]
        case MemberTransfer():
            stage, key = Stage.JOINS, message.root[:PREFIX_BYTES]
    return stage, partition_of(key, partition_count)


def bucket_probes(document: bytes, buckets: bytes, bucket_bytes: int, partition_count: int) -> list[BucketProbe]:
    """Divide the buckets of a document into one message per owner."""
    assert len(buckets) % bucket_bytes == 0
    by_owner: dict[int, list[bytes]] = {}
    for start in range(0, len(buckets), bucket_bytes):
        bucket = buckets[start : start + bucket_bytes]
        by_owner.setdefault(partition_of(bucket, partition_count), []).append(bucket)
    return [BucketProbe(document, b"".join(owned)) for owned in by_owner.values()]

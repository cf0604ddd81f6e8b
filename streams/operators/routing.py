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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
Place = tuple[Topic, int]
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


def place(message: Message, bucket_bytes: int, partitions: int) -> Place:
    """Where a message goes."""
    topic, key = owner(message, bucket_bytes)
    return topic, partition_of(key, partitions)


def pack(messages: Iterable[Message], bucket_bytes: int, partitions: int) -> dict[Place, list[Message]]:
    """Messages by where they go, so that each place is sent one packet a batch."""
    packets: dict[Place, list[Message]] = {}
    for message in messages:
        packets.setdefault(place(message, bucket_bytes, partitions), []).append(message)
    return packets


def bucket_probes(document: bytes, buckets: bytes, bucket_bytes: int, partitions: int) -> list[BucketProbe]:
    """The buckets of a document, one message an owner."""
    shares: dict[int, list[bytes]] = {}
    for at in range(0, len(buckets), bucket_bytes):
        bucket = buckets[at : at + bucket_bytes]
        shares.setdefault(partition_of(bucket, partitions), []).append(bucket)
    return [BucketProbe(document, b"".join(share)) for share in shares.values()]


def nowhere(_document: bytes) -> tuple[bytes, int]:
    """Where a document is, when nobody wants to know."""
    return b"", 0


def gather(
    pairs: Sequence[CandidatePair],
    rows: Mapping[bytes, bytes],
    candidates_max: int,
    place_of: Callable[[bytes], tuple[bytes, int]] = nowhere,
) -> tuple[list[VerifyRequest], int]:
    """What owners of buckets nominated for documents, as questions to the candidates' owners; and how many more.

    `rows` are the documents' rows; a document that was forgotten since has none and is passed over. Of each document
    the candidates of most collisions are asked, ties by prefix. `place_of` gives a document's url key, and when it
    was seen there, ms.
    """
    met: dict[bytes, Counter[bytes]] = {}
    for pair in pairs:
        met.setdefault(pair.document, Counter())[pair.prefix] += pair.collisions
    questions: list[VerifyRequest] = []
    candidates_dropped = 0
    for document, counts in met.items():
        if document not in rows:
            continue
        ranked = sorted(counts, key=lambda prefix: (-counts[prefix], prefix))
        candidates_dropped += len(ranked[candidates_max:])
        place = place_of(document)
        questions.extend(
            VerifyRequest(document, rows[document], prefix, *place) for prefix in ranked[:candidates_max]
        )
    return questions, candidates_dropped

"""The values that operators hand to one another: plain, frozen, and what a partitioned engine sends as messages."""

from __future__ import annotations

import msgspec

from state.model import Capture
from streams.page import Origin


class DocumentPayload(msgspec.Struct, frozen=True):
    """What a page brings of its document, ready to be stored: bytes, so that a batch travels between processes."""

    document: bytes  # 16 bytes
    row: bytes  # the row of `documents`
    buckets: bytes  # bands x (1 + rows) bytes
    samples: bytes  # 4 bytes a sampled shingle that is indexed
    text: bytes  # the row of `texts`; empty when texts are not kept


class SketchedPage(msgspec.Struct, frozen=True):
    """A page after sketching: its capture, and its document's material unless the document is known to be stored."""

    capture: Capture
    payload: DocumentPayload | None = None
    words: bytes = b""  # 8 bytes (site, word) an entry of the words index
    revisit_of: bytes | None = None  # key of the URL whose capture this one repeats
    origin: Origin = Origin("", 0)
    revisit_time: int | None = None  # ms, when that capture was made; None where the record does not say


class Sighting(msgspec.Struct, frozen=True):
    """A document at a URL that did not hold it before: what `capture` sends to `admit`."""

    document: bytes
    key: bytes  # url key
    time: int  # ms
    words: bytes
    payload: DocumentPayload | None


class CandidatePair(msgspec.Struct, frozen=True):
    """A candidate pair: a document, the prefix of another, and in how many buckets they met."""

    document: bytes
    prefix: bytes
    collisions: int


class BucketProbe(msgspec.Struct, frozen=True):
    """Buckets of a new document, those of one owner: what `admit` sends to `probe` where buckets have owners."""

    document: bytes
    buckets: bytes  # 1 + rows bytes each


class VerifyRequest(msgspec.Struct, frozen=True):
    """A document and the prefix of another that it is to be compared with, for the owner of the other."""

    document: bytes
    row: bytes  # the row of `documents`
    prefix: bytes
    key: bytes = b""  # url key of a page that brought the document, and when (ms), where results are wanted
    time: int = 0

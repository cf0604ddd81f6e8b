"""messages: the values that operators pass to one another; the Kafka engine sends them as messages."""

from __future__ import annotations

import msgspec

from state.model import Capture
from streams.page import Origin


class DocumentPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A document's rows, encoded as bytes so that batches are cheap to send between processes."""

    document: bytes  # 16 bytes
    row: bytes  # of `documents`
    buckets: bytes  # bands x (1 + rows) bytes
    samples: bytes  # 4 bytes per indexed shingle of the sample
    text: bytes  # the row of `texts`; empty if texts are not stored


class SketchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page after sketching: its capture, and the payload of its document unless the document is stored already."""

    capture: Capture
    payload: DocumentPayload | None = None
    words: bytes = b""  # 8 bytes (site, word) per entry of the words index
    revisit_of: bytes | None = None  # URL key of the capture that this page repeats
    origin: Origin = Origin("", 0)
    revisit_time: int | None = None  # ms, of that capture; None if the record does not give it


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A document that a URL did not have last time: from `capture` to `admit`."""

    document: bytes
    key: bytes  # URL key
    time: int  # ms
    words: bytes
    payload: DocumentPayload | None


class CandidatePair(msgspec.Struct, frozen=True):
    """A document, the prefix of a candidate, and the number of buckets that they share."""

    document: bytes
    prefix: bytes
    collisions: int


class BucketProbe(msgspec.Struct, frozen=True):
    """The buckets of a new document that one partition owns: from `admit` to `probe`."""

    document: bytes
    buckets: bytes  # 1 + rows bytes each


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A document, and the prefix of a candidate to compare it with: from `gather` to the candidate's owner."""

    document: bytes
    row: bytes  # of `documents`
    prefix: bytes
    key: bytes = b""  # URL key of a page that has the document; set only if results are reported
    time: int = 0  # ms, of this page

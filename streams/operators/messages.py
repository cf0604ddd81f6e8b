"""messages: the values that operators pass to one another; the Kafka engine sends them as messages."""

from __future__ import annotations

import msgspec

from state.model import Capture
from streams.page import Origin
from streams.sketch.links import LinkPayload


class DocumentPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A document's rows, encoded as bytes so that batches are cheap to send between processes."""

    document: bytes  # document id, 16 bytes
    row: bytes  # row of `documents`
    buckets: bytes  # per band: its number, 1 byte, and its slice of the signature
    samples: bytes  # 4 bytes per indexed shingle of the sample
    text: bytes  # row of `texts`; empty if texts are not stored


class SketchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page after sketching: its capture, and the payload of its document unless the document is known."""

    capture: Capture
    payload: DocumentPayload | None = None
    words: bytes = b""  # 8 bytes (site, word) per entry of the word index
    links: LinkPayload | None = None  # None if the page has no links, or if its capture has none
    # For revisits: the URL key of the original, the capture that the page repeats.
    original_key: bytes | None = msgspec.field(default=None, name="revisit_of")
    origin: Origin = Origin("", 0)
    # The time of the original (ms); None if the crawler did not record it.
    original_time: int | None = msgspec.field(default=None, name="revisit_time")


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A document captured at a URL whose last capture had a different document; sent from `capture` to `admit`."""

    document: bytes
    key: bytes  # URL key
    time: int  # of the capture, ms
    words: bytes  # as in `SketchedPage`
    payload: DocumentPayload | None


class CandidatePair(msgspec.Struct, frozen=True):
    """A document, the prefix of a candidate, and the number of buckets that they share."""

    document: bytes
    prefix: bytes
    collisions: int


class BucketProbe(msgspec.Struct, frozen=True):
    """The buckets of a new document that the receiving partition owns; sent from `admit` to `probe`."""

    document: bytes
    buckets: bytes  # as in `DocumentPayload`


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A document, and the prefix of a candidate to compare it with; sent from `gather` to the candidate's owner."""

    document: bytes
    row: bytes  # row of `documents`
    prefix: bytes
    key: bytes = b""  # URL key of a page with the document; set only if result topics are enabled
    time: int = 0  # time of this page (ms)

"""What moves between the stages: plain frozen values."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from state.values import Capture

FOUND = range(200, 300)
NOT_MODIFIED = 304


class Origin(msgspec.Struct, frozen=True):
    """Where a record came from, for dead letters and for going on after a stop.

    `offset` is a byte offset for WARC and ARC (of the record, in the compressed file) and a line number, from 0,
    for JSONL; `member` names the file inside a WACZ.
    """

    source: str
    offset: int
    member: str = ""


class Page(msgspec.Struct, frozen=True):
    """One fetch handed in by a crawler, decoded from its transfer and content encoding but not yet parsed.

    Exactly one of `body` (bytes as served) and `text` (already extracted) is set, unless the record is a redirect,
    an error or a revisit, or its content is refused: then both are None.
    """

    url: str
    time: int  # ms since the epoch, UTC
    status: int = 200
    body: bytes | None = None
    text: str | None = None
    mime: str = ""  # lower case, without parameters; empty when unknown
    charset: str = ""  # as declared by the server; empty when unknown
    redirect: str | None = None  # absolute target of a 3xx
    revisit_of: str | None = None  # a revisit record: the URL whose capture it repeats
    revisit_time: int | None = None  # ms; None where the record does not say
    title: str = ""
    refused: tuple[str, str] | None = None  # why its content is not taken: reason and detail, as of a Rejected
    origin: Origin = Origin("", 0)


class Rejected(msgspec.Struct, frozen=True):
    """A record or page that goes to the dead letters; `reason` is a short stable word, `detail` is for people."""

    reason: str
    detail: str
    origin: Origin
    url: str = ""


class Material(msgspec.Struct, frozen=True):
    """What a page brings of its document, ready to be stored: bytes, so that a batch travels between processes."""

    document: bytes  # 16 bytes
    row: bytes  # the row of `documents`
    buckets: bytes  # bands x (1 + rows) bytes
    samples: bytes  # 4 bytes a sampled shingle that is indexed
    text: bytes  # the row of `texts`; empty when texts are not kept


class SketchedPage(msgspec.Struct, frozen=True):
    """A page after sketching: its capture, and its document's material unless the document is known to be stored."""

    capture: Capture
    material: Material | None = None
    words: bytes = b""  # 8 bytes (site, word) an entry of the words index
    revisit_of: bytes | None = None  # key of the URL whose capture this one repeats
    origin: Origin = Origin("", 0)
    revisit_time: int | None = None  # ms, when that capture was made; None where the record does not say


class Arrival(msgspec.Struct, frozen=True):
    """A document at a URL that did not hold it before: what `capture` sends to `admit`."""

    document: bytes
    key: bytes  # url key
    time: int  # ms
    words: bytes
    material: Material | None


class Pair(msgspec.Struct, frozen=True):
    """A candidate pair: a document, the prefix of another, and in how many buckets they met."""

    document: bytes
    prefix: bytes
    collisions: int


class Announcement(msgspec.Struct, frozen=True):
    """Buckets of a new document, those of one owner: what `admit` sends to `probe` where buckets have owners."""

    document: bytes
    buckets: bytes  # 1 + rows bytes each


class Question(msgspec.Struct, frozen=True):
    """A document and the prefix of another that it is to be compared with, for the owner of the other."""

    document: bytes
    row: bytes  # the row of `documents`
    prefix: bytes
    key: bytes = b""  # url key of a page that brought the document, and when (ms), where results are wanted
    time: int = 0


def iso(time: int | None) -> str | None:
    """Milliseconds since the epoch as ISO 8601 with seconds, UTC; None where time cannot be written so."""
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None

"""What moves between the stages: plain frozen values."""

from __future__ import annotations

import msgspec


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

    Exactly one of `body` (bytes as served) and `text` (already extracted) is set, unless the record is a redirect
    or a revisit without a payload: then both are None.
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
    digest: str = ""  # payload digest as recorded ("sha1:..."), for revisits that name only a digest
    title: str = ""
    origin: Origin = Origin("", 0)


class Rejected(msgspec.Struct, frozen=True):
    """A record or page that goes to the dead letters; `reason` is a short stable word, `detail` is for people."""

    reason: str
    detail: str
    origin: Origin
    url: str = ""

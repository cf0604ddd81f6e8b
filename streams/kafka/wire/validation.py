"""Whether a value that came over the broker can be one of ours, before it reaches a state.

What decodes may still be nonsense: an id that is too short, a row that is cut. A stage would fail on it, and so would
every worker that takes it after, or it would be written. Only our own workers write the topics between them; this
is for those who do it by hand, and for faults on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from state.codecs import capture_row, changelog_record, document_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES
from state.scheme import Scheme
from streams.operators.join import MemberTransfer, Union
from streams.operators.messages import (
    BucketProbe,
    CandidatePair,
    DocumentPayload,
    Sighting,
    SketchedPage,
    VerifyRequest,
)
from streams.timestamps import MILLIS_MAX

SAMPLE_BYTES, WORD_BYTES = 4, 8
RAW_BYTES = (0, 8)


def find_fault(value: Any, scheme: Scheme) -> str:
    """What is wrong with a value that operators hand on; empty when nothing is."""
    return _CHECKS[type(value)](value, scheme)


def _sketched_page(value: SketchedPage, scheme: Scheme) -> str:
    held = value.capture
    if b"\0" in held.key or not held.key or not 0 <= held.time <= MILLIS_MAX:
        return "a capture without a URL or a time"
    if (held.document is not None and len(held.document) != ID_BYTES) or len(held.raw) not in RAW_BYTES:
        return "a capture whose fingerprints have other lengths"
    try:
        capture_row.row_key(held)
        capture_row.encode(held)
    except (struct.error, OverflowError, ValueError) as error:
        return f"a capture that cannot be written: {error}"
    if len(value.words) % WORD_BYTES:
        return "words that are cut"
    return "" if value.payload is None else _material(value.payload, held.document, scheme)


def _material(value: DocumentPayload, document: bytes | None, scheme: Scheme) -> str:
    if value.document != document:
        return "material of another document"
    if len(value.buckets) % scheme.bucket_bytes or len(value.samples) % SAMPLE_BYTES:
        return "buckets or samples that are cut"
    return _row(value.document, value.row, scheme.bins)


@lru_cache(maxsize=1024)  # a document's row goes with each question that it asks
def _row(document: bytes, row: bytes, bins: int) -> str:
    try:
        held = document_row.decode(document, row)
    except ValueError as error:
        return str(error)
    return "" if len(held.sketch.signature) == bins else f"a sketch of {len(held.sketch.signature)} bins, not {bins}"


def _arrival(value: Sighting, scheme: Scheme) -> str:
    if len(value.document) != ID_BYTES or not value.key or b"\0" in value.key or not 0 <= value.time <= MILLIS_MAX:
        return "an arrival without a document, a URL or a time"
    if len(value.words) % WORD_BYTES:
        return "words that are cut"
    return "" if value.payload is None else _material(value.payload, value.document, scheme)


def _pair(value: CandidatePair, _scheme: Scheme) -> str:
    whole = len(value.document) == ID_BYTES and len(value.prefix) == PREFIX_BYTES
    return "" if whole else "a pair of what are no documents"


def _question(value: VerifyRequest, scheme: Scheme) -> str:
    if len(value.document) != ID_BYTES or len(value.prefix) != PREFIX_BYTES:
        return "a question about what is no document"
    return _row(value.document, value.row, scheme.bins)


def _announcement(value: BucketProbe, scheme: Scheme) -> str:
    whole = len(value.document) == ID_BYTES and value.buckets and not len(value.buckets) % scheme.bucket_bytes
    return "" if whole else "buckets that are cut, or of no document"


def _union(value: Union, _scheme: Scheme) -> str:
    whole = len(value.larger) == len(value.smaller) == ID_BYTES and value.larger > value.smaller
    return "" if whole else "a union of what are no documents, or in the wrong order"


def _handover(value: MemberTransfer, _scheme: Scheme) -> str:
    root = value.root
    whole = len(root) == ID_BYTES and all(len(member) == ID_BYTES and member > root for member in value.members)
    return "" if whole else "members that are no documents, or smaller than their root"


def find_retraction_fault(record: bytes) -> str:
    """What is wrong with the record of an amendment; empty when nothing is."""
    try:
        kind, changes = changelog_record.decode(record)
        for row in (*changes.puts.get(Family.CAPTURES, ()), *changes.deletes.get(Family.CAPTURES, ())):
            capture_row.decode_key(row)
    except ValueError as error:
        return str(error)
    if kind != changelog_record.AMENDMENT:
        return "a record of facts, which is no amendment"
    derived = {Family.META, Family.SWEEPS} & {*changes.puts, *changes.deletes}
    return f"an amendment of {', '.join(sorted(derived))}, which each partition derives" if derived else ""


_CHECKS: dict[type, Callable[[Any, Scheme], str]] = {
    SketchedPage: _sketched_page,
    Sighting: _arrival,
    CandidatePair: _pair,
    VerifyRequest: _question,
    BucketProbe: _announcement,
    Union: _union,
    MemberTransfer: _handover,
}

"""Validates values received from the broker before they reach the state.

A value that decodes may still be invalid: an id that is too short, a truncated row. Every worker that received it
would fail, or write it to its state. Only workers write the internal topics; these checks guard against messages
written by hand and against transmission faults.
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
    """Return what is wrong with a message of an operator; empty if it is valid."""
    return _CHECKS[type(value)](value, scheme)


def _sketched_page(page: SketchedPage, scheme: Scheme) -> str:
    capture = page.capture
    if not capture.key or b"\0" in capture.key or not 0 <= capture.time <= MILLIS_MAX:
        return "a capture without a valid URL key or time"
    if (capture.document is not None and len(capture.document) != ID_BYTES) or len(capture.raw) not in RAW_BYTES:
        return "a capture whose fingerprints have the wrong length"
    try:
        capture_row.row_key(capture)
        capture_row.encode(capture)
    except (struct.error, OverflowError, ValueError, AssertionError) as error:
        return f"a capture that cannot be encoded: {error}"
    if len(page.words) % WORD_BYTES:
        return "truncated words"
    return "" if page.payload is None else _payload(page.payload, capture.document, scheme)


def _payload(payload: DocumentPayload, document: bytes | None, scheme: Scheme) -> str:
    if payload.document != document:
        return "the payload of another document"
    if len(payload.buckets) % scheme.bucket_bytes or len(payload.samples) % SAMPLE_BYTES:
        return "truncated buckets or samples"
    return _row(payload.document, payload.row, scheme.bins)


@lru_cache(maxsize=1024)  # every verify request of a document carries its row
def _row(document: bytes, row: bytes, bins: int) -> str:
    try:
        signature = document_row.decode(document, row).sketch.signature
    except ValueError as error:
        return str(error)
    return "" if len(signature) == bins else f"a sketch with {len(signature)} bins instead of {bins}"


def _sighting(sighting: Sighting, scheme: Scheme) -> str:
    valid_key = sighting.key and b"\0" not in sighting.key
    if len(sighting.document) != ID_BYTES or not valid_key or not 0 <= sighting.time <= MILLIS_MAX:
        return "a sighting without a valid document, URL key or time"
    if len(sighting.words) % WORD_BYTES:
        return "truncated words"
    return "" if sighting.payload is None else _payload(sighting.payload, sighting.document, scheme)


def _pair(pair: CandidatePair, _scheme: Scheme) -> str:
    valid = len(pair.document) == ID_BYTES and len(pair.prefix) == PREFIX_BYTES
    return "" if valid else "a candidate pair with an invalid document id"


def _verify_request(request: VerifyRequest, scheme: Scheme) -> str:
    if len(request.document) != ID_BYTES or len(request.prefix) != PREFIX_BYTES:
        return "a verify request with an invalid document id"
    return _row(request.document, request.row, scheme.bins)


def _bucket_probe(probe: BucketProbe, scheme: Scheme) -> str:
    valid = len(probe.document) == ID_BYTES and probe.buckets and not len(probe.buckets) % scheme.bucket_bytes
    return "" if valid else "a bucket probe with truncated buckets or an invalid document id"


def _union(union: Union, _scheme: Scheme) -> str:
    valid = len(union.larger) == len(union.smaller) == ID_BYTES and union.larger > union.smaller
    return "" if valid else "a union with invalid document ids, or in the wrong order"


def _member_transfer(transfer: MemberTransfer, _scheme: Scheme) -> str:
    root, members = transfer.root, transfer.members
    valid = len(root) == ID_BYTES and all(len(member) == ID_BYTES and member > root for member in members)
    return "" if valid else "a transfer of members that are not document ids, or smaller than their root"


def find_retraction_fault(record: bytes) -> str:
    """Return what is wrong with the changelog record of a retraction; empty if it is valid."""
    try:
        kind, changes = changelog_record.decode(record)
        for row in (*changes.puts.get(Family.CAPTURES, ()), *changes.deletes.get(Family.CAPTURES, ())):
            capture_row.decode_key(row)
    except ValueError as error:
        return str(error)
    if kind != changelog_record.RETRACTION:
        return "a record of facts instead of a retraction"
    derived = {Family.META, Family.SWEEPS} & {*changes.puts, *changes.deletes}
    return f"a retraction in {', '.join(sorted(derived))}, which each partition derives itself" if derived else ""


_CHECKS: dict[type, Callable[[Any, Scheme], str]] = {
    SketchedPage: _sketched_page,
    Sighting: _sighting,
    CandidatePair: _pair,
    VerifyRequest: _verify_request,
    BucketProbe: _bucket_probe,
    Union: _union,
    MemberTransfer: _member_transfer,
}

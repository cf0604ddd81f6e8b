"""Validate values received from the broker before they reach the state.

A value that can be decoded can still be invalid, for example an id that is too short or a truncated row. A worker
that processed such a value would fail, or write it to its state. Only workers should write to the internal topics.
These checks guard against messages written by hand and against transmission faults.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from state.codecs import capture_row, changelog_record, document_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture
from state.scheme import Scheme
from streams.operators import messages
from streams.operators.join import MemberTransfer, Union
from streams.timestamps import MILLIS_MAX

_SAMPLE_BYTES, _WORD_BYTES = 4, 8
_RAW_LENGTHS = (0, 8)  # bytes of a fingerprint, which can be absent


def find_fault(value: Any, scheme: Scheme) -> str:
    """Return what is wrong with an operator's message, or an empty string if it is valid."""
    fault = _CHECKS[type(value)](value, scheme)
    return f"a {type(value).__name__} with {fault}" if fault else ""


def _id_fault(document: bytes, prefix: bytes = bytes(PREFIX_BYTES)) -> str:
    return "" if len(document) == ID_BYTES and len(prefix) == PREFIX_BYTES else "an invalid document id"


def _location_fault(key: bytes, time: int) -> str:
    return "" if key and b"\0" not in key and 0 <= time <= MILLIS_MAX else "an invalid URL key or time"


def _list_fault(items: bytes, item_bytes: int) -> str:
    return f"a truncated list: {len(items)} bytes for items of {item_bytes}" if len(items) % item_bytes else ""


def _capture_fault(capture: Capture) -> str:
    if (capture.document is not None and len(capture.document) != ID_BYTES) or len(capture.raw) not in _RAW_LENGTHS:
        return "a fingerprint of the wrong length"
    try:
        capture_row.key_of(capture)
        capture_row.encode(capture)
    except (struct.error, OverflowError, ValueError, AssertionError) as error:
        return f"a capture that cannot be encoded: {error}"
    return ""


def _payload_fault(payload: messages.DocumentPayload | None, document: bytes | None, scheme: Scheme) -> str:
    if payload is None:
        return ""
    if payload.document != document:
        return "the payload of another document"
    return (
        _list_fault(payload.buckets, scheme.bucket_bytes)
        or _list_fault(payload.samples, _SAMPLE_BYTES)
        or _row_fault(payload.document, payload.row, scheme.bins)
    )


@lru_cache(maxsize=1024)  # all verify requests for a document contain the same row
def _row_fault(document: bytes, row: bytes, bins: int) -> str:
    try:
        signature = document_row.decode(document, row).sketch.signature
    except ValueError as error:
        return f"an invalid row: {error}"
    return "" if len(signature) == bins else f"a sketch with {len(signature)} bins instead of {bins}"


def _members_fault(root: bytes, members: Sequence[bytes]) -> str:
    valid = all(len(member) == ID_BYTES and member > root for member in members)
    return _id_fault(root) or ("" if valid else "members that are not documents with greater ids than their root")


_CHECKS: dict[type, Callable[[Any, Scheme], str]] = {
    messages.SketchedPage: lambda page, scheme: (
        _location_fault(page.capture.key, page.capture.time)
        or _capture_fault(page.capture)
        or _list_fault(page.words, _WORD_BYTES)
        or _payload_fault(page.payload, page.capture.document, scheme)
    ),
    messages.Sighting: lambda sighting, scheme: (
        _id_fault(sighting.document)
        or _location_fault(sighting.key, sighting.time)
        or _list_fault(sighting.words, _WORD_BYTES)
        or _payload_fault(sighting.payload, sighting.document, scheme)
    ),
    messages.CandidatePair: lambda pair, _: _id_fault(pair.document, pair.prefix),
    messages.VerifyRequest: lambda request, scheme: (
        _id_fault(request.document, request.prefix) or _row_fault(request.document, request.row, scheme.bins)
    ),
    messages.BucketProbe: lambda probe, scheme: (
        _id_fault(probe.document)
        or ("" if probe.buckets else "no buckets")
        or _list_fault(probe.buckets, scheme.bucket_bytes)
    ),
    Union: lambda union, _: _members_fault(union.smaller, [union.larger]),
    MemberTransfer: lambda transfer, _: _members_fault(transfer.root, transfer.members),
}


def find_retraction_fault(record: bytes) -> str:
    """Return what is wrong with the changelog record of a retraction, or an empty string if it is valid."""
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

"""Validate values received from the broker before they reach the state.

A decoded value may still be invalid: for example, an id may be too short, or a row truncated. Processing such a value
would stop the worker or damage its state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from state.codecs import capture_row, changelog_record, document_row, link_chunk, link_list
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, Decision, DecisionKind
from state.scheme import Scheme
from streams.operators import messages
from streams.operators.join import MemberTransfer, Union
from streams.timestamps import MILLIS_MAX
from streams.urls import url_key

_SAMPLE_BYTES, _WORD_BYTES = 4, 8  # size of each sample in a list of samples, and of each word in a list of words


def find_problem(value: Any, scheme: Scheme) -> str:
    """Return what is wrong with an operator's message, or an empty string if it is valid."""
    problem = _CHECKS[type(value)](value, scheme)
    return f"invalid {type(value).__name__}: {problem}" if problem else ""


def _length_problem(name: str, value: bytes, length: int) -> str:
    return "" if len(value) == length else f"the {name} has {len(value)} bytes instead of {length}"


def _id_problem(document_id: bytes) -> str:
    return _length_problem("document id", document_id, ID_BYTES)


def _pair_problem(document: bytes, prefix: bytes) -> str:
    return _id_problem(document) or _length_problem("prefix of the candidate", prefix, PREFIX_BYTES)


def _location_problem(key: bytes, time: int) -> str:
    return "" if key and b"\0" not in key and 0 <= time <= MILLIS_MAX else "the URL key or the time is invalid"


def _list_problem(items: bytes, item_bytes: int) -> str:
    return f"a list of {item_bytes}-byte items has {len(items)} bytes: truncated" if len(items) % item_bytes else ""


def _capture_problem(capture: Capture) -> str:
    if capture.document is not None and (problem := _id_problem(capture.document)):
        return problem
    if capture.raw_fingerprint and (
        problem := _length_problem("raw fingerprint", capture.raw_fingerprint, capture_row.RAW_FINGERPRINT_BYTES)
    ):
        return problem
    try:
        capture_row.key_of(capture)
        capture_row.encode(capture)
    except (struct.error, OverflowError, ValueError, AssertionError) as error:
        return f"the capture cannot be encoded: {error}"
    return ""


def _payload_problem(payload: messages.DocumentPayload | None, document: bytes | None, scheme: Scheme) -> str:
    if payload is None:
        return ""
    if payload.document != document:
        return "the payload belongs to a different document"
    return (
        _list_problem(payload.buckets, scheme.bucket_bytes)
        or _list_problem(payload.samples, _SAMPLE_BYTES)
        or _row_problem(payload.document, payload.row, scheme.bins)
    )


def _links_problem(page: messages.SketchedPage) -> str:
    if page.links is None:
        return ""
    if problem := next(filter(None, map(_chunk_problem, page.links.chunks)), ""):
        return problem
    list_id = link_list.compute_list_id(list(map(link_chunk.compute_chunk_id, page.links.chunks)))
    return "" if list_id == page.capture.links else "the capture refers to a different list of links"


@lru_cache(maxsize=16_384)  # pages of a site share most of their chunks
def _chunk_problem(chunk: bytes) -> str:
    try:
        link_chunk.decode(chunk)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=1024)  # all verify requests for a document contain the same row
def _row_problem(document: bytes, row: bytes, bins: int) -> str:
    try:
        signature = document_row.decode(document, row).sketch.signature
    except ValueError as error:
        return f"the document row cannot be decoded: {error}"
    return "" if len(signature) == bins else f"the sketch has {len(signature)} bins instead of {bins}"


def _decision_problem(decision: Decision) -> str:
    try:
        if url_key(decision.old_url) != decision.key:
            return "the URL key is not that of the old URL"
        if decision.new_url is not None and url_key(decision.new_url) == decision.key:
            return "the new URL is the old URL"
    except ValueError as error:
        return f"a URL is invalid: {error}"
    if (decision.new_url is not None) != (decision.kind is DecisionKind.MOVED):
        return "only a moved page has a new URL"
    return "" if 0 <= decision.time <= MILLIS_MAX else "the time is out of range"


def _order_problem(smallest: bytes, others: Sequence[bytes]) -> str:
    order_problem = "" if all(other > smallest for other in others) else "the first document id is not the smallest"
    return next(filter(None, map(_id_problem, (smallest, *others))), order_problem)


_CHECKS: dict[type, Callable[[Any, Scheme], str]] = {
    messages.SketchedPage: lambda page, scheme: (
        _location_problem(page.capture.key, page.capture.time)
        or _capture_problem(page.capture)
        or _list_problem(page.words, _WORD_BYTES)
        or _payload_problem(page.payload, page.capture.document, scheme)
        or _links_problem(page)
    ),
    Decision: lambda decision, _: _decision_problem(decision),
    messages.Sighting: lambda sighting, scheme: (
        _id_problem(sighting.document)
        or _location_problem(sighting.key, sighting.time)
        or _list_problem(sighting.words, _WORD_BYTES)
        or _payload_problem(sighting.payload, sighting.document, scheme)
    ),
    messages.CandidatePair: lambda pair, _: _pair_problem(pair.document, pair.prefix),
    messages.VerifyRequest: lambda request, scheme: (
        _pair_problem(request.document, request.prefix) or _row_problem(request.document, request.row, scheme.bins)
    ),
    messages.BucketProbe: lambda probe, scheme: (
        _id_problem(probe.document)
        or ("" if probe.buckets else "the list of buckets is empty")
        or _list_problem(probe.buckets, scheme.bucket_bytes)
    ),
    Union: lambda union, _: _order_problem(union.smaller, [union.larger]),
    MemberTransfer: lambda transfer, _: _order_problem(transfer.root, transfer.members),
}


def find_retraction_problem(record: bytes) -> str:
    """Return what is wrong with the changelog record of a retraction, or an empty string if it is valid."""
    try:
        kind, changes = changelog_record.decode(record)
        for key in (*changes.puts.get(Family.CAPTURES, ()), *changes.deletes.get(Family.CAPTURES, ())):
            capture_row.decode_key(key)
    except ValueError as error:
        return str(error)
    if kind != changelog_record.RETRACTION:
        return "the record contains facts, but a retraction is expected"
    families = ", ".join(sorted({Family.META, Family.SWEEPS} & {*changes.puts, *changes.deletes}))
    return f"the retraction changes rows that each partition derives itself: {families}" if families else ""

"""capture: writes the history of each URL, and passes on each document that the last capture of the URL lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import Capture
from streams.operators.messages import Sighting, SketchedPage
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES, Page, Rejected
from streams.sketch.sketcher import fingerprint


class OriginalQuery(NamedTuple):
    """Which captures can be the original of a revisit: those of `key` up to the sweep and time of the revisit."""

    key: bytes  # URL key of the original
    sweep: int
    time: int  # ms
    original_second: int  # time of the original in seconds; -1 if the revisit does not state it


class CaptureResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `capture`."""

    changes: Changes
    sightings: list[Sighting]
    captures: list[Capture]  # one per row written
    possibly_stored: list[bytes]  # keys of rows that can already be stored, because their pages came twice or late
    unchanged: int


def new_capture(
    page: Page, sweep: int, document: bytes | None = None, raw: bytes = b"", extractor: int = 0
) -> Capture:
    """Return the capture of a page."""
    return Capture(
        key=page.key,
        url=page.url,
        sweep=sweep,
        time=page.time,
        status=page.status,
        document=document,
        raw=raw,
        redirect=page.redirect,
        extractor=extractor,
    )


def fingerprint_page(page: Page) -> bytes:
    """Return an 8-byte hash of everything from which the title and text of a page are extracted."""
    title = b"title\0" + page.title.encode("utf-8", "replace") + b"\0" if page.title else b""
    if page.text is not None:
        return fingerprint(title + b"text\0" + page.text.encode("utf-8", "replace"))
    return fingerprint(title + f"{page.mime}\0{page.charset}\0".encode() + (page.body or b""))


def find_unchanged(pages: Sequence[Page], last: Mapping[bytes, Capture], sweep: int) -> list[SketchedPage | None]:
    """Recognise pages whose URL served the same bytes last time, and which therefore need no sketch.

    Return a capture without a payload for each unchanged page of a sweep, and None for each other page. `last` is the
    last capture of each URL that has captures. The same bytes give the same document, because a state has one
    extractor and tokeniser. Pages older than the last capture are sketched, because the earliest text is stored.
    """
    return [_find_unchanged(page, last.get(page.key), sweep) for page in pages]


def _find_unchanged(page: Page, previous: Capture | None, sweep: int) -> SketchedPage | None:
    if previous is None or previous.document is None or previous.status not in SUCCESS_STATUSES:
        return None
    if page.status not in SUCCESS_STATUSES or (page.body or page.text) is None or page.time < previous.time:
        return None
    if page.revisit_of is not None or page.redirect is not None or page.refused is not None:
        return None
    raw = fingerprint_page(page)
    if raw != previous.raw:
        return None
    capture = new_capture(page, sweep, previous.document, raw, previous.extractor)
    return SketchedPage(capture=capture, origin=page.origin)


def url_keys(pages: Sequence[SketchedPage]) -> list[bytes]:
    """Return the keys of the URLs whose last capture `capture` needs, ascending."""
    return sorted({page.capture.key for page in pages})


def original_queries(pages: Sequence[SketchedPage]) -> list[OriginalQuery]:
    """Return the queries for the captures that `resolve` needs, ascending."""
    return sorted({_original_query(page, page.revisit_of) for page in pages if page.revisit_of is not None})


def _original_query(page: SketchedPage, original_key: bytes) -> OriginalQuery:
    # Only the second is compared, because crawlers often write one of the two times without milliseconds.
    second = -1 if page.revisit_time is None else page.revisit_time // 1000
    return OriginalQuery(original_key, page.capture.sweep, page.capture.time, second)


def is_original(capture: Capture, second: int) -> bool:
    """Return whether a capture was made in this second or, if `second` is -1, whether it has a document."""
    return capture.time // 1000 == second if second >= 0 else capture.document is not None


def resolve(
    pages: Sequence[SketchedPage], before: Mapping[OriginalQuery, Sequence[Capture]]
) -> tuple[list[SketchedPage], list[Rejected]]:
    """Give each revisit the document of its original. Return all pages, and a rejection of each unresolved revisit.

    The original is the capture of the given time or, if no time is given, the last capture with a document. If it has
    no document (a picture, an error), the revisit gets none. `before` are the stored captures up to each of the
    `original_queries`. Later captures are ignored, so that a revisit supplied twice gets the same document twice.
    """
    batch: dict[bytes, list[Capture]] = {}
    resolved: list[SketchedPage] = []
    unresolved: list[Rejected] = []
    for page in pages:
        capture, original_key = page.capture, page.revisit_of
        if original_key is not None:
            query = _original_query(page, original_key)
            originals = [*batch.get(original_key, ()), *before.get(query, ())]
            originals = [c for c in originals if (c.sweep, c.time) <= (capture.sweep, capture.time)]
            if page.revisit_time is not None:
                originals = [c for c in originals if is_original(c, query.original_second)]
            if not originals:
                detail = "the capture that this revisit repeats is not in the state"
                unresolved.append(Rejected("revisit_unresolved", detail, page.origin, capture.url))
            if capture.status in SUCCESS_STATUSES or capture.status == NOT_MODIFIED:
                capture = _repeat(capture, originals)
            page = msgspec.structs.replace(page, capture=capture, revisit_of=None)  # noqa: PLW2901 - the same page
        batch.setdefault(capture.key, []).append(capture)
        resolved.append(page)
    return resolved, unresolved


def _repeat(capture: Capture, originals: Sequence[Capture]) -> Capture:
    """Return a revisit's capture with the document of the last of `originals` that has a document."""
    with_document = [c for c in originals if c.document is not None]
    if not with_document:
        return capture
    last = max(with_document, key=_order)
    # Compute the tie from the record as written, so that it does not depend on the document of the original.
    tie = capture.tie or capture_row.tie_of(capture)
    return msgspec.structs.replace(capture, document=last.document, raw=last.raw, extractor=last.extractor, tie=tie)


def capture(pages: Sequence[SketchedPage], last: Mapping[bytes, Capture]) -> CaptureResult:
    """Write the capture of each page; `last` is the last capture of each URL that has captures.

    A document is passed on if the last capture of the URL lacks it or is later than this capture, because pages can
    come in any order and more than once.
    """
    latest = dict(last)
    changes = Changes()
    rows = changes.puts_of(Family.CAPTURES)
    sightings: list[Sighting] = []
    captures: list[Capture] = []
    possibly_stored: list[bytes] = []
    unchanged = 0
    for page in pages:
        new = page.capture
        if not new.tie:
            new = msgspec.structs.replace(new, tie=capture_row.tie_of(new))
        row_key = capture_row.key_of(new)
        if row_key not in rows:
            captures.append(new)
        rows[row_key] = capture_row.encode(new)
        previous = latest.get(new.key)
        if previous is None or _order(previous) < _order(new):
            latest[new.key] = new
        else:
            possibly_stored.append(row_key)
        if new.document is None:
            continue
        if previous is not None and previous.document == new.document and previous.time <= new.time:
            unchanged += 1
            continue
        sighting = Sighting(document=new.document, key=new.key, time=new.time, words=page.words, payload=page.payload)
        sightings.append(sighting)
    return CaptureResult(
        changes=changes, sightings=sightings, captures=captures, possibly_stored=possibly_stored, unchanged=unchanged
    )


def _order(capture: Capture) -> tuple[int, int, int]:
    return capture.sweep, capture.time, capture.tie

"""capture: writes the history of each URL, and outputs a sighting when the document of a URL changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import Capture, Extractor
from streams.operators.messages import Sighting, SketchedPage
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES, Page, Rejected
from streams.settings import Policy
from streams.sketch import content_kind
from streams.sketch.sketcher import fingerprint


class OriginalQuery(NamedTuple):
    """A query for the original of a revisit, the capture that the revisit repeats."""

    original_key: bytes  # URL key
    revisit_sweep: int
    revisit_time: int  # ms; the original is not later
    original_time_s: int  # in whole seconds; -1 if the crawler did not record it


class CaptureResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `capture` returns for a batch of pages."""

    changes: Changes
    sightings: list[Sighting]
    captures: list[Capture]  # one per row written
    possibly_stored_keys: list[bytes]  # row keys of captures that arrived late or repeatedly
    unchanged: int  # number of captures with the same document as the previous capture of the URL
    stripped: int  # number of captures whose page was not parsed, because that would have been too expensive


def new_capture(
    page: Page, sweep: int, document: bytes | None = None, raw_fingerprint: bytes = b"", extractor: int = 0,
    links: bytes = b"",
) -> Capture:  # fmt: skip
    return Capture(
        key=page.key,
        url=page.url,
        sweep=sweep,
        time=page.time,
        status=page.status,
        document=document,
        raw_fingerprint=raw_fingerprint,
        redirect=page.redirect,
        extractor=extractor,
        links=links,
    )


def fingerprint_page(page: Page) -> bytes:
    """Return an 8-byte hash of everything from which the title, text and links of a page are extracted."""
    title = b"title\0" + page.title.encode("utf-8", "replace") + b"\0" if page.title else b""
    if page.text is not None:
        links = b"\0links\0" + msgspec.msgpack.encode(page.links) if page.links else b""
        return fingerprint(title + b"text\0" + page.text.encode("utf-8", "replace") + links)
    return fingerprint(title + f"{page.mime}\0{page.charset}\0".encode() + (page.body or b""))


def find_unchanged(
    pages: Sequence[Page], last_captures: Mapping[bytes, Capture], sweep: int, policy: Policy
) -> list[SketchedPage | None]:
    """Return, for each page, its capture if the URL's last capture had the same bytes, otherwise None.

    An unchanged page needs no sketch: a state has one extractor and tokeniser, so the same bytes give the same
    document. A page older than the last capture is sketched anyway, because the state stores the earliest text.
    A page that may have links, but whose last capture has none, is sketched again: links may not have been stored.
    A response that `policy` no longer accepts as a page is sketched again too.
    `last_captures` contains the last capture of each URL that has captures, by URL key.
    """
    keep_links = policy.keep_links != "off"
    unchanged_pages = [
        _find_unchanged_page(page, last_captures.get(page.key), sweep, keep_links=keep_links) for page in pages
    ]
    return [
        result if result is not None and content_kind.is_page(page, policy) else None
        for page, result in zip(pages, unchanged_pages, strict=True)
    ]


def _find_unchanged_page(
    page: Page, previous: Capture | None, sweep: int, *, keep_links: bool
) -> SketchedPage | None:
    if previous is None or previous.document is None or previous.status not in SUCCESS_STATUSES:
        return None
    if page.status not in SUCCESS_STATUSES or (page.body or page.text) is None or page.time < previous.time:
        return None
    if page.original_url is not None or page.redirect is not None or page.content_error is not None:
        return None
    raw_fingerprint = fingerprint_page(page)
    if raw_fingerprint != previous.raw_fingerprint:
        return None
    if keep_links and not previous.links and _may_have_links(page):
        return None
    capture = new_capture(page, sweep, previous.document, raw_fingerprint, previous.extractor, previous.links)
    return SketchedPage(capture=capture, origin=page.origin)


def _may_have_links(page: Page) -> bool:
    return bool(page.links) or (page.body is not None and (b"href" in page.body or b"HREF" in page.body))


def url_keys(pages: Sequence[SketchedPage]) -> list[bytes]:
    """Return the sorted keys of the pages' URLs. `capture` needs the last capture of each."""
    return sorted({page.capture.key for page in pages})


def original_queries(pages: Sequence[SketchedPage]) -> list[OriginalQuery]:
    """Return the sorted queries for the originals of all revisits. `resolve` needs their results."""
    return sorted({_original_query(page, page.original_key) for page in pages if page.original_key is not None})


def _original_query(page: SketchedPage, original_key: bytes) -> OriginalQuery:
    # Times are compared in whole seconds, because crawlers often omit the milliseconds of one of the two captures.
    original_time_s = -1 if page.original_time is None else page.original_time // 1000
    return OriginalQuery(original_key, page.capture.sweep, page.capture.time, original_time_s)


def is_original(capture: Capture, original_time_s: int) -> bool:
    """Return whether a capture has the time of the original or, if that time is unknown (-1), has a document."""
    if original_time_s < 0:
        return capture.document is not None
    return capture.time // 1000 == original_time_s


def resolve(
    pages: Sequence[SketchedPage], stored_captures: Mapping[OriginalQuery, Sequence[Capture]]
) -> tuple[list[SketchedPage], list[Rejected]]:
    """Give each revisit the document of its original. Return all pages, and the rejected revisits.

    The original is the capture at the recorded time or, if no time is recorded, the last capture with a document. If
    the original has no document (an image, an error), the revisit gets no document either. A revisit without an
    original is returned without a document, and also rejected. `stored_captures` contains the results of
    `original_queries`. Captures later than the revisit are ignored, so that a revisit supplied twice gets the same
    document both times.
    """
    batch_captures: dict[bytes, list[Capture]] = {}  # by URL key
    resolved: list[SketchedPage] = []
    unresolved: list[Rejected] = []
    for page in pages:
        capture, original_key = page.capture, page.original_key
        if original_key is not None:
            query = _original_query(page, original_key)
            originals = [*batch_captures.get(original_key, ()), *stored_captures.get(query, ())]
            originals = [c for c in originals if (c.sweep, c.time) <= (capture.sweep, capture.time)]
            if page.original_time is not None:
                originals = [c for c in originals if is_original(c, query.original_time_s)]
            if not originals:
                detail = "the capture that this revisit repeats is not in the state"
                unresolved.append(Rejected("revisit_unresolved", detail, page.origin, capture.url))
            if capture.status in SUCCESS_STATUSES or capture.status == NOT_MODIFIED:
                capture = _copy_document(capture, originals)
            page = msgspec.structs.replace(page, capture=capture, original_key=None)  # noqa: PLW2901 - the same page
        batch_captures.setdefault(capture.key, []).append(capture)
        resolved.append(page)
    return resolved, unresolved


def _copy_document(capture: Capture, originals: Sequence[Capture]) -> Capture:
    """Return a revisit's capture with the document of the last capture in `originals` that has a document."""
    originals = [c for c in originals if c.document is not None]
    if not originals:
        return capture
    last_original = max(originals, key=_chronological_key)
    # The tiebreaker is part of the row key. Computed without the document, it does not depend on the original.
    tiebreaker = capture.tiebreaker or capture_row.tiebreaker_of(capture)
    # The links of an original with a different URL are stored under that URL, because relative links lead elsewhere.
    links = last_original.links if last_original.key == capture.key else b""
    return msgspec.structs.replace(
        capture,
        document=last_original.document,
        raw_fingerprint=last_original.raw_fingerprint,
        extractor=last_original.extractor,
        links=links,
        tiebreaker=tiebreaker,
    )


def capture(pages: Sequence[SketchedPage], last_captures: Mapping[bytes, Capture]) -> CaptureResult:
    """Write the capture of each page.

    `last_captures` contains the last stored capture of each URL that has captures. Output a sighting of the page's
    document if the URL's last capture has a different document. Output a sighting, too, if the last capture is later
    than the page, because pages may arrive in any order and more than once.
    """
    last_by_url = dict(last_captures)  # includes captures of this batch
    changes = Changes()
    rows = changes.puts_of(Family.CAPTURES)
    sightings: list[Sighting] = []
    captures: list[Capture] = []
    possibly_stored_keys: list[bytes] = []
    unchanged = 0
    for page in pages:
        current = page.capture
        if not current.tiebreaker:
            current = msgspec.structs.replace(current, tiebreaker=capture_row.tiebreaker_of(current))
        row_key = capture_row.key_of(current)
        if row_key not in rows:
            captures.append(current)
        rows[row_key] = capture_row.encode(current)
        previous = last_by_url.get(current.key)
        if previous is None or _chronological_key(previous) < _chronological_key(current):
            last_by_url[current.key] = current
        else:
            possibly_stored_keys.append(row_key)
        if current.document is None:
            continue
        if previous is not None and previous.document == current.document and previous.time <= current.time:
            unchanged += 1
            continue
        sighting = Sighting(
            document=current.document, key=current.key, time=current.time, words=page.words, payload=page.payload
        )
        sightings.append(sighting)
    return CaptureResult(
        changes=changes,
        sightings=sightings,
        captures=captures,
        possibly_stored_keys=possibly_stored_keys,
        unchanged=unchanged,
        stripped=sum(capture.extractor == Extractor.HTML_STRIPPED for capture in captures),
    )


def _chronological_key(capture: Capture) -> tuple[int, int, int]:
    return capture.sweep, capture.time, capture.tiebreaker

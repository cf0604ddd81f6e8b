"""capture: writes the history of a URL and sends on a document that the URL did not hold last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import Capture
from streams.operators.messages import Sighting, SketchedPage
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES, Rejected

Instant = tuple[bytes, int, int, int]
"""A url key, a sweep and a time in ms: where a look back begins; and the second that it looks for, -1 for any."""


class Captured(msgspec.Struct, frozen=True):
    """What `capture` makes of a batch."""

    changes: Changes
    sightings: list[Sighting]
    captures: list[Capture]  # one a row written
    repeated: list[bytes]  # rows that may have been there already, of pages handed in twice or late
    unchanged: int


class Resolved(msgspec.Struct, frozen=True):
    """What `resolve` makes of a batch: the pages in their order, and the revisits of nothing that is known."""

    pages: list[SketchedPage]
    unresolved: list[Rejected]


def needs(pages: Sequence[SketchedPage]) -> list[bytes]:
    """Keys of the URLs whose last capture is asked for."""
    return sorted({page.capture.key for page in pages})


def revisit_lookups(pages: Sequence[SketchedPage]) -> list[Instant]:
    """Of each revisit, the instant from which the capture that it repeats is looked for."""
    return sorted({_instant_of(page, page.revisit_of) for page in pages if page.revisit_of is not None})


def _instant_of(page: SketchedPage, of: bytes) -> Instant:
    second = -1 if page.revisit_time is None else page.revisit_time // 1000  # crawlers write one of the two to it
    return of, page.capture.sweep, page.capture.time, second


def is_repeated(held: Capture, second: int) -> bool:
    """A capture is what a look back for a second, or for any document, finds."""
    return held.time // 1000 == second if second >= 0 else held.document is not None


def resolve(pages: Sequence[SketchedPage], before: Mapping[Instant, Sequence[Capture]]) -> Resolved:
    """Give each revisit the document of the capture that it repeats: by its time, else that URL's last document.

    `before` holds captures that the state has up to each instant that is looked back from. What came later does not
    count, so that a revisit handed in again finds what it found. A revisit of what holds no document (a picture, an
    error) has none either; one of a capture that is not known is reported as `revisit_unresolved`.
    """
    batch: dict[bytes, list[Capture]] = {}
    resolved: list[SketchedPage] = []
    unresolved: list[Rejected] = []
    for page in pages:
        held, of = page.capture, page.revisit_of
        if of is not None:
            instant = _instant_of(page, of)
            known = [*batch.get(of, ()), *before.get(instant, ())]
            known = [c for c in known if (c.sweep, c.time) <= (held.sweep, held.time)]
            if page.revisit_time is not None:
                known = [c for c in known if is_repeated(c, instant[3])]
            if not known:
                detail = "the capture that this revisit repeats is not in the state"
                unresolved.append(Rejected("revisit_unresolved", detail, page.origin, held.url))
            if held.status in SUCCESS_STATUSES or held.status == NOT_MODIFIED:
                held = _repeating(held, known)
            page = msgspec.structs.replace(page, capture=held, revisit_of=None)  # noqa: PLW2901 - the page, resolved
        batch.setdefault(held.key, []).append(held)
        resolved.append(page)
    return Resolved(resolved, unresolved)


def _repeating(held: Capture, known: Sequence[Capture]) -> Capture:
    with_document = [c for c in known if c.document is not None]
    if not with_document:
        return held
    last = max(with_document, key=lambda c: (c.sweep, c.time, c.tie))
    # The tie stays that of the record as the crawler wrote it, whatever it turned out to repeat.
    return msgspec.structs.replace(
        held, document=last.document, raw=last.raw, extractor=last.extractor, tie=held.tie or capture_row.tie(held)
    )


def capture(pages: Sequence[SketchedPage], last: Mapping[bytes, Capture]) -> Captured:
    """Write each page's capture; `last` holds the last capture of each URL that has one.

    A document is sent on when the URL did not hold it last time, or when this capture is from before that time:
    pages may come in any order and more than once.
    """
    latest = dict(last)
    changes = Changes()
    rows = changes.family(Family.CAPTURES)
    sightings: list[Sighting] = []
    captures: list[Capture] = []
    repeated: list[bytes] = []
    unchanged = 0
    for page in pages:
        held = page.capture
        if not held.tie:
            held = msgspec.structs.replace(held, tie=capture_row.tie(held))
        row = capture_row.row_key(held)
        if row not in rows:
            captures.append(held)
        rows[row] = capture_row.encode(held)
        before = latest.get(held.key)
        if before is None or _instant(before) < _instant(held):
            latest[held.key] = held
        else:
            repeated.append(row)
        if held.document is None:
            continue
        if before is not None and before.document == held.document and before.time <= held.time:
            unchanged += 1
        else:
            sightings.append(Sighting(held.document, held.key, held.time, page.words, page.payload))
    return Captured(changes, sightings, captures, repeated, unchanged)


def _instant(held: Capture) -> tuple[int, int, int]:
    return held.sweep, held.time, held.tie

"""capture: writes the history of a URL, and passes on the documents that the URL did not have last time."""

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
"""The URL key, sweep and time (ms) of a revisit, and the second of the capture that it repeats (-1: unknown)."""


class CaptureResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `capture`."""

    changes: Changes
    sightings: list[Sighting]
    captures: list[Capture]  # one per row written
    repeated: list[bytes]  # rows that may have existed already: pages supplied twice or late
    unchanged: int


class ResolveResult(msgspec.Struct, frozen=True):
    """The result of `resolve`: the pages in order, and a rejection of each revisit whose original is unknown."""

    pages: list[SketchedPage]
    unresolved: list[Rejected]


def needs(pages: Sequence[SketchedPage]) -> list[bytes]:
    """Return the keys of the URLs whose last capture `capture` needs, ascending."""
    return sorted({page.capture.key for page in pages})


def revisit_instants(pages: Sequence[SketchedPage]) -> list[Instant]:
    """Return the instants for which `resolve` needs the captures before, ascending."""
    return sorted({_instant(page, page.revisit_of) for page in pages if page.revisit_of is not None})


def _instant(page: SketchedPage, repeated_key: bytes) -> Instant:
    # Crawlers often write one of the two times to the second only.
    second = -1 if page.revisit_time is None else page.revisit_time // 1000
    return repeated_key, page.capture.sweep, page.capture.time, second


def matches_second(capture: Capture, second: int) -> bool:
    """Return whether a capture is of this second; if -1, whether it has a document."""
    return capture.time // 1000 == second if second >= 0 else capture.document is not None


def resolve(pages: Sequence[SketchedPage], before: Mapping[Instant, Sequence[Capture]]) -> ResolveResult:
    """Give each revisit the document of the capture that it repeats: by its time, else the URL's last document.

    `before` has the stored captures up to each of the `revisit_instants`. Later captures do not count, so that a
    revisit supplied twice gets the same answer twice. A revisit of a capture without a document (a picture, an error)
    gets no document; a revisit of an unknown capture is also reported as `revisit_unresolved`.
    """
    batch: dict[bytes, list[Capture]] = {}
    resolved: list[SketchedPage] = []
    unresolved: list[Rejected] = []
    for page in pages:
        capture, repeated_key = page.capture, page.revisit_of
        if repeated_key is not None:
            instant = _instant(page, repeated_key)
            originals = [*batch.get(repeated_key, ()), *before.get(instant, ())]
            originals = [c for c in originals if (c.sweep, c.time) <= (capture.sweep, capture.time)]
            if page.revisit_time is not None:
                originals = [c for c in originals if matches_second(c, instant[3])]
            if not originals:
                detail = "the capture that this revisit repeats is not in the state"
                unresolved.append(Rejected("revisit_unresolved", detail, page.origin, capture.url))
            if capture.status in SUCCESS_STATUSES or capture.status == NOT_MODIFIED:
                capture = _repeat(capture, originals)
            page = msgspec.structs.replace(page, capture=capture, revisit_of=None)  # noqa: PLW2901 - the same page
        batch.setdefault(capture.key, []).append(capture)
        resolved.append(page)
    return ResolveResult(resolved, unresolved)


def _repeat(capture: Capture, originals: Sequence[Capture]) -> Capture:
    """Return a revisit's capture with the document of the last original that has one."""
    with_document = [c for c in originals if c.document is not None]
    if not with_document:
        return capture
    last = max(with_document, key=_order)
    # The tie remains that of the record as written, whatever the revisit turns out to repeat.
    tie = capture.tie or capture_row.tie(capture)
    return msgspec.structs.replace(capture, document=last.document, raw=last.raw, extractor=last.extractor, tie=tie)


def capture(pages: Sequence[SketchedPage], last: Mapping[bytes, Capture]) -> CaptureResult:
    """Write the capture of each page; `last` is the last capture of each URL that has one.

    A document is passed on if the URL did not have it last time, or if this capture is older than the last one:
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
        new = page.capture
        if not new.tie:
            new = msgspec.structs.replace(new, tie=capture_row.tie(new))
        row_key = capture_row.row_key(new)
        if row_key not in rows:
            captures.append(new)
        rows[row_key] = capture_row.encode(new)
        previous = latest.get(new.key)
        if previous is None or _order(previous) < _order(new):
            latest[new.key] = new
        else:
            repeated.append(row_key)
        if new.document is None:
            continue
        if previous is not None and previous.document == new.document and previous.time <= new.time:
            unchanged += 1
        else:
            sighting = Sighting(
                document=new.document, key=new.key, time=new.time, words=page.words, payload=page.payload
            )
            sightings.append(sighting)
    return CaptureResult(
        changes=changes, sightings=sightings, captures=captures, repeated=repeated, unchanged=unchanged
    )


def _order(capture: Capture) -> tuple[int, int, int]:
    return capture.sweep, capture.time, capture.tie

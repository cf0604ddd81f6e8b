"""capture: writes the history of a URL and sends on a document that the URL did not hold last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from state.changes import Changes
from state.codecs import capture as codec
from state.families import Family
from state.values import Capture
from streams.values import Arrival, Rejected, SketchedPage


class Captured(msgspec.Struct, frozen=True):
    """What `capture` makes of a batch."""

    changes: Changes
    arrivals: list[Arrival]
    captures: list[Capture]  # one a row written
    repeated: list[bytes]  # rows of URLs that this sweep has captured before: perhaps the same row again
    unchanged: int
    unresolved: list[Rejected]


def needs(pages: Sequence[SketchedPage]) -> list[bytes]:
    """Keys of the URLs whose last capture is asked for."""
    keys = {page.capture.key for page in pages}
    keys.update(page.revisit_of for page in pages if page.revisit_of)
    return sorted(keys)


def capture(pages: Sequence[SketchedPage], last: Mapping[bytes, Capture]) -> Captured:
    """Write each page's capture; `last` holds the last capture of each URL that has one.

    A revisit takes the document of the capture that it repeats, if that has one; a revisit of a capture that is not
    known is written without a document and reported as `revisit_unresolved`.
    """
    latest = dict(last)
    changes = Changes()
    rows = changes.family(Family.CAPTURES)
    arrivals: list[Arrival] = []
    captures: list[Capture] = []
    repeated: list[bytes] = []
    unresolved: list[Rejected] = []
    unchanged = 0
    for page in pages:
        held = page.capture
        if page.revisit_of is not None:
            held, problem = _revisited(page, latest)
            unresolved.extend(problem)
        row = codec.encode_key(held.key, held.sweep, held.time)
        if row not in rows:
            captures.append(held)
        rows[row] = codec.encode(held)
        before = latest.get(held.key)
        latest[held.key] = held
        if before is not None and before.sweep == held.sweep:
            repeated.append(row)
        if held.document is None:
            continue
        if before is not None and before.document == held.document:
            unchanged += 1
        else:
            arrivals.append(Arrival(held.document, held.key, held.time, page.words, page.material))
    return Captured(changes, arrivals, captures, repeated, unchanged, unresolved)


def _revisited(page: SketchedPage, latest: Mapping[bytes, Capture]) -> tuple[Capture, list[Rejected]]:
    repeated = latest.get(page.revisit_of or b"")
    if repeated is None:
        detail = "the capture that this revisit repeats is not in the state"
        return page.capture, [Rejected("revisit_unresolved", detail, page.origin, page.capture.url)]
    return (
        msgspec.structs.replace(
            page.capture, document=repeated.document, raw=repeated.raw, extractor=repeated.extractor
        ),
        [],
    )

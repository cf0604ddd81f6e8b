"""Find the URLs of a document, and the times when it was first and last seen.

The number of URLs is bounded. Captures of a sweep that is being cancelled do not count.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from state.model import Capture, DocumentRow
from state.view import View

T = TypeVar("T")
LOCATIONS_READ_MAX = 65_536  # per document, to find the URLs that had it first and those that received it last


class Sightings(NamedTuple):
    """URLs of a document and the times when it was first and last seen, ms."""

    urls: list[str]
    first_seen: int
    last_seen: int


def read_sightings(view: View, row: DocumentRow, limit: int) -> Sightings:
    """Read at most `limit` URLs of a document: half of them had it first, the other half received it last.

    `last_seen` is the latest time among these URLs.
    """
    (locations,) = view.locations_seen([row.sketch.document], LOCATIONS_READ_MAX)
    keys = sorted(first_and_last(keys_by_first_seen(locations), limit))
    return find_sightings(view, row, view.histories(keys))


def find_sightings(view: View, row: DocumentRow, histories: list[list[Capture]]) -> Sightings:
    """Return the sightings of a document in the captures of some URLs, given as one list per URL."""
    urls: list[str] = []
    times: list[int] = []
    for captures in histories:
        matching = [capture for capture in captures if capture.document == row.sketch.document]
        if matching:
            urls.append(matching[-1].url)
            times += [capture.time for capture in matching]
    # The row covers all URLs of the document, but also captures of a sweep that is being cancelled.
    first_seen = min(times, default=0) if view.cancelling else row.first_seen
    return Sightings(urls, first_seen, max(times, default=0))


def keys_by_first_seen(locations: list[tuple[bytes, int]]) -> list[bytes]:
    """Return the URL keys of a document in the order in which the URLs received it."""
    return [key for key, _ in sorted(locations, key=lambda location: (location[1], location[0]))]


def first_and_last(values: list[T], limit: int) -> list[T]:
    """Return at most `limit` values: half from the beginning of the list, half from its end."""
    if len(values) <= limit:
        return values
    return [*values[: limit - limit // 2], *values[len(values) - limit // 2 :]]

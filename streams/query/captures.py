"""The history of a URL: its captures, and how much each document resembles the previous one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import msgspec

from state.codecs import capture_row
from state.model import Sketch
from state.view import View
from streams.sketch import sketcher
from streams.urls import url_key

_CHUNK = 256  # captures per look-up


class UrlCapture(msgspec.Struct, frozen=True, kw_only=True):
    """One capture of a URL.

    `resemblance` compares its document with the previous document of the URL. It is None if either is missing.
    It is 1 only for the same document. Different documents have a lower value, however similar they are.
    """

    url: str
    time: int  # ms since the epoch
    sweep: str
    status: int
    document: str | None
    redirect: str | None
    resemblance: float | None


def captures(view: View, url: str) -> list[UrlCapture]:
    """Return the captures of a URL, ordered by sweep and then by time."""
    return list(iterate_captures(view, url))


def iterate_captures(view: View, url: str) -> Iterator[UrlCapture]:
    """Yield the captures of a URL in the order of `captures`. At most _CHUNK sketches are in memory at a time."""
    sweep_names = {sweep.number: sweep.name for sweep in view.sweeps()}
    previous: bytes | None = None
    stored = view.all_captures(capture_row.history_prefix(url_key(url)))
    # Skip captures of sweeps that were opened after `sweep_names` was read.
    history = (capture for capture in stored if capture.sweep in sweep_names)
    while chunk := list(islice(history, _CHUNK)):
        documents = [previous, *(capture.document for capture in chunk)]
        sketches = _read_sketches(view, {document for document in documents if document})
        for capture in chunk:
            resemblance = (
                _resemblance(sketches, previous, capture.document) if previous and capture.document else None
            )
            yield UrlCapture(
                url=capture.url,
                time=capture.time,
                sweep=sweep_names[capture.sweep],
                status=capture.status,
                document=capture.document.hex() if capture.document else None,
                redirect=capture.redirect,
                resemblance=resemblance,
            )
            previous = capture.document or previous


def _read_sketches(view: View, documents: Collection[bytes]) -> dict[bytes, Sketch]:
    rows = view.documents(sorted(documents))
    return {row.sketch.document: row.sketch for row in rows if row is not None}


def _resemblance(sketches: Mapping[bytes, Sketch], a: bytes, b: bytes) -> float | None:
    """Return the resemblance of two documents. Different documents are assumed to differ in at least one shingle."""
    if a == b:
        return 1.0
    sketch_a, sketch_b = sketches.get(a), sketches.get(b)
    if sketch_a is None or sketch_b is None:
        return None
    shingles = max(sketch_a.shingles, sketch_b.shingles)
    return min(sketcher.compare(sketch_a, sketch_b).resemblance, shingles / (shingles + 1))

"""The history of a URL: its captures, and how much each document resembles the previous one."""

from __future__ import annotations

import msgspec

from state.view import View
from streams.sketch import sketcher
from streams.urls import url_key


class UrlCapture(msgspec.Struct, frozen=True, kw_only=True):
    """One capture of a URL.

    `resemblance` compares its document with the previous document of the URL. It is None if either is missing.
    It is 1 only for the same document. Different documents have a lower value, however similar they are.
    """

    url: str
    time: int  # ms
    sweep: str
    status: int
    document: str | None
    redirect: str | None
    resemblance: float | None


def captures(view: View, url: str) -> list[UrlCapture]:
    """Return the captures of a URL, ordered by sweep and then by time."""
    sweep_names = {sweep.number: sweep.name for sweep in view.sweeps()}
    previous: bytes | None = None
    history = []
    for capture in view.captures(url_key(url)):
        if capture.sweep not in sweep_names:  # the sweep was opened after the view read the sweeps
            continue
        resemblance = _resemblance(view, previous, capture.document) if previous and capture.document else None
        history.append(
            UrlCapture(
                url=capture.url,
                time=capture.time,
                sweep=sweep_names[capture.sweep],
                status=capture.status,
                document=capture.document.hex() if capture.document else None,
                redirect=capture.redirect,
                resemblance=resemblance,
            )
        )
        previous = capture.document or previous
    return history


def _resemblance(view: View, a: bytes, b: bytes) -> float | None:
    """Return the resemblance of two documents. Different documents are assumed to differ in at least one shingle."""
    if a == b:
        return 1.0
    row_a, row_b = view.documents([a, b])
    if row_a is None or row_b is None:
        return None
    shingles = max(row_a.sketch.shingles, row_b.sketch.shingles)
    return min(sketcher.compare(row_a.sketch, row_b.sketch).resemblance, shingles / (shingles + 1))

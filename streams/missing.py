"""Which URLs are missing: the questions for `find`, when nobody brings a list of dead links."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from state.values import SweepState
from state.view import View
from streams.urls import host_prefix


def missing(view: View) -> Iterator[str]:
    """URLs that held a page once, and none in the last committed sweep that visited their host, in order of key.

    A sweep that did not visit a host says nothing about its pages.
    """
    committed = [sweep.number for sweep in view.sweeps() if sweep.state is SweepState.COMMITTED]
    for key, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        history = list(captures)
        host = host_prefix(key)
        visited = next((number for number in reversed(committed) if view.host_captures(number, host)), None)
        pages = [capture for capture in history if capture.document]
        if visited is not None and pages and pages[-1].sweep < visited:
            yield pages[-1].url

"""Which URLs may be missing: the questions for `find`, when nobody brings a list of dead links."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from state.values import SweepState
from state.view import View


def suspects(view: View) -> Iterator[str]:
    """URLs that held a page once, but in no sweep since the last committed one, in order of key.

    Whether such a URL is missing, or that sweep was of another site, is for `find` to say.
    """
    committed = [sweep.number for sweep in view.sweeps() if sweep.state is SweepState.COMMITTED]
    newest = max(committed, default=0)
    for _, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        pages = [capture for capture in captures if capture.document]
        if pages and pages[-1].sweep < newest:
            yield pages[-1].url

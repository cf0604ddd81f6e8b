"""Which URLs may be missing: the questions for `find`, when nobody brings a list of dead links."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from state.model import SweepState
from state.view import View
from streams.urls import host_prefix


def missing_urls(view: View, soft_404_urls: int) -> Iterator[str]:
    """URLs that held a page once, and of which the last thing known is something else, in order of key.

    That is: no capture since the last committed sweep, one that holds no page, or a page that `soft_404_urls` URLs of
    its host hold or held. Whether such a URL is missing, or that sweep was of another site, is for `find` to say.
    """
    committed = [sweep.number for sweep in view.sweeps() if sweep.state is SweepState.COMMITTED]
    newest = max(committed, default=0)
    crowded = _crowded(view, soft_404_urls)
    for _, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        page = last = None
        for last in captures:
            page = last if last.document else page
        if page is not None and (page is not last or page.sweep < newest or page.document in crowded):
            yield page.url


def _crowded(view: View, urls_min: int) -> set[bytes]:
    """Documents at so many URLs of one host: error pages, perhaps, that are served as if all were well."""
    found: set[bytes] = set()
    for (document, _), places in groupby(view.all_locations(), key=lambda place: (place[0], host_prefix(place[1]))):
        if sum(1 for _ in places) >= urls_min:
            found.add(document)
    return found

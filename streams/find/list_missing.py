"""List the URLs that may be missing: the questions for `find` if no list of dead links is given."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from state.model import SweepState
from state.view import View
from streams.urls import host_prefix


def missing_urls(view: View, soft_404_urls: int) -> Iterator[str]:
    """Yield URLs that once had a page but may have lost it, in order of key.

    These are URLs without a capture in the last committed sweep, URLs whose last capture has no page, and URLs whose
    page is at `soft_404_urls` or more URLs of its host. `find` then decides by the rule in missing_rule.py: for
    example, the last sweep may have visited other sites only.
    """
    committed = [sweep.number for sweep in view.sweeps() if sweep.state is SweepState.COMMITTED]
    newest = max(committed, default=0)
    repeated = _repeated_documents(view, soft_404_urls)
    for _, captures in groupby(view.all_captures(), key=lambda capture: capture.key):
        page = last = None
        for last in captures:
            page = last if last.document else page
        if page is not None and (page is not last or page.sweep < newest or page.document in repeated):
            yield page.url


def _repeated_documents(view: View, urls_min: int) -> set[bytes]:
    """Return documents at `urls_min` or more URLs of one host: these may be error pages served with status 200."""
    documents: set[bytes] = set()
    by_host = groupby(view.all_locations(), key=lambda location: (location[0], host_prefix(location[1])))
    for (document, _), locations in by_host:
        if sum(1 for _ in locations) >= urls_min:
            documents.add(document)
    return documents

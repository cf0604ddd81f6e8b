"""The rule that decides from its captures whether a URL is missing, and since which sweep.

`IS_MISSING` is the rule: what the outcome of a sweep says about a URL. Only committed sweeps make a URL missing; an
open sweep may show that it is alive. If a sweep has several captures of a URL, the last one counts, but an answer
that asks the crawler to retry later does not replace an earlier capture. A redirect to another spelling of the same
URL, such as from http to https, is ignored.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from state.model import Capture
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES
from streams.urls import url_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.find.sweep_index import SweepIndex

_SERVER_ERRORS = 500
_RETRY_LATER = frozenset({408, 425, 429})


class Outcome(Enum):
    """What one sweep found at a URL."""

    PAGE = auto()  # a page with text that is not a soft 404
    NO_TEXT = auto()  # a 304, or a 2xx answer without text: a PDF, a picture, an empty shell
    REFUSED = auto()  # a redirect, another 3xx or 4xx, or a soft 404
    RETRY_LATER = auto()  # 408, 425, 429 or 5xx
    RETRY_LATER_AGAIN = auto()  # the same in the next sweep that has a capture
    NOT_CAPTURED = auto()  # no capture, but the sweep visited the host, or belongs to the same crawl
    NOT_COVERED = auto()  # no capture, and the sweep shares no host with the last one: a different crawl


IS_MISSING: dict[Outcome, bool | None] = {  # None: as before
    Outcome.PAGE: False,
    Outcome.NO_TEXT: False,
    Outcome.REFUSED: True,
    Outcome.RETRY_LATER: None,
    Outcome.RETRY_LATER_AGAIN: True,
    Outcome.NOT_CAPTURED: True,
    Outcome.NOT_COVERED: None,
}


class Life(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The history of one URL.

    `pages` are the captures that have a page, one per sweep, in order. `textless_answer` is the last answer after
    them, if it has no text. `refusals` are the later captures that show the URL as missing. `last_tried` is the last
    sweep that has any capture of the URL, or 0. `missing_since` is the first committed sweep after the last answer
    that shows the URL as missing, or None.
    """

    key: bytes
    pages: tuple[Capture, ...]
    textless_answer: Capture | None
    refusals: tuple[Capture, ...]
    last_tried: int
    missing_since: int | None

    @property
    def last_page(self) -> Capture | None:
        """The last capture that has a page."""
        return self.pages[-1] if self.pages else None

    @property
    def last_answer(self) -> Capture | None:
        """The last capture that is an answer, with or without text."""
        return self.textless_answer or self.last_page

    @property
    def is_alive(self) -> bool:
        """Whether the URL answered and is not missing since."""
        return self.last_answer is not None and self.missing_since is None

    def document_at(self, sweep: int) -> bytes | None:
        """Return the document of one sweep."""
        return next((page.document for page in self.pages if page.sweep == sweep), None)

    def documents_since(self, sweep: int) -> list[bytes]:
        """Return the distinct documents of this sweep and later ones, in order."""
        documents = (page.document for page in self.pages if page.sweep >= sweep)
        return list(dict.fromkeys(document for document in documents if document is not None))


def read_life(
    key: bytes, captures: list[Capture], sweeps: SweepIndex, is_soft_404: Callable[[bytes, bytes], bool]
) -> Life:
    """Apply the rule to the captures of a URL, which are in order; `is_soft_404` takes a document and a URL key."""
    by_sweep = _one_per_sweep(captures)
    pages: list[Capture] = []
    textless_answer: Capture | None = None
    refusals: list[Capture] = []
    outcome = Outcome.NOT_COVERED
    for capture in by_sweep.values():
        outcome = _outcome(capture, outcome, is_soft_404)
        if IS_MISSING[outcome]:
            refusals.append(capture)
        elif IS_MISSING[outcome] is False:
            refusals = []
            textless_answer = capture if outcome is Outcome.NO_TEXT else None
            if outcome is Outcome.PAGE:
                pages.append(capture)
    life = Life(
        key=key,
        pages=tuple(pages),
        textless_answer=textless_answer,
        refusals=tuple(refusals),
        last_tried=max(by_sweep, default=0),
        missing_since=None,
    )
    return msgspec.structs.replace(life, missing_since=_missing_since(life, by_sweep, sweeps))


def absent_since(life: Life, sweeps: SweepIndex) -> int | None:
    """Return the first sweep without the URL, even if no sweep covers it: its whole host may have moved."""
    if life.missing_since is not None:
        return life.missing_since
    return next((sweep for sweep in sweeps.committed if sweep > life.last_tried), None)


def redirect_key(capture: Capture) -> bytes | None:
    """Return the key of the URL that a capture redirects to; None without a valid redirect."""
    if capture.redirect is None:
        return None
    try:
        return url_key(urljoin(capture.url, capture.redirect))
    except ValueError:
        return None


def _outcome(capture: Capture, previous: Outcome, is_soft_404: Callable[[bytes, bytes], bool]) -> Outcome:
    if _asks_to_retry(capture):
        is_repeated = previous in (Outcome.RETRY_LATER, Outcome.RETRY_LATER_AGAIN)
        return Outcome.RETRY_LATER_AGAIN if is_repeated else Outcome.RETRY_LATER
    if capture.redirect is not None or not (capture.status in SUCCESS_STATUSES or capture.status == NOT_MODIFIED):
        return Outcome.REFUSED
    if capture.document is None:
        return Outcome.NO_TEXT
    return Outcome.REFUSED if is_soft_404(capture.document, capture.key) else Outcome.PAGE


def _one_per_sweep(captures: list[Capture]) -> dict[int, Capture]:
    """Return the capture that counts in each sweep, in order."""
    by_sweep: dict[int, Capture] = {}
    for capture in captures:
        is_self_redirect = redirect_key(capture) == capture.key
        if not is_self_redirect and not (capture.sweep in by_sweep and _asks_to_retry(capture)):
            by_sweep[capture.sweep] = capture
    return by_sweep


def _missing_since(life: Life, by_sweep: dict[int, Capture], sweeps: SweepIndex) -> int | None:
    """Return the first committed sweep after the last answer that shows the URL as missing."""
    refused_in = {capture.sweep for capture in life.refusals}
    for sweep in sweeps.committed:
        if sweep in refused_in:
            return sweep
        if life.last_answer and sweep > life.last_answer.sweep and sweep not in by_sweep:
            covered = sweeps.covers(sweep, life.key, life.last_answer.sweep)
            if IS_MISSING[Outcome.NOT_CAPTURED if covered else Outcome.NOT_COVERED]:
                return sweep
    return None


def _asks_to_retry(capture: Capture) -> bool:
    """Whether the server asked to come back later, which says nothing about the page."""
    return capture.redirect is None and (capture.status >= _SERVER_ERRORS or capture.status in _RETRY_LATER)

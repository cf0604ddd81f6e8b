"""The life of a URL, read from its captures: when it held a page, and in which sweep it went missing.

| in a later committed sweep, the URL has                       | then the URL is                         |
|---------------------------------------------------------------|-----------------------------------------|
| a capture that holds a page (with text, no soft 404)          | held                                    |
| an answer without text: a PDF, a picture, an empty shell      | there, with nothing to compare          |
| a redirect, another 3xx or 4xx, a soft 404                    | missing                                 |
| 408, 425, 429 or 5xx: come back later                         | as before; missing at the second such   |
| no capture, and the sweep visited its host                    | missing                                 |
| no capture, and the sweep visited a host of the same crawl    | missing                                 |
| no capture, and the sweep shares no host with the last one    | as before: that was another crawl       |

2xx answers, and so does a 304: what was there has not changed. An open sweep may hold a URL but never makes one
missing. Of several captures of a URL in a sweep the last counts, but for those that ask to come back later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from state.model import Capture, SweepState
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES
from streams.urls import domain_ranges, host_prefix, url_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.find.find_view import FindView

_HOSTS_COMPARED_MAX = 64
_NEW_HOSTS_KEPT = 64
_SERVER_ERRORS = 500
_LATER = frozenset({408, 425, 429})
_HOSTS_READ_MAX = 10_000  # of a sweep with more, a host's move cannot be guessed


class Life(msgspec.Struct, frozen=True, gc=False):
    """What one URL was and is.

    `held` are the captures that held a page, one a sweep, in order; `textless` is the last one after them that
    answered without text. `missed` is the number of the first sweep after both that should have held the URL and did
    not, None where there is none. `refused` are the captures after both that are no answer: redirects, errors and
    soft 404s. `tried` is the number of the last sweep that has any capture, 0 where none has.
    """

    key: bytes
    held: tuple[Capture, ...]
    textless: Capture | None
    refused: tuple[Capture, ...]
    tried: int
    missed: int | None

    @property
    def last(self) -> Capture | None:
        """The last capture that held a page."""
        return self.held[-1] if self.held else None

    @property
    def answered(self) -> Capture | None:
        """The last capture that was an answer, with text or without."""
        return self.textless or self.last

    @property
    def alive(self) -> bool:
        """The URL answers, as far as anybody knows."""
        return self.answered is not None and self.missed is None

    def document_at(self, sweep: int) -> bytes | None:
        """The document that was held in one sweep."""
        return next((c.document for c in self.held if c.sweep == sweep), None)

    def documents_from(self, sweep: int) -> list[bytes]:
        """Distinct documents held in this sweep or later, in order."""
        held = (c.document for c in self.held if c.sweep >= sweep)
        return list(dict.fromkeys(d for d in held if d is not None))


class SweepIndex:
    """Committed sweeps, and which of them should have held which URLs."""

    def __init__(self, view: FindView) -> None:
        self._view = view
        self.committed = [s.number for s in view.sweeps() if s.state is SweepState.COMMITTED]
        self._of_domain = lru_cache(maxsize=65_536)(self._read_domain)
        self._shared = lru_cache(maxsize=4096)(self._share_hosts)
        self._new = lru_cache(maxsize=256)(self._read_new)

    def visited(self, number: int, host: bytes) -> bool:
        """The sweep has captures of this host."""
        return self._view.host_captures(number, host) > 0

    def covers(self, number: int, key: bytes, last: int) -> bool:
        """The sweep should have held this URL, whose last sweep was `last`."""
        if self.visited(number, host_prefix(key)):
            return True
        return bool(self.hosts_of_domain(number, key, 1)) or self._shared(number, last)

    def latest(self, host: bytes) -> int:
        """The last committed sweep that visited a host; the last committed one, or 0, where none did."""
        visited = (n for n in reversed(self.committed) if self.visited(n, host))
        return next(visited, self.committed[-1] if self.committed else 0)

    def hosts_of_domain(self, number: int, key: bytes, limit: int) -> list[bytes]:
        """Hosts of this key's registered domain that a sweep visited."""
        return self._of_domain(number, domain_ranges(key), limit)

    def _read_domain(self, number: int, ranges: tuple[tuple[bytes, bytes], ...], limit: int) -> list[bytes]:
        found: list[bytes] = []
        for start, stop in ranges:
            hosts = self._view.sweep_hosts(number, start, limit - len(found))
            found += (host for host in hosts if host < stop)
        return found

    def new_hosts(self, number: int, before: int, limit: int) -> list[bytes]:
        """Hosts that a sweep visited and the one `before` did not, those with most captures first."""
        return self._new(number, before)[:limit]

    def _read_new(self, number: int, before: int) -> list[bytes]:
        counts = self._view.sweep_hosts(number, limit=_HOSTS_READ_MAX + 1)
        if len(counts) > _HOSTS_READ_MAX:
            return []
        there = self._view.sweep_hosts(before, limit=_HOSTS_READ_MAX + 1)
        whole = len(there) <= _HOSTS_READ_MAX
        new = [host for host in counts if not (there.get(host, 0) if whole else self.visited(before, host))]
        return sorted(new, key=lambda host: (-counts[host], host))[:_NEW_HOSTS_KEPT]

    def _share_hosts(self, number: int, last: int) -> bool:
        for one, other in ((number, last), (last, number)):
            if any(self.visited(one, host) for host in self._view.sweep_hosts(other, limit=_HOSTS_COMPARED_MAX)):
                return True
        return False


def life_of(key: bytes, captures: list[Capture], calendar: SweepIndex, soft: Callable[[bytes, bytes], bool]) -> Life:
    """The life of a URL from its captures in order; `soft(document, key)` says which documents are soft 404s."""
    by_sweep = _one_a_sweep(captures)
    held: list[Capture] = []
    textless: Capture | None = None
    refused: list[Capture] = []
    put_off = 0
    for capture in by_sweep.values():
        put_off = put_off + 1 if _puts_off(capture) else 0
        if put_off == 1:
            continue
        if not _answers(capture) or (capture.document is not None and soft(capture.document, key)):
            refused.append(capture)
            continue
        refused = []
        if capture.document is None:
            textless = capture
        else:
            held.append(capture)
            textless = None
    life = Life(key, tuple(held), textless, tuple(refused), max(by_sweep, default=0), None)
    return msgspec.structs.replace(life, missed=_missed(life, by_sweep, calendar))


def _one_a_sweep(captures: list[Capture]) -> dict[int, Capture]:
    """Of each sweep the capture that counts, in order."""
    found: dict[int, Capture] = {}
    for capture in captures:
        if not _to_itself(capture) and not (capture.sweep in found and _puts_off(capture)):
            found[capture.sweep] = capture
    return found


def _missed(life: Life, by_sweep: dict[int, Capture], calendar: SweepIndex) -> int | None:
    """The first committed sweep after the last answer that should have held the URL and did not."""
    last = life.answered.sweep if life.answered else -1
    refusing = {capture.sweep for capture in life.refused}
    for number in calendar.committed:
        if number in refusing:
            return number
        if life.answered and number > last and number not in by_sweep and calendar.covers(number, life.key, last):
            return number
    return None


def _puts_off(capture: Capture) -> bool:
    """The server asked to come back later: what is there nobody knows."""
    return capture.redirect is None and (capture.status >= _SERVER_ERRORS or capture.status in _LATER)


def _answers(capture: Capture) -> bool:
    return capture.redirect is None and (capture.status in SUCCESS_STATUSES or capture.status == NOT_MODIFIED)


def _to_itself(capture: Capture) -> bool:
    """A redirect to another spelling of the same URL: from http to https, say."""
    return redirect_key(capture) == capture.key


def redirect_key(capture: Capture) -> bytes | None:
    """The key of the URL that a capture redirects to; None where it does not, or to what is no URL."""
    if capture.redirect is None:
        return None
    try:
        return url_key(urljoin(capture.url, capture.redirect))
    except ValueError:
        return None

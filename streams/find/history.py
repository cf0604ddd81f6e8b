"""The life of a URL, read from its captures: when it held a page, and in which sweep it went missing.

| in a later committed sweep, the URL has                       | then the URL is                         |
|---------------------------------------------------------------|-----------------------------------------|
| a capture that holds a page (2xx with text, no soft 404)      | held                                    |
| any other capture: a redirect, 4xx, 5xx, a soft 404           | missing                                 |
| no capture, and the sweep visited its host                    | missing                                 |
| no capture, and the sweep visited a host of the same crawl    | missing                                 |
| no capture, and the sweep shares no host with the last one    | as before: that was another crawl       |

An open sweep may hold a URL but never makes one missing. Of several captures of a URL in a sweep the last counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from state.values import Capture, SweepState
from streams.urls import domain_ranges, host_prefix, url_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.find.view import FindView

_HOSTS_COMPARED_MAX = 64
_NEW_HOSTS_KEPT = 64
_HOSTS_READ_MAX = 10_000  # of a sweep with more, a host's move cannot be guessed


class Life(msgspec.Struct, frozen=True, gc=False):
    """What one URL was and is.

    `held` are the captures that held a page, one a sweep, in order; `missed` is the number of the first sweep after
    the last of them that should have held the URL and did not, None where there is none. `refused` are the captures
    after the last held one that hold no page: redirects, errors and soft 404s.
    """

    key: bytes
    held: tuple[Capture, ...]
    refused: tuple[Capture, ...]
    missed: int | None

    @property
    def last(self) -> Capture | None:
        """The last capture that held a page."""
        return self.held[-1] if self.held else None

    @property
    def alive(self) -> bool:
        """The URL holds a page, as far as anybody knows."""
        return bool(self.held) and self.missed is None

    def document_at(self, sweep: int) -> bytes | None:
        """The document that was held in one sweep."""
        return next((c.document for c in self.held if c.sweep == sweep), None)

    def documents_from(self, sweep: int) -> list[bytes]:
        """Distinct documents held in this sweep or later, in order."""
        held = (c.document for c in self.held if c.sweep >= sweep)
        return list(dict.fromkeys(d for d in held if d is not None))


class Calendar:
    """Committed sweeps, and which of them should have held which URLs."""

    def __init__(self, view: FindView) -> None:
        self._view = view
        self.open = {s.number for s in view.sweeps() if s.state is not SweepState.COMMITTED}
        self.committed = [s.number for s in view.sweeps() if s.state is SweepState.COMMITTED]
        self.names = {s.number: s.name for s in view.sweeps()}
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
        return any(self.visited(number, host) for host in self._view.sweep_hosts(last, limit=_HOSTS_COMPARED_MAX))


def life_of(key: bytes, captures: list[Capture], calendar: Calendar, soft: Callable[[bytes, bytes], bool]) -> Life:
    """The life of a URL from its captures in order; `soft(document, key)` says which documents are soft 404s."""
    by_sweep = {capture.sweep: capture for capture in captures if not _to_itself(capture)}
    held = tuple(c for c in by_sweep.values() if _holds(c) and not soft(c.document or b"", key))
    last = held[-1].sweep if held else -1
    refused = tuple(c for c in by_sweep.values() if c.sweep > last)
    refusing = {c.sweep for c in refused}
    later = (n for n in calendar.committed if n > last)
    return Life(
        key,
        held,
        refused,
        next((n for n in later if n in refusing or (held and calendar.covers(n, key, last))), None),
    )


def _holds(capture: Capture) -> bool:
    return capture.document is not None and capture.redirect is None and 200 <= capture.status < 300


def _to_itself(capture: Capture) -> bool:
    """A redirect to another spelling of the same URL: from http to https, say."""
    if capture.redirect is None:
        return False
    try:
        return url_key(urljoin(capture.url, capture.redirect)) == capture.key
    except ValueError:
        return False

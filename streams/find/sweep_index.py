"""Committed sweeps, the hosts that they visited, and the URLs that they cover."""

from __future__ import annotations

from functools import lru_cache

from state.model import SweepState
from state.view import View
from streams.urls import domain_ranges, host_prefix

_HOSTS_COMPARED_MAX = 64
_NEW_HOSTS_MAX = 64
_HOSTS_READ_MAX = 10_000  # in a sweep with more hosts, the new home of a host cannot be guessed


class SweepIndex:
    """The committed sweeps of a view, and look-ups of their hosts through LRU caches that never refresh a value."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.committed = [s.number for s in view.sweeps() if s.state is SweepState.COMMITTED]
        self._hosts_of_domain = lru_cache(maxsize=65_536)(self._read_domain)
        self._same_crawl = lru_cache(maxsize=4096)(self._share_hosts)
        self.new_hosts = lru_cache(maxsize=256)(self._read_new_hosts)

    def has_visited(self, sweep: int, host: bytes) -> bool:
        return self._view.host_captures(sweep, host) > 0

    def covers(self, sweep: int, key: bytes, last_sweep: int) -> bool:
        """Whether a sweep would have captured a URL if it still existed; `last_sweep` captured the URL last.

        A sweep covers a URL if it visited its host, another host of its registered domain, or any host that
        `last_sweep` also visited: then both sweeps belong to the same crawl.
        """
        if self.has_visited(sweep, host_prefix(key)):
            return True
        return bool(self.hosts_of_domain(sweep, key, 1)) or self._same_crawl(sweep, last_sweep)

    def last_visit(self, host: bytes) -> int:
        """Return the last committed sweep that visited a host; if none did, the last committed sweep, or 0."""
        visits = (sweep for sweep in reversed(self.committed) if self.has_visited(sweep, host))
        return next(visits, self.committed[-1] if self.committed else 0)

    def hosts_of_domain(self, sweep: int, key: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` hosts of this key's registered domain that a sweep visited."""
        return self._hosts_of_domain(sweep, domain_ranges(key), limit)

    def _read_domain(self, sweep: int, ranges: tuple[tuple[bytes, bytes], ...], limit: int) -> list[bytes]:
        results: list[bytes] = []
        for start, stop in ranges:
            hosts = self._view.sweep_hosts(sweep, start, limit - len(results))
            results += (host for host in hosts if host < stop)
        return results

    def _read_new_hosts(self, sweep: int, previous: int) -> list[bytes]:
        """Return hosts that a sweep visited and a previous one did not, those with most captures first."""
        counts = self._view.sweep_hosts(sweep, limit=_HOSTS_READ_MAX + 1)
        if len(counts) > _HOSTS_READ_MAX:
            return []
        old_counts = self._view.sweep_hosts(previous, limit=_HOSTS_READ_MAX + 1)
        is_complete = len(old_counts) <= _HOSTS_READ_MAX
        new = [h for h in counts if not (old_counts.get(h, 0) if is_complete else self.has_visited(previous, h))]
        return sorted(new, key=lambda host: (-counts[host], host))[:_NEW_HOSTS_MAX]

    def _share_hosts(self, sweep: int, last_sweep: int) -> bool:
        for visitor, source in ((sweep, last_sweep), (last_sweep, sweep)):
            hosts = self._view.sweep_hosts(source, limit=_HOSTS_COMPARED_MAX)
            if any(self.has_visited(visitor, host) for host in hosts):
                return True
        return False

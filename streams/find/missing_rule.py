"""Decide from the captures of a URL whether it is missing, and since which sweep.

`IS_MISSING` defines the rule: which outcomes of a sweep show that a URL is missing or alive. Only committed sweeps
make a URL missing, but an open sweep can show that a URL is alive. If a sweep has several captures of a URL, the last
one decides, but a temporary error never replaces an earlier capture. A redirect to another form of the same URL,
such as https instead of http, is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import lru_cache
from itertools import groupby, islice
from typing import NamedTuple
from urllib.parse import urljoin

import msgspec

from state.model import Capture, SweepState
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.find.soft_404 import Soft404Detector
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES
from streams.urls import domain_ranges, host_prefix, key_host, url_key

_URLS_PER_BATCH, _ROWS_CACHED = 512, 4_096
_NEW_HOSTS_MAX = 64  # per pair of sweeps
_HOSTS_READ_MAX = 10_000  # in a sweep with more hosts, no host is regarded as new
_SERVER_ERROR_MIN = 500
_TEMPORARY_CLIENT_ERRORS = frozenset({408, 425, 429})


class Outcome(Enum):
    """What one sweep found at a URL."""

    PAGE = auto()  # a page with text that is not a soft 404
    NO_TEXT = auto()  # a 304, or a 2xx without text, such as a PDF, an image or an empty page
    NOT_SERVED = auto()  # a redirect, a soft 404, or any 3xx or 4xx that belongs to no other outcome
    TEMPORARY_ERROR = auto()  # 408, 425, 429 or 5xx
    REPEATED_TEMPORARY_ERROR = auto()  # a temporary error; the previous sweep to capture the URL found one too
    NOT_CAPTURED = auto()  # no capture, although the URL's host is in the scope of the sweep (`SweepIndex.covers`)
    NOT_COVERED = auto()  # no capture, and the URL's host is outside the scope of the sweep


IS_MISSING: dict[Outcome, bool | None] = {  # None: the URL stays missing or alive, as before
    Outcome.PAGE: False,
    Outcome.NO_TEXT: False,
    Outcome.NOT_SERVED: True,
    Outcome.TEMPORARY_ERROR: None,
    Outcome.REPEATED_TEMPORARY_ERROR: True,
    Outcome.NOT_CAPTURED: True,
    Outcome.NOT_COVERED: None,
}


class SweepIndex:
    """The committed sweeps of a view, and the hosts that they visited. Results are cached and never refreshed.

    `scope` lists hosts that are in the scope of every sweep. The constructor raises BadUrl if an entry is not a host.
    """

    def __init__(self, view: View, scope: Iterable[str] = ()) -> None:
        self._view = view
        self._scope = frozenset(map(scope_host, scope))
        self.committed = [s.number for s in view.sweeps() if s.state is SweepState.COMMITTED]
        self._hosts_of_domain = lru_cache(maxsize=65_536)(self._read_hosts_of_domain)
        self.new_hosts = lru_cache(maxsize=256)(self._read_new_hosts)

    def has_visited(self, sweep: int, host: bytes) -> bool:
        return self._view.captures_on_host(sweep, host) > 0

    def covers(self, sweep: int, key: bytes) -> bool:
        """Return whether a URL is in the scope of a sweep, which means that the sweep captured the URL if it existed.

        The scope consists of the hosts that the sweep visited, even if it captured only errors or redirects there,
        and the hosts that the user listed. docs/decisions/sweep-scope.md has the reasons.
        """
        host = host_prefix(key)
        return host in self._scope or self.has_visited(sweep, host)

    def hosts_outside_last_sweep(self) -> list[str]:
        """Return the hosts that earlier committed sweeps visited, but that are outside the scope of the last sweep.

        At most `_HOSTS_READ_MAX` hosts per sweep are read.
        """
        *earlier_sweeps, last_sweep = self.committed or [0]
        hosts: dict[bytes, None] = {}
        for sweep in earlier_sweeps:
            hosts.update(dict.fromkeys(self._view.captures_per_host(sweep, limit=_HOSTS_READ_MAX)))
        return [key_host(host, with_port=True) for host in hosts if not self.covers(last_sweep, host)]

    def last_sweep_of(self, host: bytes) -> int:
        """Return the last committed sweep that visited a host. If none did, return the last committed sweep, or 0."""
        visits = (sweep for sweep in reversed(self.committed) if self.has_visited(sweep, host))
        return next(visits, self.committed[-1] if self.committed else 0)

    def hosts_of_domain(self, sweep: int, key: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` hosts that a sweep visited on the registered domain of a URL key."""
        return self._hosts_of_domain(sweep, domain_ranges(key), limit)

    def _read_hosts_of_domain(self, sweep: int, ranges: tuple[tuple[bytes, bytes], ...], limit: int) -> list[bytes]:
        results: list[bytes] = []
        for start, stop in ranges:
            hosts = self._view.captures_per_host(sweep, start, limit - len(results))
            results += (host for host in hosts if host < stop)
        return results

    def _read_new_hosts(self, sweep: int, old_sweep: int) -> list[bytes]:
        """Return hosts that `sweep` visited but `old_sweep` did not, the hosts with the most captures first."""
        counts = self._view.captures_per_host(sweep, limit=_HOSTS_READ_MAX + 1)
        if len(counts) > _HOSTS_READ_MAX:
            return []
        old_counts = self._view.captures_per_host(old_sweep, limit=_HOSTS_READ_MAX + 1)
        is_truncated = len(old_counts) > _HOSTS_READ_MAX
        new_hosts = [
            host
            for host in counts
            if not (self.has_visited(old_sweep, host) if is_truncated else old_counts.get(host))
        ]
        return sorted(new_hosts, key=lambda host: (-counts[host], host))[:_NEW_HOSTS_MAX]


def scope_host(host: str) -> bytes:
    """Return the key prefix of a host. `host` is a host name, with or without a port, or any URL on the host."""
    return host_prefix(url_key(host if "://" in host else f"https://{host}/"))


class UrlHistory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The captures of one URL, classified by the rule.

    A success shows that the URL is alive; a failure shows that it is missing.
    """

    key: bytes
    pages: tuple[Capture, ...]  # successes with text, at most one per sweep, in sweep order
    textless_success: Capture | None  # the last success if it has no text; None if it has text
    failures: tuple[Capture, ...]  # all failures after the last success
    missing_since: int | None  # the first committed sweep that shows the URL as missing, after the last success

    @property
    def last_page(self) -> Capture | None:
        return self.pages[-1] if self.pages else None

    @property
    def last_success(self) -> Capture | None:
        return self.textless_success or self.last_page

    @property
    def is_alive(self) -> bool:
        """Whether the URL was captured successfully and has not gone missing since."""
        return self.last_success is not None and self.missing_since is None

    def document_in_sweep(self, sweep: int) -> bytes | None:
        return next((page.document for page in self.pages if page.sweep == sweep), None)

    def documents_since(self, sweep: int) -> list[bytes]:
        """Return the distinct documents that a sweep and later sweeps captured, in order."""
        documents = (page.document for page in self.pages if page.sweep >= sweep)
        return list(dict.fromkeys(document for document in documents if document is not None))


def build_history(
    key: bytes, captures: list[Capture], sweeps: SweepIndex, is_suspected_soft_404: Callable[[bytes, bytes], bool]
) -> UrlHistory:
    """Classify the captures of a URL. `captures` must be in chronological order.

    `is_suspected_soft_404` returns whether a document, served at a URL key, is a suspected soft 404.
    """
    decisive_captures = _decisive_captures(captures)
    pages: list[Capture] = []
    textless_success: Capture | None = None
    failures: list[Capture] = []
    outcome = Outcome.NOT_COVERED
    for capture in decisive_captures.values():
        outcome = _outcome(capture, outcome, is_suspected_soft_404)
        if IS_MISSING[outcome]:
            failures.append(capture)
        elif IS_MISSING[outcome] is False:
            failures = []
            textless_success = capture if outcome is Outcome.NO_TEXT else None
            if outcome is Outcome.PAGE:
                pages.append(capture)
    history = UrlHistory(
        key=key,
        pages=tuple(pages),
        textless_success=textless_success,
        failures=tuple(failures),
        missing_since=None,
    )
    return msgspec.structs.replace(history, missing_since=_missing_since(history, decisive_captures, sweeps))


def redirect_key(capture: Capture) -> bytes | None:
    """Return the key of the URL that a capture redirects to; None if there is no valid redirect."""
    if capture.redirect is None:
        return None
    try:
        return url_key(urljoin(capture.url, capture.redirect))
    except ValueError:
        return None


def _outcome(capture: Capture, previous: Outcome, is_suspected_soft_404: Callable[[bytes, bytes], bool]) -> Outcome:
    if _is_temporary_error(capture):
        is_repeated = previous in {Outcome.TEMPORARY_ERROR, Outcome.REPEATED_TEMPORARY_ERROR}
        return Outcome.REPEATED_TEMPORARY_ERROR if is_repeated else Outcome.TEMPORARY_ERROR
    if capture.redirect is not None or not (capture.status in SUCCESS_STATUSES or capture.status == NOT_MODIFIED):
        return Outcome.NOT_SERVED
    if capture.document is None:
        return Outcome.NO_TEXT
    return Outcome.NOT_SERVED if is_suspected_soft_404(capture.document, capture.key) else Outcome.PAGE


def _decisive_captures(captures: list[Capture]) -> dict[int, Capture]:
    """Return, for each sweep in order, the capture that decides its outcome."""
    by_sweep: dict[int, Capture] = {}
    for capture in captures:
        is_self_redirect = redirect_key(capture) == capture.key
        if not is_self_redirect and not (capture.sweep in by_sweep and _is_temporary_error(capture)):
            by_sweep[capture.sweep] = capture
    return by_sweep


def _missing_since(history: UrlHistory, decisive_captures: dict[int, Capture], sweeps: SweepIndex) -> int | None:
    sweeps_with_failure = {capture.sweep for capture in history.failures}
    for sweep in sweeps.committed:
        if sweep in sweeps_with_failure:
            return sweep
        if history.last_success and sweep > history.last_success.sweep and sweep not in decisive_captures:
            covered = sweeps.covers(sweep, history.key)
            if IS_MISSING[Outcome.NOT_CAPTURED if covered else Outcome.NOT_COVERED]:
                return sweep
    return None


def _is_temporary_error(capture: Capture) -> bool:
    status = capture.status
    return capture.redirect is None and (status >= _SERVER_ERROR_MIN or status in _TEMPORARY_CLIENT_ERRORS)


def possibly_missing_urls(view: View, soft_404_urls_min: int, prefix: bytes = b"") -> Iterator[str]:
    """Yield, in key order, those URLs under a key prefix that once had a page and may now be missing.

    These are URLs that the last committed sweep did not capture, URLs whose last capture has no document, and URLs
    that changed to a suspected soft 404. Not all of them are missing: for example, the last sweep may have visited
    only other sites. `Finder` applies the exact rule.
    """
    committed = [sweep.number for sweep in view.sweeps() if sweep.state is SweepState.COMMITTED]
    last_committed = max(committed, default=0)
    detector = Soft404Detector(view, BatchLru(view.documents, _ROWS_CACHED), soft_404_urls_min)
    urls = _urls_with_pages(view, prefix)
    while batch := list(islice(urls, _URLS_PER_BATCH)):
        detector.preload(url.last_page for url in batch if url.has_changed)
        for last_page, is_last_capture, has_changed in batch:
            is_soft_404 = has_changed and detector.is_suspected_soft_404(last_page.document or b"", last_page.key)
            if not is_last_capture or last_page.sweep < last_committed or is_soft_404:
                yield last_page.url


class _UrlWithPage(NamedTuple):
    last_page: Capture
    is_last_capture: bool
    has_changed: bool  # the URL had a different document before


def _urls_with_pages(view: View, prefix: bytes) -> Iterator[_UrlWithPage]:
    """Yield the last page of each URL that had a page, in order of key."""
    for _, captures in groupby(view.all_captures(prefix), key=lambda capture: capture.key):
        last_page = last_capture = None
        has_changed = False
        for last_capture in captures:
            if last_capture.document is not None:
                has_changed |= last_page is not None and last_page.document != last_capture.document
                last_page = last_capture
        if last_page is not None:
            yield _UrlWithPage(last_page, last_page is last_capture, has_changed)

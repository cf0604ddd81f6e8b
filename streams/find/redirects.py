"""Follow the redirects that sweeps recorded for a URL, and recognise catch-all redirects."""

from __future__ import annotations

from itertools import chain
from urllib.parse import urljoin

import msgspec

from streams.find.find_context import FindContext
from streams.find.missing_rule import UrlHistory, redirect_key
from streams.sketch.index_terms import page_name
from streams.urls import directory_prefix, url_key

_REDIRECTS_MAX = 8
_NEIGHBOURS_MAX = 256
_CAPTURES_SCANNED = 2_048  # only their keys are read


class RedirectTarget(msgspec.Struct, frozen=True):
    """The end of the redirects from a URL. A catch-all redirect sends many unrelated URLs to one target."""

    url: str
    history: UrlHistory
    is_catch_all: bool
    steps: int  # number of redirects


def follow_redirects(context: FindContext, history: UrlHistory) -> RedirectTarget | None:
    """Return the end of a URL's redirects, or None. Redirects that are invalid, too many or a loop have no end."""
    redirects = [capture for capture in history.failures if capture.redirect]
    if not redirects:
        return None
    url, visited = redirects[-1].url, {history.key}
    for steps in range(1, _REDIRECTS_MAX + 1):
        try:
            url = urljoin(url, redirects[-1].redirect or "")
            key = url_key(url)
        except ValueError:
            return None
        if key in visited:
            return None
        visited.add(key)
        target = context.checked_history(key)
        redirects = [capture for capture in target.failures if capture.redirect]
        if target.is_alive or not redirects:
            return RedirectTarget(url, target, _is_catch_all(context, history, key), steps)
    return None


def folder_neighbours(context: FindContext, key: bytes) -> list[bytes]:
    """Return the keys of URLs in or below the folder of a URL; they may include the URL's own key."""
    return context.view.url_keys_under(directory_prefix(key), _CAPTURES_SCANNED)[:_NEIGHBOURS_MAX]


def _is_catch_all(context: FindContext, history: UrlHistory, target_key: bytes) -> bool:
    """Return whether a redirect leads to a home page, or many neighbours of the URL redirect to its target."""
    if _is_home_page(target_key) and not _is_home_page(history.key):
        return True
    captures = chain.from_iterable(context.view.histories(folder_neighbours(context, history.key)))
    names = {page_name(capture.url) for capture in captures if redirect_key(capture) == target_key}
    return len(names) >= context.settings.soft_404_urls


def _is_home_page(key: bytes) -> bool:
    return key[key.find(b")") + 1 :] in {b"", b"/"}

"""A row of a redirect map, the properties that define a format, and functions that several formats share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import can_ada


class MapRow(NamedTuple):
    """A redirect, with the host, path and query of the old URL as browsers request them.

    `host` includes the port unless it is the default port, and `query` includes the `?`. All fields except
    `captured_url` and `page_path` are ASCII, so their lengths are in bytes.
    """

    captured_url: str  # the old URL as captured
    old_url: str  # the old URL in normal form, without user name and password
    host: str
    path: str
    query: str
    target: str
    confidence: float
    page_path: str = ""  # the old path below the site's root, percent-decoded; only for formats with `is_single_site`

    @property
    def source(self) -> str:
        """Return the old URL without its scheme."""
        return self.host + self.path + self.query


class MapFormat(NamedTuple):
    """How a map is written, which redirects the format can express, and which URLs the server treats as one.

    `match_key` and `unique_key` are functions of the host, path and query of a URL. The server that loads a map
    applies a row to every request whose `match_key` equals that of the old URL. So no new URL may have this key: its
    page would be redirected too.
    """

    write: Callable[[list[MapRow]], str]
    find_problem: Callable[[MapRow], str | None]  # returns why a row cannot be written, or None if it can
    match_key: Callable[[str, str, str], str]
    ignored_part: str = ""  # the part of a URL that the keys leave out, as worded in messages
    unique_key: Callable[[str, str, str], str] | None = None  # no two rows may share it; None: same as `match_key`
    rows_max: int | None = None
    is_single_site: bool = False  # the map covers one site and lists its pages by path


def exact_key(host: str, path: str, query: str) -> str:
    """Return the URL without its scheme."""
    return host + path + query


def key_without_query(host: str, path: str, _query: str) -> str:
    """Return the URL without its scheme and query."""
    return host + path


def split_url(url: can_ada.URL) -> tuple[str, str, str]:
    """Split a URL into host, path and query, the arguments of a format's key functions."""
    return url.host, url.pathname, url.search


def percent_encode(url: str, characters: str) -> str:
    """Percent-encode the given ASCII characters in a URL, except in its scheme and host."""
    host_end = url.index("/", url.index("://") + 3)
    return url[:host_end] + url[host_end:].translate({ord(c): f"%{ord(c):02X}" for c in characters})

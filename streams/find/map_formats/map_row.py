"""A row of a redirect map, the properties that define a format, and functions that several formats share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import can_ada


class MapRow(NamedTuple):
    """A redirect, with the old URL as browsers request it: `host` has any unusual port, and `query` has its `?`.

    All fields except `url` and `page` are ASCII, so their lengths are in bytes.
    """

    url: str  # the old URL as captured
    old: str  # the old URL in normal form, without user name and password
    host: str
    path: str
    query: str
    target: str
    confidence: float
    page: str = ""  # the old path below the site, percent-decoded; only for formats that name pages of one site


class MapFormat(NamedTuple):
    """How a map is written, what its reader can express, and which URLs its reader treats as one.

    `match_key` takes the host, path and query of a URL. A reader applies the row of an old URL to every request with
    the same `match_key`, so no new URL may share the key of an old one: its page would be redirected too.
    """

    write: Callable[[list[MapRow]], str]
    find_fault: Callable[[MapRow], str | None]  # why the row cannot be written
    match_key: Callable[[str, str, str], str]
    unique_key: Callable[[str, str, str], str]  # no two rows may share it; differs from `match_key` only for nginx
    ignored: str = ""  # what the keys omit, for messages
    rows_max: int | None = None
    names_pages: bool = False  # the map names pages of one site by their paths


def exact_key(host: str, path: str, query: str) -> str:
    """Return the URL without its scheme."""
    return host + path + query


def key_without_query(host: str, path: str, _query: str) -> str:
    """Return the URL without its scheme and query."""
    return host + path


def key_parts(url: can_ada.URL) -> tuple[str, str, str]:
    """Return the arguments of a format's key functions."""
    return url.host, url.pathname, url.search


def percent_encode(url: str, characters: str) -> str:
    """Percent-encode these ASCII characters of a URL after its host."""
    end_of_host = url.index("/", url.index("://") + 3)
    return url[:end_of_host] + url[end_of_host:].translate({ord(c): f"%{ord(c):02X}" for c in characters})

"""The entries of an avoid-list, and the rule that selects the entry for a URL: the longest matching prefix wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import msgspec

Reason = Literal["copy", "exception", "sample"]
T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A URL prefix that a crawler should skip, or should crawl despite a shorter prefix.

    The prefix of a directory ends with `/`. The prefix of a sampled page is its URL.
    """

    prefix: str
    keep: bool
    pages: int  # number of crawled pages for which this is the longest matching prefix
    lost: int  # of `pages`: skipped pages without a copy
    unconfirmed: int  # of `pages`: skipped pages whose only copies are skipped too
    kept_prefix: str = msgspec.field(name="instead")  # URL prefix of the copy that is kept
    reason: Reason


def prefixes_of(url: str) -> Iterator[str]:
    """Yield a URL or URL key, and then the prefixes of the directories that contain it, longest first."""
    yield url
    path = url.partition("?")[0]
    end = path.rfind("/") + 1
    while end:
        yield path[:end]
        end = path.rfind("/", 0, end - 1) + 1


def deciding_entry(url: str, entries: Mapping[str, T]) -> T | None:
    """Return the entry whose prefix is the longest match for a URL, or None. `entries` maps prefixes to entries."""
    return next((entry for prefix in prefixes_of(url) if (entry := entries.get(prefix)) is not None), None)


def with_depths(entries: Iterable[Entry]) -> Iterator[tuple[Entry, int]]:
    """Yield the entries in the order of their prefixes, each with its depth.

    The depth of an entry is the number of directory entries that enclose it.
    """
    outer_prefixes: list[str] = []
    for entry in sorted(entries, key=lambda entry: entry.prefix):
        while outer_prefixes and not entry.prefix.startswith(outer_prefixes[-1]):
            outer_prefixes.pop()
        yield entry, len(outer_prefixes)
        if entry.prefix.endswith("/"):
            outer_prefixes.append(entry.prefix)

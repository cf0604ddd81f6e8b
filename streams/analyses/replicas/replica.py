"""Define the results of the search for replicated directories."""

from __future__ import annotations

import msgspec


class Replica(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Two directories with the same pages below them. Their parent directories are not replicas of each other."""

    a: str  # URL prefix
    b: str  # URL prefix
    pages: tuple[int, int]  # pages below each directory, without copies of the directory that are inside it
    common: int  # relative paths with a page below both directories
    # The share of a's pages for which b has a page at the same relative path, and the share of b's pages.
    containment: tuple[float, float]

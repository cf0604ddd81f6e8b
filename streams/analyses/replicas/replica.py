"""Define the results of the search for replicated directories."""

from __future__ import annotations

import msgspec


class Replica(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Two directories with the same pages below them. Their parent directories are not replicas of each other."""

    a: str  # URL prefix
    b: str  # URL prefix
    pages: tuple[int, int]  # pages below each directory, without those below its own copies of itself
    common: int  # relative paths with a page below both directories
    containment: tuple[
        float, float
    ]  # share of a's pages with a page of the same relative path in b; share of b's in a

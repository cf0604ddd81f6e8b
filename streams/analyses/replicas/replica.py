"""Define the results and the limits of the search for replicated directories."""

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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the search, from the settings in the section `analyses`."""

    neighbours_max: int = 32  # pages with which a page of a large cluster is paired
    paths_max: int = 32  # relative paths per subdirectory whose documents are compared
    depth_max: int = 32  # directories below a host; pages in deeper directories are left out

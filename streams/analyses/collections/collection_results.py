"""Define the results of the analysis of collections."""

from __future__ import annotations

from typing import Literal

import msgspec

Rule = Literal["regions", "paper", "extended"]
Reason = Literal["most_clusters", "most_linking_hosts", "shortest_root", "first_root"]


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A replicated collection: linked pages on one host that occur elsewhere too."""

    class_: int = msgspec.field(name="class")  # collections with similar pages have the same number
    host: str
    root: str  # URL prefix of all pages
    pages: int
    clusters: int  # distinct clusters of the pages
    linking_hosts: int  # other hosts with links to the pages
    urls: tuple[str, ...]  # of the first pages, in the order of their URL keys
    representative: bool  # whether this is the representative of its class
    reason: Reason | None  # why it is the representative; null if it is not


class ClassSize(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The size of a class: the number of its collections, and the largest number of clusters in one of them."""

    cardinality: int
    size: int


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """The links of current pages to pages of their own host, and how many of their targets are current pages."""

    total: int
    resolved: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The collections by one rule, sorted by class, with each class's representative first."""

    collections: tuple[Collection, ...]
    classes: tuple[ClassSize, ...]
    links: Links

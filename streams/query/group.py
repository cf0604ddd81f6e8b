"""Fold a list of URLs, such as search results: one URL per cluster and per replicated collection.

This is the search engine of section 5.2 of Cho, Shivakumar and Garcia-Molina (2000). Collections come from stored
results, as the roots of each class; clusters come from the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from state.view import View
from streams.errors import BadUrl
from streams.urls import url_key


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The first URL of a group, and the other URLs of the group, in the order of the list."""

    url: str
    collection: list[str]  # other pages of the same collection or of its copies
    replica: list[str]  # pages in the same cluster


def class_roots(roots: Iterable[tuple[str, int]]) -> dict[bytes, int]:
    """Return the class of each root, by the URL key of the root. `roots` are pairs of a URL prefix and a class."""
    return {url_key(root): class_number for root, class_number in roots}


def group(view: View, urls: Iterable[str], classes: Mapping[bytes, int]) -> list[Group]:
    """Group the URLs of pages in the same cluster, or below roots of the same class.

    A repeated URL is listed once. An invalid URL is a group of its own.
    """
    keys = {url: _key(url) for url in urls}
    clusters = _clusters(view, sorted({key for key in keys.values() if key}))
    groups: list[Group] = []
    by_cluster: dict[bytes, Group] = {}
    by_class: dict[int, Group] = {}
    for url, key in keys.items():
        cluster, class_number = clusters.get(key), _class_of(key, classes)
        if cluster is not None and (group := by_cluster.get(cluster)) is not None:
            group.replica.append(url)
        elif class_number is not None and (group := by_class.get(class_number)) is not None:
            group.collection.append(url)
        else:
            group = Group(url=url, collection=[], replica=[])
            groups.append(group)
        if cluster is not None:
            by_cluster.setdefault(cluster, group)
        if class_number is not None:
            by_class.setdefault(class_number, group)
    return groups


def _key(url: str) -> bytes:
    try:
        return url_key(url)
    except BadUrl:
        return b""


def _class_of(key: bytes, classes: Mapping[bytes, int]) -> int | None:
    """Return the class whose root is the longest prefix of a key."""
    path = key.partition(b"?")[0]
    end = path.rfind(b"/") + 1
    while end:
        if (class_number := classes.get(path[:end])) is not None:
            return class_number
        end = path.rfind(b"/", 0, end - 1) + 1
    return None


def _clusters(view: View, keys: list[bytes]) -> dict[bytes, bytes]:
    """Return the cluster of the last document of each captured URL."""
    last_documents = zip(keys, view.last_documents(keys), strict=True)
    documents = {key: document for key, document in last_documents if document is not None}
    return dict(zip(documents, view.roots(list(documents.values())), strict=True))

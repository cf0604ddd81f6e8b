"""Collapse a list of URLs, such as search results, to one URL per cluster and per replicated collection.

A search engine does this in section 5.2 of Cho, Shivakumar and Garcia-Molina (2000). Collections come from stored
results, as the roots of each class; clusters come from the state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from state.view import View
from streams.errors import BadUrl
from streams.urls import url_key


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The first URL of a group, and the other URLs of the group, in the order of the list."""

    url: str
    collection: list[str]  # other pages of the same collection or of its copies
    replica: list[str]  # pages in the same cluster


class ClassRoots:
    """The URL prefixes at which collections begin, and the class of each collection."""

    def __init__(self, roots: Iterable[tuple[str, int]]) -> None:
        """`roots` contains pairs of a URL prefix, which ends with a slash, and a class."""
        classes = {url_key(root): class_number for root, class_number in roots}
        self._roots = sorted(classes)
        self._classes = [classes[root] for root in self._roots]
        self._parents: list[int] = []  # the index of the longest other root that contains the root, or -1
        for index, root in enumerate(self._roots):
            self._parents.append(self._find(root, index - 1))

    def class_of(self, key: bytes) -> int | None:
        """Return the class whose root is the longest prefix of the path of a key."""
        path = key.partition(b"?")[0]
        index = self._find(path, bisect_right(self._roots, path) - 1)
        return self._classes[index] if index >= 0 else None

    def _find(self, path: bytes, index: int) -> int:
        """Return the index of the longest root that contains a path, or -1.

        `index` is the index of the last root that does not sort after the path. Roots that contain the path also
        contain this root, because it sorts between them and the path.
        """
        while index >= 0 and not path.startswith(self._roots[index]):
            index = self._parents[index]
        return index


def group(view: View, urls: Iterable[str], roots: ClassRoots) -> list[Group]:
    """Group the URLs of pages in the same cluster, or below roots of the same class.

    A repeated URL is listed once. An invalid URL forms a separate group.
    """
    keys = {url: _key(url) for url in urls}
    clusters = _clusters(view, sorted({key for key in keys.values() if key}))
    groups: list[Group] = []
    by_cluster: dict[bytes, Group] = {}
    by_class: dict[int, Group] = {}
    for url, key in keys.items():
        cluster, class_number = clusters.get(key), roots.class_of(key)
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
    """Return the key of a URL, or b"" if the URL is invalid."""
    try:
        return url_key(url)
    except BadUrl:
        return b""


def _clusters(view: View, keys: list[bytes]) -> dict[bytes, bytes]:
    """Return the cluster of the last document of each captured URL, by URL key."""
    last_documents = zip(keys, view.last_documents(keys), strict=True)
    documents = {key: document for key, document in last_documents if document is not None}
    return dict(zip(documents, view.roots(list(documents.values())), strict=True))

"""Detect copied directory trees: a page in a copy of the old tree is not the new home of the old page.

Two URLs that end with the same path segments have the same relative path in two trees: `/latest/a/b.html` and
`/v1/a/b.html` have the path `a/b.html` in the trees `/latest/` and `/v1/`. The neighbours of the two URLs show which
kind of copy the candidate's tree is:

| figure         | neighbours                                  | share of the neighbours that have                   |
|----------------|---------------------------------------------|-----------------------------------------------------|
| copied_share   | pages near the old URL that are still alive | a copy at the same relative path near the candidate |
| mirrored_share | living pages near the candidate             | a living counterpart in the old URL's tree          |
|                |                                             | (typical of translations)                           |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice

from state.model import Capture, DocumentRow
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.sketch import sketcher
from streams.sketch.index_terms import is_index_page
from streams.urls import directory_prefix, host_prefix

_CAPTURES_PER_SCAN_MAX = 2_048  # a scan reads only the captures' keys
_URLS_PER_SCAN_MAX = 192
_HISTORIES_PER_READ = 32
_SCANS_MAX = 17
_NEIGHBOURS_MIN, _NEIGHBOURS_MAX = 3, 24
_VERSIONS_COMPARED = 4  # the last versions of each neighbour
_COPY_RESEMBLANCE_MIN = 0.4

_VERSION = re.compile(
    r"(?:[a-z][a-z_]*[-_])*?(?:v|r|ver|version|release)?[-_.]?"
    r"(?P<number>\d+(?:[._]\d+)*(?:[._-]?(?:x|dev\d*|rc\d*|[ab]\d*|alpha\d*|beta\d*|post\d*))?)",
    re.IGNORECASE,
)


class CopyDetector:
    """Computes the figures of the table above, from 0 to 1. Results are cached and never refreshed."""

    def __init__(
        self, view: View, rows: BatchLru[bytes, DocumentRow | None], last_sweep_of: Callable[[bytes], int]
    ) -> None:
        self._view, self._rows, self._last_sweep_of = view, rows, last_sweep_of
        self._copied_share = lru_cache(maxsize=4096)(self._read_copied_share)
        self._mirrored_share = lru_cache(maxsize=4096)(self._read_mirrored_share)

    def copied_share(self, old_key: bytes, candidate_key: bytes, last_sweep: int, missing_since: int) -> float:
        """Return the share of the old URL's living neighbours that have a copy near the candidate.

        `last_sweep` is the last sweep that captured the old URL. Neighbours are pages that were captured both in
        `last_sweep` and in `missing_since`. The share is 0 if the last path segments differ, or if the host has not
        been visited since the old URL went missing. With fewer than three neighbours, the share is 1 if the candidate
        has a different version number and pages of the old tree are still alive, and 0 otherwise.
        """
        old_tree, new_tree = tree_roots(old_key, candidate_key)
        if old_tree == new_tree or self._last_sweep_of(host_prefix(old_key)) < missing_since:
            return 0.0
        return self._copied_share(old_tree, new_tree, directory_prefix(old_key), last_sweep, missing_since)

    def mirrored_share(self, old_key: bytes, candidate_key: bytes) -> float:
        """Return the share of the candidate's living neighbours with a living counterpart in the old URL's tree."""
        old_tree, new_tree = tree_roots(old_key, candidate_key)
        folder = directory_prefix(candidate_key)
        return 0.0 if old_tree == new_tree else self._mirrored_share(old_tree, new_tree, folder)

    def _read_copied_share(
        self, old_tree: bytes, new_tree: bytes, folder: bytes, last_sweep: int, missing_since: int
    ) -> float:
        neighbours = self._surviving_neighbours(old_tree, new_tree, folder, last_sweep, missing_since)
        if len(neighbours) < _NEIGHBOURS_MIN:
            is_other_version = version_closeness(old_tree, new_tree) == 0
            return float(is_other_version and self._has_page(old_tree, new_tree, missing_since))
        counterparts = [new_tree + key[len(old_tree) :] for key in neighbours]
        documents = map(self._current_document, counterparts, self._view.histories(counterparts))
        pairs = zip(documents, neighbours.values(), strict=True)
        return sum(doc is not None and self._is_copy(doc, captures) for doc, captures in pairs) / len(neighbours)

    def _has_page(self, tree: bytes, excluded_tree: bytes, sweep: int) -> bool:
        """Return whether a sweep captured a page in `tree` but outside `excluded_tree`, a possible part of `tree`."""
        excluded = excluded_tree if len(excluded_tree) > len(tree) else b"\xff"
        keys = self._view.url_keys_under(tree, _CAPTURES_PER_SCAN_MAX)
        tree_keys = [key for key in keys if not key.startswith(excluded)][:_URLS_PER_SCAN_MAX]
        return any(
            c.sweep == sweep and c.document for _, captures in self._read_captures(tree_keys) for c in captures
        )

    def _surviving_neighbours(
        self, old_tree: bytes, new_tree: bytes, folder: bytes, last_sweep: int, missing_since: int
    ) -> dict[bytes, list[Capture]]:
        """Return the captures, by URL key, of the pages in and near `folder` that both sweeps captured."""
        neighbours: dict[bytes, list[Capture]] = {}
        may_contain_new_tree = len(new_tree) > len(old_tree)
        for level, first_key in _scans_upwards(folder, old_tree):
            keys = self._view.url_keys_under(level, _CAPTURES_PER_SCAN_MAX, first_key)[:_URLS_PER_SCAN_MAX]
            deeper: dict[bytes, list[Capture]] = {}
            for key, all_captures in self._read_captures(keys):
                captures = [c for c in all_captures if c.document is not None]
                is_surviving = {last_sweep, missing_since} <= {c.sweep for c in captures}
                if is_surviving and not (may_contain_new_tree and key.startswith(new_tree)):
                    # Pages of this level are preferred, because folders below it may be other trees, such as copies.
                    (neighbours if directory_prefix(key) == level else deeper)[key] = captures
                if len(neighbours) >= _NEIGHBOURS_MAX:
                    return neighbours
            if len(neighbours) < _NEIGHBOURS_MIN:
                neighbours.update(islice(deeper.items(), _NEIGHBOURS_MAX - len(neighbours)))
            if len(neighbours) >= _NEIGHBOURS_MIN * 2:
                break
        return neighbours

    def _read_mirrored_share(self, old_tree: bytes, new_tree: bytes, folder: bytes) -> float:
        neighbours = self._living_neighbours(old_tree, new_tree, folder)
        counterparts = [old_tree + key[len(new_tree) :] for key in neighbours if not is_index_page(key)]
        if len(counterparts) < 2 * _NEIGHBOURS_MIN:
            return 0.0
        documents = (self._current_document(key, captures) for key, captures in self._read_captures(counterparts))
        return sum(document is not None for document in documents) / len(counterparts)

    def _living_neighbours(self, old_tree: bytes, new_tree: bytes, folder: bytes) -> dict[bytes, None]:
        """Return the keys of living pages near the candidate, the nearest first, as an ordered set."""
        neighbours: dict[bytes, None] = {}
        scans = _scans_upwards(folder, new_tree)
        limit = _NEIGHBOURS_MAX if len(scans) == 1 else _NEIGHBOURS_MAX // 2
        may_contain_old_tree = len(old_tree) > len(new_tree)
        for level, first_key in scans:
            keys = self._view.url_keys_under(level, _CAPTURES_PER_SCAN_MAX, first_key)[:_URLS_PER_SCAN_MAX]
            in_old_tree = {key for key in keys if may_contain_old_tree and key.startswith(old_tree)}
            new_keys = [key for key in keys if key not in neighbours and key not in in_old_tree]
            living = [key for key, captures in self._read_captures(new_keys) if self._current_document(key, captures)]
            siblings = [key for key in living if directory_prefix(key) == level]
            preferred = siblings if len(siblings) >= 2 * _NEIGHBOURS_MIN else living
            neighbours.update(dict.fromkeys(preferred[:limit]))
            if len(neighbours) >= _NEIGHBOURS_MAX:
                break
        return neighbours

    def _read_captures(self, keys: list[bytes]) -> Iterator[tuple[bytes, list[Capture]]]:
        """Yield each URL key with its captures. Batches are small, because callers often stop early."""
        for start in range(0, len(keys), _HISTORIES_PER_READ):
            batch = keys[start : start + _HISTORIES_PER_READ]
            yield from zip(batch, self._view.histories(batch), strict=True)

    def _current_document(self, key: bytes, captures: list[Capture]) -> bytes | None:
        """Return the document that a URL had in the last sweep that visited its host, or None."""
        last_sweep = self._last_sweep_of(host_prefix(key))
        return next((c.document for c in captures if c.sweep == last_sweep), None)

    def _is_copy(self, document: bytes, captures: list[Capture]) -> bool:
        """Return whether a document equals or resembles one of the documents of these captures."""
        versions = list(dict.fromkeys(c.document for c in captures if c.document is not None))
        if document in versions:
            return True
        row, *version_rows = self._rows.get_many([document, *versions[-_VERSIONS_COMPARED:]])
        sketches = [version.sketch for version in version_rows if version is not None]
        if row is None or not sketches:
            return False
        return bool(sketcher.compare_with_each(row.sketch, sketches).resemblance.max() >= _COPY_RESEMBLANCE_MIN)


def _scans_upwards(folder: bytes, tree: bytes) -> list[tuple[bytes, bytes]]:
    """Return scans, as (key prefix, first key), of a folder and of its parents up to the root of its tree.

    Each parent is scanned from the folder's key to the end of the parent's key range, then from the start of that
    range. Close neighbours are therefore found before pages of other trees, such as copies of this tree.
    """
    level, scans = folder, [(folder, folder)]
    while len(level) > len(tree) and len(scans) < _SCANS_MAX:
        level = max(directory_prefix(level[:-1]), tree, key=len)
        scans += [(level, folder), (level, level)]
    return scans


def tree_roots(old_key: bytes, candidate_key: bytes) -> tuple[bytes, bytes]:
    """Return both keys without their common last path segments, or `old_key` twice if the last segments differ."""
    old, new = old_key.split(b"/"), candidate_key.split(b"/")
    common = 0
    while common < min(len(old), len(new)) - 1 and old[-1 - common] == new[-1 - common]:
        common += 1
    if not any(old[len(old) - common :]):  # no common segment, or only the empty one after a final slash
        return old_key, old_key
    return b"/".join(old[: len(old) - common]) + b"/", b"/".join(new[: len(new) - common]) + b"/"


@lru_cache(maxsize=16_384)
def version_of(key: bytes) -> str | None:
    """Return the version numbers in a URL's folders, such as `1.2` for `/docs/v1.2/a.html`, or None."""
    folders = key[len(host_prefix(key)) :].split(b"?", 1)[0].split(b"/")[1:-1]
    matches = (_VERSION.fullmatch(folder.decode("utf-8", "replace")) for folder in folders)
    return "/".join(match["number"].lower() for match in matches if match) or None


def version_closeness(old_key: bytes, key: bytes) -> int:
    """Return 2 if both URLs have the same version numbers or none, 1 if only the old URL has any, otherwise 0."""
    version = version_of(key)
    return 2 if version == version_of(old_key) else int(version is None)


def is_parallel(key: bytes, other_key: bytes) -> bool:
    """Return whether two URLs have the same relative path in two trees."""
    if key[-1:] != b"/" and not other_key.endswith(key[key.rfind(b"/") :]):
        return False
    tree, other_tree = tree_roots(key, other_key)
    return tree != other_tree

"""Pages that are no page's new home: copies of whole trees, and error pages served with status 200."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from streams.find.batch_lru import BatchLru
from streams.sketch import sketcher
from streams.sketch.index_terms import is_index, page_name
from streams.urls import directory_prefix, host_prefix, key_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state.model import Capture, DocumentRow
    from streams.find.find_view import FindView

_LOCATIONS_READ = 64  # or as many as are needed
_CAPTURES_READ = 2_048  # their keys
_URLS_READ = 192
_HISTORIES_AT_ONCE = 32
_LOOKS_MAX = 17
_NEIGHBOURS_MAX = 24
_NEIGHBOURS_MIN = 3
_COPY_RESEMBLANCE = 0.4


class SoftErrors:
    """Finds documents that many unrelated URLs of a host hold: error pages served as if all were well."""

    def __init__(self, view: FindView, urls_min: int) -> None:
        self._view, self._urls_min = view, urls_min
        self._known: BatchLru[tuple[bytes, bytes], bool] = BatchLru(self._look, 16_384)

    def suspected(self, document: bytes, key: bytes) -> bool:
        """At least `urls_min` URLs of this key's host, no two with the same page name, held the document at once.

        The same name says that they are one page: under old and new paths, versions, languages. One after another
        they may be one page as well, whose URL has a new id in every sweep.
        """
        return self._known((document, host_prefix(key)))

    def suspected_many(self, asked: list[tuple[bytes, bytes]]) -> list[bool]:
        """As `suspected`, of many documents and keys."""
        return self._known.many([(document, host_prefix(key)) for document, key in asked])

    def _look(self, asked: list[tuple[bytes, bytes]]) -> Iterator[bool]:
        # Places of a document are in order of URL key, and so those on one host lie together.
        most = max(_LOCATIONS_READ, 4 * self._urls_min)
        found = self._view.locations([document + host for document, host in asked], most)
        for (document, _), keys in zip(asked, found, strict=True):
            names = {key: page_name(key_url(key)) for key in keys}
            yield len(set(names.values())) >= self._urls_min and self._at_once(document, names) >= self._urls_min

    def _at_once(self, document: bytes, names: dict[bytes, str]) -> int:
        """The most names under which these URLs held a document in one sweep, each from its first to its last."""
        spans: list[tuple[int, int, str]] = []
        for name, captures in zip(names.values(), self._view.histories(list(names)), strict=True):
            sweeps = [c.sweep for c in captures if c.document == document]
            if sweeps:
                spans.append((min(sweeps), max(sweeps), name))
        return max((len({n for a, b, n in spans if a <= at <= b}) for at, _, _ in spans), default=0)


class Copies:
    """Tells whether a candidate lies in a copy of the tree that the old URL was in."""

    def __init__(
        self, view: FindView, rows: BatchLru[bytes, DocumentRow | None], latest: Callable[[bytes], int]
    ) -> None:
        self._view, self._rows, self._latest = view, rows, latest
        self._share = lru_cache(maxsize=4096)(self._read_share)
        self._frozen = lru_cache(maxsize=4096)(self._read_frozen)
        self._mirrored = lru_cache(maxsize=4096)(self._read_mirrored)

    def share(self, old: bytes, candidate: bytes, last: int, missed: int) -> float:
        """Of living pages beside the old one, the share with a copy where the candidate would be the old one's.

        0 where the two URLs do not end alike, or fewer than three such pages are known. `last` is the sweep in which
        the old URL was held last and `missed` the one that missed it: only pages that were beside it then and
        outlived it count. Where a whole host moved there are none.
        """
        before, after = _heads(old, candidate)
        if before == after:
            return 0.0
        if self._latest(host_prefix(old)) < missed:
            return 0.0
        return self._share(before, after, directory_prefix(old), last, missed)

    def frozen(self, old: bytes, candidate: bytes, last: int, missed: int) -> tuple[float, bytes]:
        """Of the pages that went missing with the old one, the share whose very documents lie beside the candidate.

        And the prefix of that tree, empty where there is none. Where the whole of a tree went, this alone does not
        tell its copy from its new home.
        """
        before, after = _heads(old, candidate)
        if before == after:
            return 0.0, b""
        return self._frozen(before, after, directory_prefix(old), last, missed), after

    def _read_frozen(self, before: bytes, after: bytes, folder: bytes, last: int, missed: int) -> float:
        keys = self._view.urls_under(folder, _CAPTURES_READ)[:_URLS_READ]
        gone: dict[bytes, bytes] = {}  # by where its copy would be
        for key, history in self._histories(keys):
            held = {c.sweep: c.document for c in history if c.document is not None}
            document = held.get(last)
            if document is not None and missed not in held and directory_prefix(key) == folder:
                gone[after + key[len(before) :]] = document
            if len(gone) >= _NEIGHBOURS_MAX:
                break
        if len(gone) < _NEIGHBOURS_MIN:
            return 0.0
        pairs = zip(self._view.histories(list(gone)), gone.values(), strict=True)
        return sum(any(c.document == document for c in copies) for copies, document in pairs) / len(gone)

    def mirrored(self, old: bytes, candidate: bytes) -> float:
        """Of the living pages beside the candidate, the share that live at the same place in the old one's tree too.

        As translations do: what is at the same place in a tree that stands beside one's own is another page.
        """
        before, after = _heads(old, candidate)
        return 0.0 if before == after else self._mirrored(before, after, directory_prefix(candidate))

    def _read_mirrored(self, before: bytes, after: bytes, folder: bytes) -> float:
        beside: dict[bytes, None] = {}
        looks = _looks(folder, after)
        most = _NEIGHBOURS_MAX if len(looks) == 1 else _NEIGHBOURS_MAX // 2
        inside = len(before) > len(after)
        for level, start in looks:
            keys = self._view.urls_under(level, _CAPTURES_READ, start)[:_URLS_READ]
            new = [key for key in keys if key not in beside and not (inside and key.startswith(before))]
            living = [key for key, history in self._histories(new) if self._today(key, history) is not None]
            near = [key for key in living if directory_prefix(key) == level]
            beside.update(dict.fromkeys((near if len(near) >= 2 * _NEIGHBOURS_MIN else living)[:most]))
            if len(beside) >= _NEIGHBOURS_MAX:
                break
        there = [before + key[len(after) :] for key in beside if not is_index(key)]
        if len(there) < 2 * _NEIGHBOURS_MIN:
            return 0.0
        return sum(self._today(key, history) is not None for key, history in self._histories(there)) / len(there)

    def _read_share(self, before: bytes, after: bytes, folder: bytes, last: int, missed: int) -> float:
        neighbours = self._neighbours(before, after, folder, last, missed)
        if len(neighbours) < _NEIGHBOURS_MIN:
            return 0.0
        beside = [after + key[len(before) :] for key in neighbours]
        today = [self._today(key, held) for key, held in zip(beside, self._view.histories(beside), strict=True)]
        pairs = [(d, old) for d, old in zip(today, neighbours.values(), strict=True) if d is not None]
        return sum(self._copied(document, old) for document, old in pairs) / len(neighbours)

    def _neighbours(
        self, before: bytes, after: bytes, folder: bytes, last: int, missed: int
    ) -> dict[bytes, list[Capture]]:
        found: dict[bytes, list[Capture]] = {}
        for level, start in _looks(folder, before):
            keys = self._view.urls_under(level, _CAPTURES_READ, start)[:_URLS_READ]
            deeper: dict[bytes, list[Capture]] = {}
            for key, history in self._histories(keys):
                captures = [c for c in history if c.document is not None]
                sweeps = {c.sweep for c in captures}
                inside = len(after) > len(before) and key.startswith(after)
                if last in sweeps and missed in sweeps and not inside:
                    # Folders below may be other trees, such as copies of this one: pages beside the old one first.
                    (found if directory_prefix(key) == level else deeper)[key] = captures
                if len(found) >= _NEIGHBOURS_MAX:
                    return found
            if len(found) < _NEIGHBOURS_MIN:
                found.update(islice(deeper.items(), _NEIGHBOURS_MAX - len(found)))
            if len(found) >= _NEIGHBOURS_MIN * 2:
                break
        return found

    def _histories(self, keys: list[bytes]) -> Iterator[tuple[bytes, list[Capture]]]:
        """Captures of these URLs, read as they are taken: the first ones are mostly enough."""
        for at in range(0, len(keys), _HISTORIES_AT_ONCE):
            part = keys[at : at + _HISTORIES_AT_ONCE]
            yield from zip(part, self._view.histories(part), strict=True)

    def _today(self, key: bytes, captures: list[Capture]) -> bytes | None:
        latest = self._latest(host_prefix(key))
        return next((c.document for c in captures if c.sweep == latest), None)

    def _copied(self, today: bytes, captures: list[Capture]) -> bool:
        """A document is what the neighbour with these captures holds or held."""
        versions = list(dict.fromkeys(c.document for c in captures if c.document is not None))
        if today in versions:
            return True
        row, *held = self._rows.many([today, *versions[-4:]])
        rows = [each for each in held if each is not None]
        if row is None or not rows:
            return False
        figures = sketcher.compare_many(row.sketch, [each.sketch for each in rows])
        return bool(figures.resemblance.max() >= _COPY_RESEMBLANCE)


def _looks(folder: bytes, before: bytes) -> list[tuple[bytes, bytes]]:
    """A folder and those above it up to `before`, which it lies in, each from the first folder on and from its start.

    The nearest neighbours are asked first: further up lie other trees, such as copies of this one.
    """
    level, found = folder, [(folder, folder)]
    while len(level) > len(before) and len(found) < _LOOKS_MAX:
        level = max(directory_prefix(level[:-1]), before, key=len)
        found += [(level, folder), (level, level)]
    return found


def _heads(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Two keys without the path segments that both end with; the same where they share no last segment."""
    a, b = old.split(b"/"), new.split(b"/")
    common = 0
    while common < min(len(a), len(b)) - 1 and a[-1 - common] == b[-1 - common]:
        common += 1
    if not any(a[len(a) - common :]):
        return old, old
    return b"/".join(a[: len(a) - common]) + b"/", b"/".join(b[: len(b) - common]) + b"/"

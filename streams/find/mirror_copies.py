"""Find copies of dead pages on mirrors: pages at the same path of a host that `lostfound mirrors` paired.

A copy is a page of a mirror at level 1, 2 or 3 that existed alongside the old page, is alive, and still has similar
text. If the mirror captured the page only after the old URL went missing, the page moved to the mirror instead.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import NamedTuple

import msgspec

from state.errors import StateCorrupt
from state.model import DocumentRow
from streams.errors import BadUrl
from streams.find.answer import Candidate, Evidence
from streams.find.find_context import DeadUrl, FindContext
from streams.find.missing_rule import UrlHistory
from streams.sketch import sketcher
from streams.sketch.sketcher import Comparison
from streams.timestamps import format_iso
from streams.urls import host_prefix, url_key

ANALYSIS, METHOD = "mirrors", "samples"  # name the stored results to read
_LEVELS = frozenset("123")
_RESEMBLANCE_MIN = 0.5  # the same minimum as for the pages of a mirror at level 3
_CONFIDENCE_MAX = 0.97


class StoredMirror(msgspec.Struct, frozen=True):
    """The fields of a stored result that `find` needs."""

    hosts: tuple[str, str]
    level: str
    tests: int
    same: int
    similar: int

    @property
    def agreement(self) -> float:
        """The share of the tested paths at which both hosts have the same or a similar page."""
        return (self.same + self.similar) / max(1, self.tests)


class MirrorCopy(NamedTuple):
    """A copy of a dead page."""

    history: UrlHistory
    mirror: StoredMirror
    comparison: Comparison
    keys: frozenset[bytes] = frozenset()  # of all copies of the page, on all mirrors

    def insert(self, candidates: list[Candidate], *, is_moved: bool) -> tuple[list[Candidate], bool]:
        """Return the candidates with the copy inserted, and whether the copy comes first.

        The copy comes first unless the page moved, in which case the copy follows the new URL. Only one candidate can
        be right, so the confidence of all others is at most 1 minus the confidence of the first.
        """
        ranked = next((c for c in candidates if url_key(c.url) == self.history.key), None)
        copy = self._candidate(ranked.evidence if ranked is not None else [])
        others = [candidate for candidate in candidates if candidate is not ranked]
        if is_moved and url_key(candidates[0].url) not in self.keys:
            confidence = min(copy.confidence, round(1 - others[0].confidence, 4))
            copy = msgspec.structs.replace(copy, confidence=confidence)
            position = max(1, sum(other.confidence > confidence for other in others))
            return [*others[:position], copy, *others[position:]], False
        confidence_left = round(1 - copy.confidence, 4)
        lowered = [msgspec.structs.replace(c, confidence=min(c.confidence, confidence_left)) for c in others]
        return [copy, *lowered], True

    def _candidate(self, further_evidence: list[Evidence]) -> Candidate:
        pages, mirror = self.history.pages, self.mirror
        detail = f"level {mirror.level}: {mirror.same + mirror.similar} of {mirror.tests} compared pages are alike"
        return Candidate(
            url=pages[-1].url,
            confidence=round(min(_CONFIDENCE_MAX, mirror.agreement), 4),
            resemblance=round(self.comparison.resemblance, 4),
            containment=round(self.comparison.containment, 4),
            first_seen=format_iso(pages[0].time),
            last_seen=format_iso(pages[-1].time),
            evidence=[Evidence("mirror", round(mirror.agreement, 4), detail), *further_evidence],
        )


class MirrorCopies:
    """Looks up copies of dead pages. The stored mirrors are read once, at the first look-up."""

    def __init__(self, context: FindContext) -> None:
        self._context = context

    @cached_property
    def _mirrors_by_host(self) -> dict[bytes, list[tuple[bytes, StoredMirror]]]:
        """For each host key, the mirrors of the host: pairs of the other host's key and the stored mirror."""
        decoder = msgspec.json.Decoder(StoredMirror)
        mirrors_by_host: defaultdict[bytes, list[tuple[bytes, StoredMirror]]] = defaultdict(list)
        for line in self._context.view.newest_results(ANALYSIS, METHOD):
            try:
                mirror = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise StateCorrupt(
                    f"not a stored result of mirrors: {error}", "compute it again with `lostfound mirrors`"
                ) from error
            if mirror.level in _LEVELS:
                a, b = map(_host_key, mirror.hosts)
                mirrors_by_host[a].append((b, mirror))
                mirrors_by_host[b].append((a, mirror))
        return dict(mirrors_by_host)

    def find(self, dead: DeadUrl) -> MirrorCopy | None:
        """Return the copy that is most similar to the old page, or None."""
        host = host_prefix(dead.key)
        mirrors = self._mirrors_by_host.get(host)
        if not mirrors or dead.row is None:
            return None
        path = dead.key[len(host) :]
        histories = self._context.url_histories.get_many(other + path for other, _ in mirrors)
        copies = [
            copy
            for history, (_, mirror) in zip(histories, mirrors, strict=True)
            if (copy := self._compare(dead, dead.row, history, mirror)) is not None
        ]
        if not copies:
            return None
        best = max(copies, key=lambda copy: (copy.comparison.resemblance, copy.history.key))
        return best._replace(keys=frozenset(copy.history.key for copy in copies))

    def _compare(
        self, dead: DeadUrl, old_row: DocumentRow, history: UrlHistory, mirror: StoredMirror
    ) -> MirrorCopy | None:
        if not history.is_alive or not history.pages or history.pages[0].sweep > dead.last_sweep:
            return None
        detector = self._context.soft_404_detector
        row = self._context.rows(history.pages[-1].document or b"")
        if row is None or detector.has_suspected_page(history):
            return None
        comparison = sketcher.compare(old_row.sketch, row.sketch)
        return MirrorCopy(history, mirror, comparison) if comparison.resemblance >= _RESEMBLANCE_MIN else None


def _host_key(name: str) -> bytes:
    """Return the host key of a host name with an optional port, or b"" if the name is invalid."""
    try:
        return host_prefix(url_key(f"http://{name}/"))
    except BadUrl:
        return b""

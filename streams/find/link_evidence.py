"""Find where the links that led to a dead URL lead now: link substitution.

A page that linked to the dead URL, and whose next version links with the same anchor to a URL to which it did not
link with this anchor before, votes for this URL. Votes are weighted:

- Pages that changed the same run of links in the same way, such as a site's navigation, have one vote together.
- A vote for several URLs is shared by them.
- An anchor that leads to many targets on the site, such as "next", carries little weight. The number of its targets
  is counted in a sample of the site's pages.
- A URL that replaces many targets of a page, such as a login page, gets no vote from it.

If the new URL died too, its own substitutions are followed, with a lower weight.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import msgspec

from state.model import Capture, Link, LinkKind
from state.view import View
from streams.find.batch_lru import BatchLru
from streams.find.missing_rule import UrlHistory
from streams.urls import host_prefix

_CHUNKS_CACHED, _LISTS_CACHED = 8_192, 16_384
_STEPS_MAX = 4  # substitutions followed from one dead URL to the next
_STEP_FACTOR = 0.9  # weight of the votes for the substitute of a URL that died too, per step
_TARGETS_FOLLOWED = 1  # dead targets of one URL that are followed: those with the most votes
_PAGES_PER_CHUNK_MIN = 4
_SAMPLE_PAGES = 48  # pages of a site on which the targets of an anchor are counted
STRENGTH_MIN = 0.15  # weaker substitutions are mostly wrong
_HALF_STRENGTH_VOTES = 0.5  # this many unanimous votes have a strength of one half


class Substitution(msgspec.Struct, frozen=True):
    """A URL to which pages link now instead of the dead URL."""

    key: bytes
    https: bool
    votes: float
    share: float  # of all votes
    pages: int  # pages in the sample that link to this URL now
    linking_pages: int  # pages in the sample that linked to the dead URL and changed
    anchor: str  # the most frequent one
    steps: int  # number of substitutions; more than 1 if a URL on the way died too
    is_captured: bool = True  # whether a sweep captured this URL

    @property
    def strength(self) -> float:
        """Return how much the votes say for this URL, from 0 to 1."""
        return self.share * self.votes / (self.votes + _HALF_STRENGTH_VOTES)


class _Change(NamedTuple):
    """The links of a page before and after it stopped linking to the dead URL."""

    source: bytes
    host: bytes
    anchors: frozenset[str]  # those of the old links to the dead URL
    kept_chunks: Sequence[bytes]
    old_chunks: Sequence[bytes]
    new_chunks: Sequence[bytes]

    @property
    def decision(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """What identifies the change: pages that agree in it have one vote together."""
        return self.old_chunks, self.new_chunks


class _Vote(NamedTuple):
    source: bytes
    link: Link  # the new link
    weight: float


class LinkEvidence:
    """Finds substitutions. Look-ups are cached and never refreshed."""

    def __init__(
        self, view: View, url_histories: BatchLru[bytes, UrlHistory],
        site_sample: Callable[[bytes], list[list[Capture]]], sources_max: int, catch_all_from: int,
        counters: Counter[str],
    ) -> None:  # fmt: skip
        self._view, self._url_histories, self._site_sample = view, url_histories, site_sample
        self._sources_max, self._catch_all_from, self._counters = sources_max, catch_all_from, counters
        self._lists: BatchLru[tuple[bytes, bytes], list[bytes]] = BatchLru(self._read_lists, _LISTS_CACHED)
        self._chunks: BatchLru[bytes, list[Link]] = BatchLru(self._read_chunks, _CHUNKS_CACHED)
        self.targets_per_anchor = lru_cache(maxsize=64)(self._read_targets_per_anchor)

    def substitutions(self, key: bytes, missing_since: int) -> list[Substitution]:
        """Return the URLs to which pages link instead of a dead URL, those with the most votes first.

        Dead URLs among them are replaced by their own substitutes, if there are any.
        """
        candidates = self._follow(key, missing_since, frozenset({key}), 1)
        return [substitution for substitution in candidates if substitution.strength >= STRENGTH_MIN]

    def _follow(self, key: bytes, missing_since: int, visited: frozenset[bytes], steps: int) -> list[Substitution]:
        direct = self._direct(key, missing_since, visited)
        if steps == _STEPS_MAX:
            return direct
        histories = self._url_histories.get_many(substitution.key for substitution in direct)
        merged: dict[bytes, Substitution] = {}
        followed = 0
        for substitution, history in zip(direct, histories, strict=True):
            onward: list[Substitution] = []
            if history.missing_since is not None and followed < _TARGETS_FOLLOWED:
                followed += 1
                onward = self._follow(history.key, history.missing_since, visited | {history.key}, steps + 1)
            is_captured = history.last_success is not None or bool(history.failures)
            end = msgspec.structs.replace(substitution, is_captured=is_captured)
            for result in [_through(substitution, end) for end in onward] or [end]:
                known = merged.get(result.key)
                merged[result.key] = result if known is None else _sum(known, result)
        return sorted(merged.values(), key=lambda s: (-s.votes, s.key))

    def _direct(self, key: bytes, missing_since: int, visited: frozenset[bytes]) -> list[Substitution]:
        changes = self._changes(key, missing_since)
        self._chunks.get_many(dict.fromkeys(chain.from_iterable((*c.old_chunks, *c.new_chunks) for c in changes)))
        weights: dict[bytes, dict[object, float]] = defaultdict(dict)
        pages: dict[bytes, set[bytes]] = defaultdict(set)
        anchors: dict[bytes, Counter[str]] = defaultdict(Counter)  # as written
        https: dict[bytes, bool] = {}
        for change in changes:
            for vote in self._votes(change, key):
                target = vote.link.target
                if target in visited:
                    continue
                weights[target][change.decision] = max(weights[target].get(change.decision, 0.0), vote.weight)
                pages[target].add(vote.source)
                anchors[target][vote.link.anchor] += 1
                https[target] = vote.link.https
        votes = {target: sum(by_decision.values()) for target, by_decision in weights.items()}
        total = sum(votes.values())
        return [
            Substitution(
                key=target,
                https=https[target],
                votes=votes[target],
                share=votes[target] / total,
                pages=len(pages[target]),
                linking_pages=len(changes),
                anchor=min(anchors[target].items(), key=lambda item: (-item[1], item[0]))[0],
                steps=1,
            )
            for target in sorted(votes, key=lambda target: (-votes[target], target))
        ]

    def _changes(self, key: bytes, missing_since: int) -> list[_Change]:
        """Return what changed in the pages of the sample that linked to a URL until it went missing."""
        anchors = self.anchors_by_chunk(key)
        sources = self.sample_sources(anchors)
        histories = self._url_histories.get_many(source for source in sources if source != key)
        captures = {h.key: [page for page in h.pages if page.links] for h in histories}
        lists = [(source, c.links) for source, pages in captures.items() for c in pages if len(pages) > 1]
        ids = dict(zip(lists, self._lists.get_many(lists), strict=True))
        changes = []
        for source, pages in captures.items():
            chunk_ids = [ids.get((source, page.links), []) for page in pages]
            linking = [n for n, chunks in enumerate(chunk_ids) if not anchors.keys().isdisjoint(chunks)]
            if not linking or linking[-1] + 1 == len(pages) or pages[linking[-1] + 1].sweep < missing_since:
                continue
            before, after = chunk_ids[linking[-1]], chunk_ids[linking[-1] + 1]
            changes.append(
                _Change(
                    source,
                    host_prefix(source),
                    frozenset(chain.from_iterable(anchors.get(id_, ()) for id_ in before)),
                    kept_chunks=tuple(id_ for id_ in before if id_ in after),
                    old_chunks=tuple(id_ for id_ in before if id_ not in after),
                    new_chunks=tuple(id_ for id_ in after if id_ not in before),
                )
            )
        return changes

    def anchors_by_chunk(self, key: bytes) -> dict[bytes, list[str]]:
        """Return the anchors with which chunks link to a URL; chunks of main content come first."""
        (prefixes,) = self._view.chunk_prefixes([key], self._sources_max + 1)
        if len(prefixes) > self._sources_max:
            self._counters["find_link_sources_max"] += 1
        chunks = self._view.link_chunks_by_prefixes(prefixes[: self._sources_max])
        content: dict[bytes, list[str]] = {}
        navigation: dict[bytes, list[str]] = {}
        for id_, links in chunks.items():
            to_key = [link for link in links if link.target == key and link.kind is LinkKind.ANCHOR]
            anchors = list(filter(None, (normalise(link.anchor) for link in to_key)))
            if anchors:
                (navigation if all(link.navigation for link in to_key) else content)[id_] = anchors
        return {**content, **navigation}

    def sample_sources(self, chunk_ids: Iterable[bytes]) -> list[bytes]:
        """Return the keys of at most `find.link_sources_max` pages with these chunks, some for each chunk."""
        wanted = list(chunk_ids)
        if not wanted:
            return []
        pages = self._view.chunk_pages(wanted, max(_PAGES_PER_CHUNK_MIN, self._sources_max // len(wanted)))
        sources = dict.fromkeys(key for keys in zip_longest(*pages) for key in keys if key is not None)
        if len(sources) > self._sources_max:
            self._counters["find_link_sources_max"] += 1
        return list(islice(sources, self._sources_max))

    def last_captures_with(
        self, sources: Sequence[bytes], anchors_by_chunk: Mapping[bytes, list[str]]
    ) -> list[tuple[Capture, list[bytes]]]:
        """Return the last page of each source that has one of these chunks, and the ids of its chunks."""
        histories = self._url_histories.get_many(sources)
        captures = [page for history in histories for page in reversed(history.pages) if page.links]
        lists = self._lists.get_many((capture.key, capture.links) for capture in captures)
        last: dict[bytes, tuple[Capture, list[bytes]]] = {}
        for capture, ids in zip(captures, lists, strict=True):
            if not anchors_by_chunk.keys().isdisjoint(ids):
                last.setdefault(capture.key, (capture, ids))
        return list(last.values())

    def _votes(self, change: _Change, key: bytes) -> list[_Vote]:
        new = list(chain.from_iterable(self._chunks.get_many(change.new_chunks)))
        if any(link.target == key for link in new):  # the page still links to the dead URL
            return []
        proposed: dict[str, dict[bytes, Link]] = defaultdict(dict)  # by normalised anchor and target
        for link in new:
            anchor = normalise(link.anchor)
            if anchor in change.anchors and link.kind is LinkKind.ANCHOR:
                proposed[anchor].setdefault(link.target, link)
        if not proposed:
            return []
        for link in chain.from_iterable(self._chunks.get_many([*change.old_chunks, *change.kept_chunks])):
            proposed.get(normalise(link.anchor), {}).pop(link.target, None)
        old = list(chain.from_iterable(self._chunks.get_many(change.old_chunks)))
        targets_per_anchor = self.targets_per_anchor(change.host)
        return [
            _Vote(change.source, link, 1.0 / (len(links) * targets_per_anchor.get(anchor, 1)))
            for anchor, links in proposed.items()
            for link in links.values()
            if _replaced_targets(link.target, old, new) < self._catch_all_from
        ]

    def _read_targets_per_anchor(self, host: bytes) -> Mapping[str, int]:
        """Return the number of targets of each anchor in a sample of a host's pages."""
        captures = [c for history in self._site_sample(host) for c in history if c.links]
        last_sweep = max((c.sweep for c in captures), default=0)
        pages = [(c.key, c.links) for c in captures if c.sweep == last_sweep][:_SAMPLE_PAGES]
        ids = dict.fromkeys(chain.from_iterable(self._lists.get_many(pages)))
        targets: dict[str, set[bytes]] = defaultdict(set)
        for link in chain.from_iterable(self._chunks.get_many(ids)):
            targets[normalise(link.anchor)].add(link.target)
        return {anchor: len(keys) for anchor, keys in targets.items() if len(keys) > 1}

    def _read_lists(self, keys: list[tuple[bytes, bytes]]) -> list[list[bytes]]:
        lists = self._view.link_lists(keys)
        return [lists.get(key, []) for key in keys]

    def _read_chunks(self, ids: list[bytes]) -> list[list[Link]]:
        chunks = self._view.link_chunks(ids)
        return [chunks.get(id_, []) for id_ in ids]


def normalise(anchor: str) -> str:
    return " ".join(anchor.casefold().split())


def _replaced_targets(target: bytes, old: Sequence[Link], new: Sequence[Link]) -> int:
    """Return the number of old targets whose anchors lead to this target now: many, if it replaces all links."""
    anchors = {normalise(link.anchor) for link in new if link.target == target}
    return len({link.target for link in old if normalise(link.anchor) in anchors})


def _through(hop: Substitution, end: Substitution) -> Substitution:
    """Return the substitute of a dead substitute."""
    return msgspec.structs.replace(
        end,
        votes=_STEP_FACTOR * min(hop.votes, end.votes),
        share=hop.share * end.share,
        pages=min(hop.pages, end.pages),
        anchor=hop.anchor,
        steps=hop.steps + end.steps,
    )


def _sum(a: Substitution, b: Substitution) -> Substitution:
    """Return the evidence of two ways to the same URL."""
    return msgspec.structs.replace(
        a if a.votes >= b.votes else b,
        votes=a.votes + b.votes,
        share=min(1.0, a.share + b.share),
        pages=a.pages + b.pages,
        steps=min(a.steps, b.steps),
    )

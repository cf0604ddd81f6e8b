"""Find where the links that led to a dead URL lead now: link substitution.

Consider a page that linked to the dead URL. If its next version uses the same anchor to link to a new target, the
page votes for this target. Votes are weighted:

- Pages that changed the same run of links in the same way, such as a site's navigation, share one vote.
- A vote for several URLs is divided among them.
- An anchor that leads to many targets on the site, such as "next", carries little weight. Its targets are counted in
  a sample of the site's pages.
- A URL that replaces many targets of a page, such as a login page, gets no vote from that page.

If the new URL is dead too, its own substitutions are followed, with a lower weight.
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
_STEPS_MAX = 4  # substitutions followed one after another
_STEP_FACTOR = 0.9  # each further step multiplies the votes by this factor
_DEAD_TARGETS_FOLLOWED_MAX = 1  # per dead URL: the dead targets with the most votes
_PAGES_PER_CHUNK_MIN = 4  # pages read per chunk, even if many chunks link to the dead URL
_SAMPLE_PAGES = 48  # pages of a site in which the targets of each anchor are counted
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
    anchor: str  # the most frequent anchor of these links
    steps: int  # number of substitutions followed; more than 1 if URLs on the way are dead too
    is_captured: bool = True  # whether a sweep captured this URL

    @property
    def strength(self) -> float:
        """Return how strongly the votes support this URL, from 0 to 1."""
        return self.share * self.votes / (self.votes + _HALF_STRENGTH_VOTES)


class _Change(NamedTuple):
    """The chunks of a page's links before and after the page stopped linking to the dead URL. Chunks are ids."""

    source: bytes  # URL key of the page
    host: bytes
    anchors: frozenset[str]  # the anchors of the old links to the dead URL
    unchanged_chunks: Sequence[bytes]  # in both versions of the page
    old_chunks: Sequence[bytes]  # only in the version before
    new_chunks: Sequence[bytes]  # only in the version after

    @property
    def vote_group(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The chunks that were replaced, and their replacements. Pages with equal vote groups share one vote."""
        return self.old_chunks, self.new_chunks


class _Vote(NamedTuple):
    """The vote of a page for the target of a new link."""

    source: bytes  # URL key of the page
    link: Link
    weight: float


class LinkEvidence:
    """Finds substitutions. Look-ups are cached and never refreshed.

    A URL that replaces at least `catch_all_targets_min` targets of a page gets no vote from that page.
    """

    def __init__(
        self, view: View, url_histories: BatchLru[bytes, UrlHistory],
        site_sample: Callable[[bytes], list[list[Capture]]], sources_max: int, catch_all_targets_min: int,
        counters: Counter[str],
    ) -> None:  # fmt: skip
        self._view, self._url_histories, self._site_sample = view, url_histories, site_sample
        self._sources_max, self._catch_all_targets_min, self._counters = sources_max, catch_all_targets_min, counters
        self._lists: BatchLru[tuple[bytes, bytes], list[bytes]] = BatchLru(self._read_lists, _LISTS_CACHED)
        self._chunks: BatchLru[bytes, list[Link]] = BatchLru(self._read_chunks, _CHUNKS_CACHED)
        self.targets_per_anchor = lru_cache(maxsize=64)(self._read_targets_per_anchor)

    def substitutions(self, key: bytes, missing_since: int) -> list[Substitution]:
        """Return the URLs to which pages link instead of a dead URL, the one with the most votes first.

        A substitute that is dead too is replaced by its own substitutes, if it has any.
        """
        candidates = self._follow(key, missing_since, frozenset({key}), 1)
        return [substitution for substitution in candidates if substitution.strength >= STRENGTH_MIN]

    def _follow(self, key: bytes, missing_since: int, visited: frozenset[bytes], steps: int) -> list[Substitution]:
        """Return the substitutions for a dead URL, with dead substitutes replaced by their own."""
        direct = self._direct_substitutions(key, missing_since, visited)
        if steps == _STEPS_MAX:
            return direct
        histories = self._url_histories.get_many(substitution.key for substitution in direct)
        merged: dict[bytes, Substitution] = {}
        followed_count = 0
        for substitution, history in zip(direct, histories, strict=True):
            onward: list[Substitution] = []
            if history.missing_since is not None and followed_count < _DEAD_TARGETS_FOLLOWED_MAX:
                followed_count += 1
                onward = self._follow(history.key, history.missing_since, visited | {history.key}, steps + 1)
            is_captured = history.last_success is not None or bool(history.failures)
            checked = msgspec.structs.replace(substitution, is_captured=is_captured)
            for result in [_chain(substitution, further) for further in onward] or [checked]:
                known = merged.get(result.key)
                merged[result.key] = result if known is None else _merge(known, result)
        return sorted(merged.values(), key=lambda substitution: (-substitution.votes, substitution.key))

    def _direct_substitutions(self, key: bytes, missing_since: int, visited: frozenset[bytes]) -> list[Substitution]:
        changes = self._changes(key, missing_since)
        self._chunks.get_many(dict.fromkeys(chain.from_iterable((*c.old_chunks, *c.new_chunks) for c in changes)))
        weights: dict[bytes, dict[object, float]] = defaultdict(dict)
        pages: dict[bytes, set[bytes]] = defaultdict(set)
        anchors: dict[bytes, Counter[str]] = defaultdict(Counter)  # not normalised
        https: dict[bytes, bool] = {}
        for change in changes:
            for vote in self._votes(change, key):
                target = vote.link.target
                if target in visited:
                    continue
                weights[target][change.vote_group] = max(weights[target].get(change.vote_group, 0.0), vote.weight)
                pages[target].add(vote.source)
                anchors[target][vote.link.anchor] += 1
                https[target] = vote.link.https
        votes = {target: sum(by_group.values()) for target, by_group in weights.items()}
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
        """Return the changes of the sampled pages that linked to a URL until it went missing."""
        anchors = self.anchors_by_chunk(key)
        sources = self.sample_sources(anchors)
        histories = self._url_histories.get_many(source for source in sources if source != key)
        captures = {h.key: [page for page in h.pages if page.links] for h in histories}
        list_keys = [(source, c.links) for source, pages in captures.items() for c in pages if len(pages) > 1]
        lists = dict(zip(list_keys, self._lists.get_many(list_keys), strict=True))
        changes = []
        for source, pages in captures.items():
            versions = [lists.get((source, page.links), []) for page in pages]
            linking_indexes = [index for index, ids in enumerate(versions) if not anchors.keys().isdisjoint(ids)]
            next_index = linking_indexes[-1] + 1 if linking_indexes else len(pages)
            if next_index == len(pages) or pages[next_index].sweep < missing_since:
                continue  # the page still links to the URL, or stopped before the URL went missing
            before, after = versions[next_index - 1], versions[next_index]
            changes.append(
                _Change(
                    source,
                    host_prefix(source),
                    frozenset(chain.from_iterable(anchors.get(id_, ()) for id_ in before)),
                    unchanged_chunks=tuple(id_ for id_ in before if id_ in after),
                    old_chunks=tuple(id_ for id_ in before if id_ not in after),
                    new_chunks=tuple(id_ for id_ in after if id_ not in before),
                )
            )
        return changes

    def anchors_by_chunk(self, key: bytes) -> dict[bytes, list[str]]:
        """Return the anchors of the links to a URL, by chunk id. Chunks of main content come before navigation."""
        (prefixes,) = self._view.chunk_prefixes([key], self._sources_max + 1)
        if len(prefixes) > self._sources_max:
            self._counters["find_link_sources_max"] += 1
        chunks = self._view.link_chunks_by_prefixes(prefixes[: self._sources_max])
        content: dict[bytes, list[str]] = {}
        navigation: dict[bytes, list[str]] = {}
        for id_, links in chunks.items():
            links_to_key = [link for link in links if link.target == key and link.kind is LinkKind.ANCHOR]
            anchors = list(filter(None, (normalise(link.anchor) for link in links_to_key)))
            if anchors:
                (navigation if all(link.navigation for link in links_to_key) else content)[id_] = anchors
        return {**content, **navigation}

    def sample_sources(self, chunk_ids: Iterable[bytes]) -> list[bytes]:
        """Return the keys of at most `find.link_sources_max` pages with these chunks, some for each chunk."""
        ids = list(chunk_ids)
        if not ids:
            return []
        pages = self._view.chunk_pages(ids, max(_PAGES_PER_CHUNK_MIN, self._sources_max // len(ids)))
        sources = dict.fromkeys(key for keys in zip_longest(*pages) for key in keys if key is not None)
        if len(sources) > self._sources_max:
            self._counters["find_link_sources_max"] += 1
        return list(islice(sources, self._sources_max))

    def last_captures_with(
        self, sources: Sequence[bytes], anchors_by_chunk: Mapping[bytes, list[str]]
    ) -> list[tuple[Capture, list[bytes]]]:
        """Return, for each source, its last capture with one of these chunks, and the ids of all its chunks."""
        histories = self._url_histories.get_many(sources)
        captures = [page for history in histories for page in reversed(history.pages) if page.links]
        lists = self._lists.get_many((capture.key, capture.links) for capture in captures)
        last_by_source: dict[bytes, tuple[Capture, list[bytes]]] = {}
        for capture, ids in zip(captures, lists, strict=True):
            if not anchors_by_chunk.keys().isdisjoint(ids):
                last_by_source.setdefault(capture.key, (capture, ids))
        return list(last_by_source.values())

    def _votes(self, change: _Change, key: bytes) -> list[_Vote]:
        """Return a page's votes for the new targets of the anchors that used to link to the dead URL."""
        new_links = list(chain.from_iterable(self._chunks.get_many(change.new_chunks)))
        if any(link.target == key for link in new_links):  # the page still links to the dead URL
            return []
        new_targets: dict[str, dict[bytes, Link]] = defaultdict(dict)  # by normalised anchor, then by target
        for link in new_links:
            anchor = normalise(link.anchor)
            if anchor in change.anchors and link.kind is LinkKind.ANCHOR:
                new_targets[anchor].setdefault(link.target, link)
        if not new_targets:
            return []
        for link in chain.from_iterable(self._chunks.get_many([*change.old_chunks, *change.unchanged_chunks])):
            new_targets.get(normalise(link.anchor), {}).pop(link.target, None)
        old_links = list(chain.from_iterable(self._chunks.get_many(change.old_chunks)))
        targets_per_anchor = self.targets_per_anchor(change.host)
        return [
            _Vote(change.source, link, 1.0 / (len(links) * targets_per_anchor.get(anchor, 1)))
            for anchor, links in new_targets.items()
            for link in links.values()
            if _count_replaced_targets(link.target, old_links, new_links) < self._catch_all_targets_min
        ]

    def _read_targets_per_anchor(self, host: bytes) -> Mapping[str, int]:
        """Return the number of targets of each anchor that has several in a sample of a host's pages."""
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
    """Return an anchor in the form in which anchors are compared: case-folded, with single spaces."""
    return " ".join(anchor.casefold().split())


def _count_replaced_targets(target: bytes, old_links: Sequence[Link], new_links: Sequence[Link]) -> int:
    """Count the old targets whose anchors now link to this target. A login page may replace all targets."""
    anchors = {normalise(link.anchor) for link in new_links if link.target == target}
    return len({link.target for link in old_links if normalise(link.anchor) in anchors})


def _chain(first: Substitution, second: Substitution) -> Substitution:
    """Chain two substitutions: of a dead URL by a second dead URL, and of the second URL by a third."""
    return msgspec.structs.replace(
        second,
        votes=_STEP_FACTOR * min(first.votes, second.votes),
        share=first.share * second.share,
        pages=min(first.pages, second.pages),
        anchor=first.anchor,
        steps=first.steps + second.steps,
    )


def _merge(a: Substitution, b: Substitution) -> Substitution:
    """Add up the evidence of two substitutions by the same URL."""
    return msgspec.structs.replace(
        a if a.votes >= b.votes else b,
        votes=a.votes + b.votes,
        share=min(1.0, a.share + b.share),
        pages=a.pages + b.pages,
        steps=min(a.steps, b.steps),
    )

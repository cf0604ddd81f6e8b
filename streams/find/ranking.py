"""Follows one old URL to where its page lives: gathers candidates, ranks them, and goes on from a stop that died too.

A page that moved twice is found by way of its first stop: the stop's last text and URL are nearer to where it is now
than the old ones. So where the best candidate is itself dead, and sure enough, the search goes on from there, and
scores from there count four fifths.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from streams.find import score as scoring
from streams.find.batch_lru import BatchLru
from streams.find.candidates import DeadUrl, Gathered, Gatherer
from streams.find.paths import likeness_to, path_features
from streams.find.score import Traits
from streams.find.text_similarity import Asked, Site, Texts, sample_site
from streams.sketch import sketcher
from streams.urls import host_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from state.model import DocumentRow
    from streams.find.copies import Copies, SoftErrors
    from streams.find.find_view import FindView
    from streams.find.history import Life, SweepIndex
    from streams.find.life_cache import LifeCache

_LOCATIONS_MAX = 16  # of a document: those that got it last
_LOCATIONS_READ = 64
_DOCUMENTS_AT_ONCE = 32  # whose places are looked up together
_LIVES_AT_ONCE = 16  # URLs whose captures are read together
_PROMISE_SHARE_MIN = 0.2  # of the best one's: what promises less is not compared
_PLACES_KEPT = 2_048
_VERSIONS_MAX = 2
_TOP = 12  # candidates looked at closely: for copies of trees and error pages, and handed on to the next stop


class Ranked(NamedTuple):
    """A candidate with its traits and scores: its own, and with what the stops on the way say."""

    life: Life
    traits: Traits
    score: float


class Stop(NamedTuple):
    """A dead URL that the page went by, and how sure that is."""

    url: str
    confidence: float


class Trace(msgspec.Struct, frozen=True):
    """What was found for one URL: living candidates, best first, and the stops on the way to them."""

    ranked: list[Ranked]
    stops: list[Stop]


class Tracer:
    """Traces old URLs over one state of the view; texts, rows and site figures are shared between them."""

    def __init__(
        self,
        view: FindView,
        calendar: SweepIndex,
        lives: LifeCache,
        gatherer: Gatherer,
        texts: Texts,
        rows: BatchLru[bytes, DocumentRow | None],
        *,
        soft: SoftErrors,
        copies: Copies,
        candidates_max: int,
        compared_max: int,
        site_documents: int,
    ) -> None:
        self._view, self._calendar, self._lives, self._gatherer = view, calendar, lives, gatherer
        self._texts, self._soft, self._copies = texts, soft, copies
        self._rows = rows
        self._places: BatchLru[bytes, list[bytes]] = BatchLru(self._read_places, _PLACES_KEPT)
        self._sites = lru_cache(maxsize=64)(self._read_site)
        self._candidates_max, self._compared_max = candidates_max, compared_max
        self._site_documents = site_documents

    def question(self, life: Life, missed: int) -> DeadUrl:
        """What is asked for a URL missing in a sweep: its last document, or the longest where that is a stub."""
        last = life.last
        row = self._asked_row(life)
        features = self._texts.of(row.sketch.document) if row else None
        url = (life.answered or life.refused[-1]).url
        return DeadUrl(life.key, url, row, features, last.sweep if last else missed, missed)

    def _asked_row(self, life: Life) -> DocumentRow | None:
        rows = [row for row in self._rows.many(life.documents_from(0)[-8:]) if row is not None]
        if not rows:
            return None
        last = self._rows(life.last.document) if life.last and life.last.document else None
        longest = max(rows, key=lambda row: row.sketch.shingles)
        if last is None or last.sketch.shingles < scoring.STUB_SHARE * longest.sketch.shingles:
            return longest
        return last

    def trace(
        self, asked: DeadUrl, also: Iterable[bytes] = (), seen: frozenset[bytes] = frozenset(), hops: int = 0
    ) -> Trace:
        """Trace one question; `also` are keys of candidates to be ranked whatever the indexes say."""
        seen |= {asked.key}
        compare = self._comparer(asked)
        candidates = self._candidates(asked, also, seen)
        compare.read(document for life in candidates for document in _compared(asked, life))
        ranked = self._look_closely(asked, [self._rank(asked, life, compare) for life in candidates])
        living = [each for each in ranked if each.life.alive]
        stop = self._stop(asked, ranked) if hops < scoring.HOPS_MAX else None
        if stop is None:
            return Trace(living, [])
        dead, missed, confidence = stop
        also = [each.life.key for each in living[:_TOP]]
        onward = self.trace(self.question(dead.life, missed), also, seen, hops + 1)
        if dead.life.alive:
            # Left behind, not missing: it moved only if something came with the other hosts.
            onward = Trace([each for each in onward.ranked if each.life.held[0].sweep >= missed], onward.stops)
            if not onward.ranked or onward.ranked[0].score < scoring.LEFT_BEHIND_MIN:
                return Trace(living, [])
            living = [each for each in living if self.missed_since(each.life) is None]
        if not onward.ranked:
            return Trace(living, [])
        direct = {each.life.key: each for each in living}
        for each in onward.ranked[:_TOP]:
            if each.life.key not in direct:
                direct[each.life.key] = self._rank(asked, each.life, compare)
        far = {each.life.key: each.score for each in onward.ranked}
        both = [
            each._replace(score=(1 - scoring.CHAIN) * each.score + scoring.CHAIN * far.get(key, 0.0))
            for key, each in direct.items()
        ]
        url = dead.life.last.url if dead.life.last else ""
        return Trace(_best_first(both), [Stop(url, confidence), *onward.stops])

    def rank_more(self, asked: DeadUrl, keys: Iterable[bytes]) -> list[Ranked]:
        """Rank further living candidates, such as those that rules lead to."""
        compare = self._comparer(asked)
        lives = [life for life in self._lives.of.many(keys) if life.alive and life.held]
        self._suspect(lives)
        return [self._rank(asked, life, compare) for life in lives if not self._is_soft(life)]

    def copied(self, asked: DeadUrl, key: bytes) -> float:
        """The share of the old page's neighbours that have a copy beside this candidate."""
        return self._copies.share(asked.key, key, asked.last, asked.missed)

    def _stop(self, asked: DeadUrl, ranked: list[Ranked]) -> tuple[Ranked, int, float] | None:
        """The best candidate when it has died too, or was left behind: with its missing sweep and how sure it is."""
        if not ranked:
            return None
        best = ranked[0]
        missed = self.missed_since(best.life)
        if missed is None or missed <= asked.missed:
            return None
        second = ranked[1].score if len(ranked) > 1 else 0.0
        confidence = scoring.confidence(best.score, second, best.traits)
        return (best, missed, confidence) if confidence >= scoring.CHAIN_CONFIDENCE_MIN else None

    def missed_since(self, life: Life) -> int | None:
        """The sweep that missed a URL; for one whose host was no longer visited, the first sweep of other hosts."""
        if life.missed is not None:
            return life.missed
        return next((number for number in self._calendar.committed if number > life.tried), None)

    def _candidates(self, asked: DeadUrl, also: Iterable[bytes], seen: frozenset[bytes]) -> list[Life]:
        """Lives of URLs that held a page when the old one no longer did: given ones, and the most promising."""
        gathered = self._gatherer.gather(asked)
        given = [key for key in dict.fromkeys([*also, *gathered.urls]) if key not in seen]
        promise = self._promise(asked, gathered, {*given, *seen})
        order = sorted(promise, key=lambda key: (-promise[key], key))
        found: list[Life] = []
        read = 0
        while read < len(order) and len(found) < self._compared_max:
            if found and promise[order[read]] < _PROMISE_SHARE_MIN * promise[found[0].key]:
                self._gatherer.counters["find_promise_share_min"] += 1
                break
            found += self._outlived(asked, order[read : read + _LIVES_AT_ONCE])
            read += _LIVES_AT_ONCE
        if len(found) + (read < len(order)) > self._compared_max:
            self._gatherer.counters["find_compared_max"] += 1
        return [*self._outlived(asked, given), *found[: self._compared_max]]

    def _promise(self, asked: DeadUrl, gathered: Gathered, known: set[bytes]) -> dict[bytes, float]:
        """URLs of the gathered documents, about `candidates_max`, with what speaks for each before its text is read.

        That is what sketches and shared words say of its most promising document, and its path.
        """
        content: dict[bytes, float] = {}
        documents = gathered.documents
        for at in range(0, len(documents), _DOCUMENTS_AT_ONCE):
            if len(content) >= self._candidates_max:
                self._gatherer.counters["find_candidates_max"] += 1
                break
            part = documents[at : at + _DOCUMENTS_AT_ONCE]
            for document, keys in zip(part, self._places.many(part), strict=True):
                each = gathered.promise.get(document, 0.0)
                for key in keys:
                    if key not in known and each >= content.get(key, 0.0):
                        content[key] = each
        like_path = likeness_to(_path(asked.key))
        return {key: each + scoring.PATH * like_path(_path(key)) for key, each in content.items()}

    def _read_places(self, documents: list[bytes]) -> Iterator[list[bytes]]:
        for places in self._view.locations_seen(documents, _LOCATIONS_READ):
            if len(places) > _LOCATIONS_MAX:
                self._gatherer.counters["find_locations_max"] += 1
                places = sorted(places, key=lambda place: (-place[1], place[0]))[:_LOCATIONS_MAX]  # noqa: PLW2901
            yield [key for key, _ in places]

    def _outlived(self, asked: DeadUrl, keys: list[bytes]) -> list[Life]:
        """Lives of those of these URLs that held a page when the old one was missing."""
        lives = self._lives.of.many(keys)
        return [life for life in lives if life.last is not None and life.last.sweep >= asked.missed]

    def _rank(self, asked: DeadUrl, life: Life, compare: _Comparer) -> Ranked:
        versions, before = _versions(asked, life), life.document_at(asked.last)
        figures = [compare.like(document) for document in versions]
        appeared = life.held[0].sweep == asked.missed
        traits = Traits(
            resemblance=max((f.resemblance for f in figures), default=0.0),
            containment=max((f.containment for f in figures), default=0.0),
            weighed=max((f.weighed for f in figures), default=0.0),
            cosine=max((f.cosine or 0.0 for f in figures), default=0.0) if compare.texts else None,
            title=max((f.title for f in figures), default=0.0),
            beside=compare.like(before).resemblance if before is not None else 0.0,
            path=compare.like_path(_path(life.key)),
            appeared=appeared,
            url_variant=appeared and _respelt(asked.key, life.key),
        )
        return Ranked(life, traits, scoring.score(traits))

    def _look_closely(self, asked: DeadUrl, ranked: list[Ranked]) -> list[Ranked]:
        """Best first, with error pages taken out and copies of trees told among those that might be first."""
        waiting = _best_first(ranked)
        self._suspect([each.life for each in waiting[:_TOP]])
        looked: list[Ranked] = []
        for each in waiting[:_TOP]:
            if self._is_soft(each.life):
                continue
            copied = self.copied(asked, each.life.key)
            traits = each.traits._replace(replica=copied)
            if self.mirrored(asked, each):
                traits = traits._replace(path=0.0)
            looked.append(Ranked(each.life, traits, scoring.score(traits)))
        looked = self._not_frozen(asked, looked)
        return _best_first([*looked, *waiting[_TOP:]])

    def mirrored(self, asked: DeadUrl, each: Ranked) -> bool:
        """The candidate is at the old page's place in a tree that stands beside its own, and shares little of it."""
        if each.traits.weighed >= scoring.MIRROR_CONTENT_MAX or each.traits.replica > scoring.REPLICA_FROM:
            return False
        return self._copies.mirrored(asked.key, each.life.key) >= scoring.MIRRORED_FROM

    def _not_frozen(self, asked: DeadUrl, looked: list[Ranked]) -> list[Ranked]:
        """The same, those marked that lie in a copy of a tree which went as a whole.

        It is told from the tree's new home by another candidate that came with the missing sweep and is much like the
        page: where an old version is put aside as it is, the page itself is changed a little and lives on.
        """
        frozen: dict[bytes, float] = {}
        trees: list[bytes] = []
        for each in looked:
            if each.traits.resemblance == 1.0 and each.traits.replica <= scoring.REPLICA_FROM:
                share, tree = self._copies.frozen(asked.key, each.life.key, asked.last, asked.missed)
                if share >= scoring.FROZEN_FROM:
                    frozen[each.life.key] = share
                    trees.append(tree)
        if not any(self._is_new_home(asked, each, tuple(trees)) for each in looked if trees):
            return looked
        marked = [each.traits._replace(replica=frozen.get(each.life.key, each.traits.replica)) for each in looked]
        return [Ranked(each.life, traits, scoring.score(traits)) for each, traits in zip(looked, marked, strict=True)]

    def _is_new_home(self, asked: DeadUrl, each: Ranked, copies: tuple[bytes, ...]) -> bool:
        """A candidate outside of these trees appeared, is much like the old page, and is no other page's new home.

        By resemblance, as a site that moved as it was may have got a page that holds all others, for printing.
        """
        traits = each.traits
        if not traits.appeared or traits.replica > scoring.REPLICA_FROM or traits.resemblance < scoring.ANOTHER_FROM:
            return False
        return not each.life.key.startswith(copies) and not self._held_elsewhere(asked, each.life)

    def _held_elsewhere(self, asked: DeadUrl, life: Life) -> bool:
        """What this URL held at first was another URL's page while the old one lived: it is that one's new home."""
        document = life.held[0].document
        if document is None:
            return False
        there = self._lives.of.many(key for key in self._places(document) if key not in {asked.key, life.key})
        return any(each.document_at(asked.last) == document for each in there)

    def _suspect(self, lives: list[Life]) -> None:
        """Look all of them up together, for `_is_soft`."""
        held = [(life.last.document, life.key) for life in lives if life.last and life.last.document is not None]
        self._soft.suspected_many(held)

    def _is_soft(self, life: Life) -> bool:
        last = life.last
        return last is not None and last.document is not None and self._soft.suspected(last.document, life.key)

    def _comparer(self, asked: DeadUrl) -> _Comparer:
        site = None
        if asked.features is not None:
            site = Asked(asked.features, self._sites(host_prefix(asked.key)), asked.last, self._texts)
        return _Comparer(asked, site, self._texts, self._rows)

    def _read_site(self, host: bytes) -> Site:
        last = self._calendar.latest(host)
        sample = sample_site(self._view, host, self._site_documents, last)
        return Site(sample, self._texts, last, self._site_documents)


class _Figures(NamedTuple):
    resemblance: float
    containment: float
    weighed: float
    cosine: float | None
    title: float


class _Comparer:
    """Compares the asked page with documents, each once: on texts where they are kept, on sketches elsewhere."""

    def __init__(
        self, asked: DeadUrl, site: Asked | None, texts: Texts, rows: BatchLru[bytes, DocumentRow | None]
    ) -> None:
        self._asked, self._site, self._texts, self._rows = asked, site, texts, rows
        self.like_path = likeness_to(_path(asked.key))
        self._known: dict[bytes, _Figures] = {}

    @property
    def texts(self) -> bool:
        """The asked page's text is kept."""
        return self._site is not None

    def read(self, documents: Iterable[bytes]) -> None:
        """Read together what will be compared."""
        asked = list(dict.fromkeys(documents))
        if self._site is not None:
            asked = [d for d, text in zip(asked, self._texts.of.many(asked), strict=True) if text is None]
        self._rows.many(asked)

    def like(self, document: bytes) -> _Figures:
        """Figures of one document."""
        if document not in self._known:
            self._known[document] = self._compare(document)
        return self._known[document]

    def _compare(self, document: bytes) -> _Figures:
        other = self._texts.of(document) if self._site is not None else None
        if self._site is not None and other is not None:
            found = self._site.like(document, other)
            weighed = (found.containment + found.rare_containment) / 2
            return _Figures(found.resemblance, found.containment, weighed, found.cosine, found.title)
        row = self._rows(document)
        if row is None or self._asked.row is None:
            return _Figures(0.0, 0.0, 0.0, None, 0.0)
        figures = sketcher.compare(self._asked.row.sketch, row.sketch)
        held = scoring.believed(figures.containment, figures.containment_error)
        return _Figures(figures.resemblance, held, held, None, 0.0)


def _versions(asked: DeadUrl, life: Life) -> list[bytes]:
    """A candidate's documents that count: as it was when the old URL went missing, and as it is."""
    versions = life.documents_from(asked.missed)
    return versions if len(versions) <= _VERSIONS_MAX else [versions[0], *versions[-(_VERSIONS_MAX - 1) :]]


def _respelt(old: bytes, new: bytes) -> bool:
    """Two addresses on one host that say the same words, and some."""
    words = _path(old).words
    return bool(words) and words == _path(new).words and host_prefix(old) == host_prefix(new)


def _compared(asked: DeadUrl, life: Life) -> list[bytes]:
    before = life.document_at(asked.last)
    return [*_versions(asked, life), *([before] if before is not None else [])]


_path = lru_cache(maxsize=16_384)(path_features)


def _best_first(ranked: list[Ranked]) -> list[Ranked]:
    return sorted(ranked, key=lambda each: (-each.score, each.life.key))

"""Find where the page of a URL is now: the lost and found of Broder, Glassman, Manasse and Zweig (1997), extended.

URL ─▶ history (alive? missing since which sweep?) ─▶ redirects ─▶ trace (collect, select, rank, follow hops)
    ─▶ rewrite rules, learned from the sure moves of all URLs ─▶ confidence ─▶ editors' decisions ─▶ answer
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice

import msgspec

from state.scheme import Scheme
from state.view import View
from streams.errors import BadUrl
from streams.find import score as scoring
from streams.find.answer import Answer, Candidate
from streams.find.copy_groups import group_copies
from streams.find.editor_decisions import EditorDecisions
from streams.find.find_context import FindContext
from streams.find.mirror_copies import MirrorCopies, MirrorCopy
from streams.find.missing_rule import UrlHistory
from streams.find.never_seen import NeverSeenSearch
from streams.find.ranking import RankedCandidate, Ranker
from streams.find.redirects import folder_neighbours, follow_redirects
from streams.find.report import SearchResult, build_candidates, guessed_candidate, soft_404_candidate
from streams.find.rewrite_rules import NO_RULES, Prediction, Rules
from streams.find.trace import Trace, Tracer
from streams.settings import Settings
from streams.sketch import sketcher
from streams.sketch.index_terms import site_hash
from streams.sketch.sketcher import Sketcher
from streams.timestamps import format_iso
from streams.tracking_parameters import known_key
from streams.urls import host_prefix, url_key

BLOCK_URLS = 2_000  # all URLs of a block are traced before the rules learned from their moves are applied
LEARN_CONFIDENCE_MIN = 0.25  # rules are learned from moves with at least this confidence
MOVES_MAX = 20_000  # rules are learned from at most this many of the moves found last
NEIGHBOURS_MAX = 24  # missing neighbours traced per URL to learn rules, if only a few URLs are requested


class _Case(msgspec.Struct, frozen=True):
    """A URL with the results from which its answer is built. `history` is None if the URL is invalid."""

    url: str
    history: UrlHistory | None = None
    result: SearchResult | None = None  # None: the URL is alive, was never captured or is invalid
    known_url: str | None = None  # the captured URL, if `url` differs from it only by tracking parameters

    @property
    def page_url(self) -> str:
        return self.known_url or self.url

    @property
    def keys(self) -> list[bytes]:
        """The keys of the URL and of the captured URL; [] if the URL is invalid."""
        return [] if self.history is None else list(dict.fromkeys((url_key(self.url), self.history.key)))


class Finder:
    """Finds the new URLs of pages. Caches are never refreshed, so a changed state needs a new finder."""

    def __init__(self, view: View, settings: Settings) -> None:
        self._context = FindContext(view, settings)
        self._settings = self._context.settings
        self.counters = self._context.counters  # how often each limit was reached
        self.searched_urls = 0  # number of URLs searched so far, including the neighbours of requested URLs
        self._ranker = Ranker(self._context)
        self._tracer = Tracer(self._context, self._ranker)
        self._never_seen = NeverSeenSearch(self._context, self._tracer.selector)
        self._decisions = EditorDecisions(self._context)
        self._mirror_copies = MirrorCopies(self._context)

    def find(self, url: str) -> Answer:
        """Return the answer for one URL, without the help of rewrite rules, which need the moves of other URLs."""
        return self._answer(self._search(url), NO_RULES)

    def find_many(self, urls: Iterable[str]) -> Iterator[Answer]:
        """Yield the answers for many URLs, in the order of the URLs.

        URLs are traced in blocks. The answers of a block also use rewrite rules, which are learned from the last
        `MOVES_MAX` sure moves of this and earlier blocks. If a block has only a few URLs, the missing URLs in their
        folders are traced too, so that rules can be learned from more moves.
        """
        remaining_urls = iter(urls)
        moves: dict[str, str] = {}
        while block := list(islice(remaining_urls, BLOCK_URLS)):
            cases = [self._search(url) for url in block]
            is_small = len(block) <= NEIGHBOURS_MAX // 4
            neighbours = dict.fromkeys(url for c in cases for url in self._missing_neighbours(c)) if is_small else {}
            neighbour_cases = [self._search(url) for url in neighbours if url not in block]
            self._decisions.preload(key for case in (*cases, *neighbour_cases) for key in case.keys)
            for case in (*cases, *neighbour_cases):
                if (target := self._move_target(case)) is not None:
                    moves[case.page_url] = target
            excess_urls = list(islice(moves, max(0, len(moves) - MOVES_MAX)))
            self.counters["find_moves_max"] += len(excess_urls)
            for url in excess_urls:
                del moves[url]
            rules = Rules(moves.items())
            yield from (self._answer(case, rules) for case in cases)

    def missing_since(self, url: str) -> int | None:
        """Return the sweep since which this URL has been missing; None if it is alive, or never had a page."""
        history = self._context.checked_history(url_key(url))
        return history.missing_since if history.pages else None

    def hosts_outside_last_sweep(self) -> list[str]:
        """Return the hosts of earlier sweeps that are outside the scope of the last sweep."""
        return self._context.sweeps.hosts_outside_last_sweep()

    def ranked_urls(self, url: str) -> list[str]:
        """Return the URLs of all ranked candidates, whatever their confidence, without URLs that rules predict."""
        result = self._search(url).result
        return [candidate.history.pages[-1].url for candidate in result.trace.ranked] if result else []

    def _search(self, url: str) -> _Case:
        self.searched_urls += 1
        try:
            key = url_key(url)
        except BadUrl:
            return _Case(url)
        history, known_url = self._read_history(key)
        if history.is_alive or _is_unknown(history):
            return _Case(url, history, known_url=known_url)
        redirect = follow_redirects(self._context, history)
        missing_since = history.missing_since
        if missing_since is None:
            missing_since = self._context.sweeps.last_sweep_of(host_prefix(history.key))
        dead = self._context.read_dead_url(history, missing_since)
        trace = self._tracer.trace(dead, [redirect.history.key] if redirect else [])
        return _Case(url, history, SearchResult(dead, trace, redirect), known_url)

    def _read_history(self, key: bytes) -> tuple[UrlHistory, str | None]:
        """Return the history of a URL, and None.

        If the URL was never captured, but a URL was that differs only in its tracking parameters, return the history
        of the captured URL, and that URL.
        """
        history = self._context.checked_history(key)
        if not _is_unknown(history):
            return history, None
        other_key = known_key(self._context.view, key, self._settings.tracking_parameters)
        if other_key is None:
            return history, None
        return self._context.checked_history(other_key), self._context.view.captures(other_key)[-1].url

    def _missing_neighbours(self, case: _Case) -> list[str]:
        """Return missing URLs in the folder of a URL, sorted by key, or [] if the URL has a sure move itself."""
        if case.history is None or case.result is None or self._move_target(case) is not None:
            return []
        keys = (key for key in folder_neighbours(self._context, case.history.key) if key != case.history.key)
        histories = self._context.url_histories.get_many(keys)
        missing = (h.pages[-1].url for h in histories if h.pages and h.missing_since is not None)
        return list(islice(missing, NEIGHBOURS_MAX))

    def _move_target(self, case: _Case) -> str | None:
        """Return the new URL if the move is sure or an editor decided it, so that rules can be learned from it."""
        decision = self._decisions.first(case.keys)
        return decision.new_url if decision is not None else self._sure_move_target(case)

    def _answer(self, case: _Case, rules: Rules) -> Answer:
        return self._decisions.apply(self._ranked_answer(case, rules), case.keys)

    def _ranked_answer(self, case: _Case, rules: Rules) -> Answer:
        history, result = case.history, case.result
        if history is None or (result is None and not history.is_alive):
            return self._uncaptured_answer(case, rules)
        status, candidates = "alive", []
        if result is not None:
            limit = self._settings.answers_max
            candidates = build_candidates(self._apply_rules(case.page_url, result, rules), limit)
            failure = history.failures[-1] if history.failures else None
            if failure is not None and failure.document is not None and failure.redirect is None:  # a soft 404
                candidates = [*candidates[: max(1, limit - 1)], soft_404_candidate(history)][:limit]
            is_sure = bool(candidates) and candidates[0].confidence >= self._settings.confidence_min
            status = "moved" if is_sure else "gone"
            if (copy := self._mirror_copy(result)) is not None:
                candidates, is_copy = copy.insert(candidates, is_moved=is_sure)
                candidates, status = candidates[:limit], "copy" if is_copy else status
        last_seen = format_iso(history.last_success.time) if history.last_success else None
        document = history.last_page.document.hex() if history.last_page and history.last_page.document else None
        return Answer(
            url=case.url,
            status=status,
            last_seen=last_seen,
            document=document,
            candidates=candidates,
            known_url=case.known_url,
        )

    def _mirror_copy(self, result: SearchResult) -> MirrorCopy | None:
        """Return the copy of a dead page on a mirror, or None. A redirect from the old URL to a copy is a move."""
        copy = self._mirror_copies.find(result.dead)
        is_redirect = copy is not None and result.redirect is not None and result.redirect.history.key in copy.keys
        return None if is_redirect else copy

    def _apply_rules(self, url: str, result: SearchResult, rules: Rules) -> SearchResult:
        predictions: dict[bytes, Prediction] = {}
        for prediction in rules.predict(url):
            if (key := _target_key(prediction)) is not None and key != result.dead.key:
                predictions.setdefault(key, prediction)
        ranked = self._ranker.apply_predictions(result.dead, result.trace.ranked, predictions)
        ranked = group_copies(result.dead.key, ranked, self._resemblances)
        return SearchResult(result.dead, Trace(ranked, result.trace.hops), result.redirect, predictions)

    def _sure_move_target(self, case: _Case) -> str | None:
        """Return the new URL if the move is sure, direct and not to a copied tree, so that rules can be learned."""
        if case.result is None or not case.result.trace.ranked or case.result.trace.hops:
            return None
        # The move must be sure without the help of rules and redirects.
        result = msgspec.structs.replace(self._apply_rules(case.page_url, case.result, NO_RULES), redirect=None)
        best = result.trace.ranked[0]
        copy = self._mirror_copy(result)
        if copy is not None and best.history.key in copy.keys:
            return None
        (candidate,) = build_candidates(result, 1)
        is_doubtful = best.traits.is_copied or scoring.is_path_the_only_evidence(best.traits)
        is_sure = not is_doubtful and candidate.confidence >= LEARN_CONFIDENCE_MIN
        return best.history.pages[-1].url if is_sure else None

    def _resemblances(self, candidate: RankedCandidate, others: list[RankedCandidate]) -> list[float]:
        """Return how much the last document of each other candidate resembles that of `candidate`."""
        own, *documents = (c.history.pages[-1].document or b"" for c in (candidate, *others))
        own_row, *rows = self._context.rows.get_many([own, *documents])
        sketches = {document: row.sketch for document, row in zip(documents, rows, strict=True) if row is not None}
        if own_row is None or not sketches:
            return [float(document == own) for document in documents]
        values = sketcher.compare_with_each(own_row.sketch, list(sketches.values())).resemblance.tolist()
        by_document = dict(zip(sketches, values, strict=True))
        return [1.0 if document == own else by_document.get(document, 0.0) for document in documents]

    def _uncaptured_answer(self, case: _Case, rules: Rules) -> Answer:
        """Return the answer for a URL that no sweep captured: `never_seen` if pages link to it, else `unknown`."""
        candidates = self._guesses(case.page_url, rules) if case.history is not None else []
        linked = self._never_seen.search(case.history.key, case.url) if case.history is not None else None
        known_urls = {candidate.url for candidate in candidates}
        candidates += [candidate for candidate in linked or () if candidate.url not in known_urls]
        return Answer(
            url=case.url,
            status="unknown" if linked is None else "never_seen",
            last_seen=None,
            document=None,
            candidates=sorted(candidates, key=lambda c: -c.confidence)[: self._settings.answers_max],
        )

    def _guesses(self, url: str, rules: Rules) -> list[Candidate]:
        """Return candidates for a URL that no sweep captured: living URLs that rules predict."""
        candidates: list[Candidate] = []
        for prediction in rules.predict(url):
            key = _target_key(prediction)
            if key is not None and (history := self._context.checked_history(key)).is_alive and history.pages:
                candidates.append(guessed_candidate(history, prediction))
        return candidates[: self._settings.answers_max]


def _is_unknown(history: UrlHistory) -> bool:
    """Return whether no sweep has captured anything at the URL except temporary errors."""
    return history.last_success is None and not history.failures


def _target_key(prediction: Prediction) -> bytes | None:
    try:
        return url_key("https:" + prediction.target)
    except ValueError:
        return None


@cache
def warm_up() -> None:
    """Compile and load what searches need, and exempt all existing objects from garbage collection.

    Call this at the start of a process that searches for many URLs: loading takes longer than a few searches in
    numpy. The compiler leaves a few hundred thousand objects that live as long as the process. Without the exemption,
    full collections visit all of them, which adds 100 ms to about every hundredth search.
    """
    example = Sketcher(Scheme())
    sketch = example.sketch("a few words are enough")
    sketcher.compare(sketch, sketch)
    example.words_and_counts("a few words")
    site_hash(b"org,example,www)/")
    gc.freeze()

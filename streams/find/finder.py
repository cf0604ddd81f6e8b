"""Where did this URL go: the lost and found of Broder, Glassman, Manasse and Zweig (1997), grown up.

URL ─▶ life (alive? missing since which sweep?) ─▶ redirects seen ─▶ trace (gather, rank, go on from stops)
    ─▶ rewrite rules learned from the sure moves among all URLs asked ─▶ confidence ─▶ answer
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from state.scheme import Scheme
from streams.errors import BadUrl
from streams.find import score as scoring
from streams.find.answer import Answer
from streams.find.batch_lru import BatchLru
from streams.find.candidates import DeadUrl, Gatherer
from streams.find.copies import Copies, SoftErrors
from streams.find.history import Life, SweepIndex, redirect_key
from streams.find.life_cache import LifeCache
from streams.find.paths import Predicted, Rules
from streams.find.ranking import Trace, Tracer
from streams.find.report import Found, Redirected, candidates_of, guess, soft_404
from streams.find.text_similarity import Texts
from streams.sketch import sketcher as sketching
from streams.sketch.index_terms import page_name, site_key
from streams.sketch.sketcher import Sketcher
from streams.timestamps import iso
from streams.urls import directory_prefix, host_prefix, url_key

if TYPE_CHECKING:
    from state.model import DocumentRow
    from streams.find.answer import Candidate
    from streams.find.find_view import FindView
    from streams.find.ranking import Ranked
    from streams.settings import Settings

BLOCK = 2_000  # URLs whose first pass is done before the rules learned from it are used
LEARN_CONFIDENCE_MIN = 0.35
MOVES_MAX = 20_000  # the last ones, that rules are learned from
NEIGHBOURS = 24  # missing URLs beside a single one, asked too so that rules can be learned
_NEIGHBOURS_READ = 256
_CAPTURES_READ = 2_048  # their keys
_REDIRECTS_MAX = 8


class _Case(NamedTuple):
    """One URL between the passes."""

    url: str
    life: Life | None
    question: DeadUrl | None = None
    trace: Trace | None = None
    redirected: Redirected | None = None


class Finder:
    """Answers where URLs went, from one state of a view. `counters` tells which limits bit."""

    def __init__(self, view: FindView, settings: Settings) -> None:
        find = settings.find
        self._view, self._settings = view, find
        sketcher = Sketcher(view.scheme, settings.limits.tokens_max)
        self._calendar = SweepIndex(view)
        self._soft = SoftErrors(view, find.soft_404_urls)
        self._lives = LifeCache(view, self._calendar, self._soft)
        rows: BatchLru[bytes, DocumentRow | None] = BatchLru(view.documents, 8192)
        gatherer = Gatherer(
            view,
            self._calendar,
            sketcher,
            gathered_max=find.gathered_max,
            sample_postings_max=settings.limits.sample_postings_max,
        )
        self.counters: Counter[str] = gatherer.counters
        self._tracer = Tracer(
            view,
            self._calendar,
            self._lives,
            gatherer,
            Texts(view, sketcher),
            rows,
            soft=self._soft,
            copies=Copies(view, rows, self._calendar.latest),
            candidates_max=find.candidates_max,
            compared_max=find.compared_max,
            site_documents=find.site_sample_documents,
        )
        self._rules = Rules([])
        _settle()

    def find(self, url: str) -> Answer:
        """The answer for one URL, by its own evidence and the rules learned so far."""
        return self._answer(self._case(url))

    def find_many(self, urls: Iterable[str]) -> Iterator[Answer]:
        """Answers for many URLs, in their order.

        Sure moves among them teach rewrite rules, which then speak for the others: of the same block of URLs and of
        later ones, for as long as these are among the last that were learned from. Of few URLs, missing ones beside
        them are asked along for their rules.
        """
        waiting = iter(urls)
        moves: dict[str, str] = {}
        while block := list(islice(waiting, BLOCK)):
            cases = [self._case(url) for url in block]
            known = {case.url for case in cases}
            extra = [url for case in cases for url in self._beside(case)] if len(block) <= NEIGHBOURS // 4 else []
            others = (self._case(url) for url in dict.fromkeys(extra) if url not in known)
            for case in [*cases, *others]:
                if (target := self._sure_move(case)) is not None:
                    moves[case.url] = target
            forgotten = list(islice(moves, max(0, len(moves) - MOVES_MAX)))
            self.counters["find_moves_max"] += len(forgotten)
            for url in forgotten:
                del moves[url]
            self._rules = Rules(moves.items())
            yield from map(self._answer, cases)

    def missed_since(self, url: str) -> int | None:
        """The number of the sweep that was the first to miss a URL which held a page; None where none did."""
        life = self._lives.checked(url_key(url))
        return self._tracer.missed_since(life) if life.held else None

    def ranked_urls(self, url: str) -> list[str]:
        """URLs of all candidates that would be ranked: what the look-ups lost is not among them."""
        trace = self._case(url).trace
        return [each.life.held[-1].url for each in trace.ranked] if trace else []

    def _case(self, url: str) -> _Case:
        try:
            key = url_key(url)
        except BadUrl:
            return _Case(url, None)
        life = self._lives.checked(key)
        redirected = self._redirected(life)
        if life.alive:
            missed = self._tracer.missed_since(life)
            if missed is None or not life.held:
                return _Case(url, life)
            question = self._tracer.question(life, missed)
            return _Case(url, life, question, self._appeared_only(question))
        if life.answered is None and not life.refused:
            return _Case(url, life)
        missed = life.missed if life.missed is not None else self._calendar.latest(host_prefix(key))
        question = self._tracer.question(life, missed)
        also = [redirected.key] if redirected else []
        return _Case(url, life, question, self._tracer.trace(question, also), redirected)

    def _appeared_only(self, question: DeadUrl) -> Trace | None:
        """A trace in which only candidates count that first came with the sweep of other hosts, when it is sure."""
        trace = self._tracer.trace(question)
        new = Trace([each for each in trace.ranked if each.life.held[0].sweep >= question.missed], trace.stops)
        return new if self._confidence(question, new, None) >= self._settings.confidence_min else None

    def _redirected(self, life: Life) -> Redirected | None:
        """Where the crawler was sent from this URL, to the end of the chain."""
        captures = [c for c in life.refused if c.redirect]
        if not captures:
            return None
        url, chain = captures[-1].url, [life.key]
        target = captures[-1].redirect or ""
        for _ in range(_REDIRECTS_MAX):
            try:
                url = urljoin(url, target)
                key = url_key(url)
            except ValueError:
                return None
            if key in chain:
                return None
            chain.append(key)
            there = self._lives.checked(key)
            onward = [c for c in there.refused if c.redirect]
            if there.alive or not onward:
                return Redirected(url, key, there, self._polite(life, key), len(chain) - 1)
            target = onward[-1].redirect or ""
        return None

    def _polite(self, life: Life, target: bytes) -> bool:
        """The redirect leads to a home page, or many pages beside this one are sent to the same place."""
        path = target[target.find(b")") + 1 :]
        if path in {b"", b"/"} and life.key[life.key.find(b")") + 1 :] not in {b"", b"/"}:
            return True
        beside = self._view.histories(self._neighbours(life.key))
        sent = {page_name(c.url) for each in beside for c in each if redirect_key(c) == target}
        return len(sent) >= self._settings.soft_404_urls

    def _beside(self, case: _Case) -> list[str]:
        """Missing URLs in the folder of one that has no sure answer, those nearest by name first."""
        if case.life is None or case.trace is None or self._sure_move(case) is not None:
            return []
        lives = self._lives.of.many(key for key in self._neighbours(case.life.key) if key != case.life.key)
        missing = (life.held[-1].url for life in lives if life.held and life.missed is not None)
        return list(islice(missing, NEIGHBOURS))

    def _neighbours(self, key: bytes) -> list[bytes]:
        """Keys of URLs in the folder of this one."""
        return self._view.urls_under(directory_prefix(key), _CAPTURES_READ)[:_NEIGHBOURS_READ]

    def _sure_move(self, case: _Case) -> str | None:
        """Where a URL surely went, to learn from; copies of trees and doubted redirects teach nothing."""
        if case.trace is None or case.question is None or not case.trace.ranked:
            return None
        best = case.trace.ranked[0]
        if best.traits.replica > scoring.REPLICA_FROM or case.trace.stops:
            return None
        sure = self._confidence(case.question, case.trace, None) >= LEARN_CONFIDENCE_MIN
        return best.life.last.url if sure and best.life.last else None

    def _confidence(self, question: DeadUrl, trace: Trace, redirected: Redirected | None) -> float:
        found = Found(question, trace.ranked, trace.stops, redirected, {})
        return max((c.confidence for c in candidates_of(found, 1)), default=0.0)

    def _answer(self, case: _Case) -> Answer:
        life = case.life
        if life is None:
            return Answer(url=case.url, status="unknown", last_seen=None, document=None, candidates=[])
        seen = iso(life.answered.time) if life.answered else None
        document = life.last.document.hex() if life.last and life.last.document else None
        if life.alive and case.trace is None:
            return Answer(url=case.url, status="alive", last_seen=seen, document=document, candidates=[])
        if case.question is None:
            return Answer(
                url=case.url, status="unknown", last_seen=None, document=None, candidates=self._guesses(case)
            )
        found = self._with_rules(case, case.question, case.trace or Trace([], []))
        most = self._settings.answers_max
        candidates = candidates_of(found, most)
        if life.refused and life.refused[-1].document is not None and life.refused[-1].redirect is None:
            candidates = [*candidates[: max(1, most - 1)], soft_404(life)][:most]
        sure = bool(candidates) and candidates[0].confidence >= self._settings.confidence_min
        return Answer(
            url=case.url, status="moved" if sure else "gone", last_seen=seen, document=document, candidates=candidates
        )

    def _with_rules(self, case: _Case, question: DeadUrl, trace: Trace) -> Found:
        """The trace with what rules add to it: targets that the last sweep really holds."""
        predicted: dict[bytes, Predicted] = {}
        for each in self._rules.predict(case.url):
            if (key := _key("https:" + each.target)) is not None and key != question.key:
                predicted.setdefault(key, each)
        known = {each.life.key for each in trace.ranked}
        ranked = [*trace.ranked, *self._tracer.rank_more(question, [key for key in predicted if key not in known])]
        led = [self._led(question, each, predicted.get(each.life.key)) for each in ranked]
        led.sort(key=lambda each: (-each.score, each.life.key))
        return Found(question, led, trace.stops, case.redirected, predicted)

    def _led(self, question: DeadUrl, each: Ranked, predicted: Predicted | None) -> Ranked:
        if predicted is None or self._tracer.copied(question, each.life.key) > scoring.REPLICA_FROM:
            return each
        if self._tracer.mirrored(question, each):
            return each
        if predicted.rule.folded:  # where others of its folder went is worth a look, no more
            return each
        traits = each.traits._replace(rule=predicted.confidence)
        return each._replace(traits=traits, score=each.score + scoring.RULE * predicted.confidence)

    def _guesses(self, case: _Case) -> list[Candidate]:
        """Candidates for a URL that no sweep held: only where rules lead to a page that is there."""
        found: list[Candidate] = []
        for each in self._rules.predict(case.url):
            key = _key("https:" + each.target)
            if key is not None and (life := self._lives.checked(key)).alive and life.held:
                found.append(guess(life, each))
        return found[: self._settings.answers_max]


def _key(url: str) -> bytes | None:
    try:
        return url_key(url)
    except ValueError:
        return None


@cache
def _settle() -> None:
    """Load what the first question would wait for, and take it out of later garbage collections.

    The compiler leaves some hundred thousand objects that live as long as the process. A full collection walks them
    all, which took 100 ms out of the middle of every hundredth question or so.
    """
    sketcher = Sketcher(Scheme())
    sketch = sketcher.sketch("a few words are enough")
    sketching.compare(sketch, sketch)
    sketcher.word_hashes("a few words")
    site_key(b"org,example,www)/")
    gc.freeze()

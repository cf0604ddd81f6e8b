"""Apply editors' decisions to answers: a decision overrides the ranking.

The ranked candidates follow the decided new URL, with confidence 0. If the decided new URL is missing too, the
decision about that URL is followed. Decisions may form a loop, because editors record them independently of one
another. The answer is then the last new URL before the loop closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from state.model import Decision
from state.view import View
from streams.find.answer import Answer, Candidate, EditorDecision, Evidence
from streams.find.batch_lru import BatchLru
from streams.find.find_context import FindContext
from streams.find.missing_rule import UrlHistory
from streams.timestamps import format_iso
from streams.urls import url_key

_DECISIONS_CACHED = 8_192
_STEPS_MAX = 8  # decisions followed per answer
_DECISION_EVIDENCE_KINDS = {"decision", "stop", "target_missing", "not_captured"}


class _Target(msgspec.Struct, frozen=True):
    """Where decisions lead: the last new URL, its history, and the missing URLs in between (`hops`)."""

    url: str
    history: UrlHistory
    hops: list[str]
    is_gone: bool  # an editor decided that the page is gone from this URL too


class EditorDecisions:
    """The decisions that one `Finder` applies. They are never refreshed."""

    def __init__(self, context: FindContext) -> None:
        self._context = context
        self._by_key: BatchLru[bytes, Decision | None] = BatchLru(context.view.decisions, _DECISIONS_CACHED)
        self._has_any = next(context.view.all_decisions(), None) is not None

    def preload(self, keys: Iterable[bytes]) -> None:
        """Read the decisions about many URLs at once."""
        if self._has_any:
            self._by_key.get_many(keys)

    def first(self, keys: Sequence[bytes]) -> Decision | None:
        """Return the decision about the first of these URL keys about which there is one, or None."""
        return next(filter(None, self._by_key.get_many(keys)), None) if self._has_any else None

    def apply(self, answer: Answer, keys: Sequence[bytes]) -> Answer:
        """Apply the decision about a URL, if there is one, to its answer. `keys` are the keys that the URL may have.

        An `alive` answer keeps its status and only mentions the decision.
        """
        decision = self.first(keys)
        if decision is None:
            return answer
        decided_at = format_iso(decision.time) or ""
        editor_decision = EditorDecision(new=decision.new_url, decided_at=decided_at)
        if answer.status == "alive":
            return msgspec.structs.replace(answer, decision=editor_decision)
        others = [msgspec.structs.replace(candidate, confidence=0.0) for candidate in answer.candidates]
        if decision.new_url is None:
            return msgspec.structs.replace(answer, status="gone", candidates=others, decision=editor_decision)
        target = self._follow(decision, decision.new_url)
        best = _target_candidate(target, others, Evidence("decision", detail=f"by an editor on {decided_at[:10]}"))
        others = [candidate for candidate in others if url_key(candidate.url) != target.history.key]
        return msgspec.structs.replace(
            answer,
            status="gone" if target.is_gone else "moved",
            candidates=[best, *others][: self._context.settings.answers_max],
            decision=editor_decision,
        )

    def _follow(self, decision: Decision, new_url: str) -> _Target:
        """Follow decisions until a new URL is alive, no decision remains, or the decisions form a loop."""
        visited = {decision.key}
        hops: list[str] = []
        while True:
            history = self._context.checked_history(url_key(new_url))
            following = None if history.is_alive else self.first([history.key])
            visited.add(history.key)
            if following is None or following.new_url is None or url_key(following.new_url) in visited:
                is_gone = following is not None and following.new_url is None
                return _Target(new_url, history, hops, is_gone)
            if len(hops) == _STEPS_MAX:
                self._context.counters["find_decision_steps_max"] += 1
                return _Target(new_url, history, hops, is_gone=False)
            hops.append(new_url)
            new_url = following.new_url


def _target_candidate(target: _Target, ranked: Sequence[Candidate], decision_evidence: Evidence) -> Candidate:
    """Return the decided new URL as a candidate. Keep the figures of this URL if it was ranked."""
    history = target.history
    evidence = [decision_evidence, *(Evidence("stop", 1.0, hop) for hop in target.hops)]
    if not history.is_alive:
        is_captured = history.last_success is not None or bool(history.failures)
        evidence.append(Evidence("target_missing" if is_captured else "not_captured"))
    confidence = 0.0 if target.is_gone else 1.0
    for candidate in ranked:
        if url_key(candidate.url) == history.key:
            merged_evidence = [*evidence, *(e for e in candidate.evidence if e.kind not in _DECISION_EVIDENCE_KINDS)]
            return msgspec.structs.replace(candidate, confidence=confidence, evidence=merged_evidence)
    first = history.pages[0] if history.pages else history.textless_success
    return Candidate(
        url=target.url,
        confidence=confidence,
        first_seen=format_iso(first.time) if first else None,
        last_seen=format_iso(history.last_success.time) if history.last_success else None,
        evidence=evidence,
    )


def decided_urls_without_pages(view: View, prefix: bytes = b"") -> Iterator[str]:
    """Yield the URLs under a key prefix that have a decision but no page in any sweep, in the order of their keys."""
    for decision in view.all_decisions(prefix):
        if all(capture.document is None for capture in view.captures(decision.key)):
            yield decision.old_url

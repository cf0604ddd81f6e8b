"""Learn rewrite rules from moves on a site, and predict from them where other URLs have moved.

A rule replaces the beginning and the extension of a URL: the move from https://a/doc/x.html to https://b/guide/x/
supports the rule `//a/doc/*.html -> //b/guide/*/`. A move supports one rule per word boundary in the common end of
both URLs, so that `/doc/x/*` and `/doc/*` compete. The confidence of a rule is the share of the moves in its range
that it explains. If several pages of a folder moved to one page, the rule is `/doc/* -> /doc.html`, a folding rule.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import NamedTuple

_SUPPORT_MIN, _CUTS_MAX = 2, 24
_HEAD_CHARACTERS_MIN = 3  # `//` and a character of the host
_HEADS_MAX = 64  # possible beginnings of rules tried per URL, because a URL may consist of separators only
_EXTENSION = re.compile(
    r"(?:/(?:index|default)(?:\.[a-z]{2,5}\d?)?|\.(?:[xs]?html?|php\d?|aspx?|jspx?|cgi|rst|md|txt)|/)$"
)


class Rule(NamedTuple):
    """`before*before_end -> after*after_end`, without scheme; a folding rule has a single page as its target."""

    before: str
    before_end: str
    after: str
    after_end: str
    is_folding: bool = False

    def __str__(self) -> str:
        return f"{self.before}*{self.before_end} -> {self.after}{'' if self.is_folding else '*'}{self.after_end}"

    def target(self, stem: str) -> str:
        return self.after + ("" if self.is_folding else stem[len(self.before) :]) + self.after_end


class Prediction(NamedTuple):
    """The URL that a rule predicts."""

    target: str  # without scheme
    confidence: float  # moves that support the rule, divided by one plus the moves in its range
    rule: Rule
    support: int


class Rules:
    """Rules learned from moves (old URL, new URL)."""

    def __init__(self, moves: Iterable[tuple[str, str]]) -> None:
        stems = [(old, _split_extension(old), _split_extension(new)) for old, new in moves]
        self._support: dict[Rule, set[str]] = defaultdict(set)
        for old, (before, before_end), (after, after_end) in stems:
            folder = before[: before.rfind("/") + 1]
            self._support[Rule(folder, before_end, after + after_end, "", is_folding=True)].add(old)
            if (before, before_end) != (after, after_end):
                for head, new_head in islice(_cut_common_end(before, after), _CUTS_MAX):
                    self._support[Rule(head, before_end, new_head, after_end)].add(old)
        self._support = {rule: old_urls for rule, old_urls in self._support.items() if len(old_urls) >= _SUPPORT_MIN}
        self._by_head: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        for rule in self._support:
            self._by_head[rule.before, rule.before_end].append(rule)
        self._moves_in_range: Counter[tuple[str, str]] = Counter()
        for _, (before, before_end), _ in stems:
            self._moves_in_range.update(head for head in _heads(before, before_end) if head in self._by_head)

    def predict(self, url: str) -> list[Prediction]:
        """Return predicted targets of a URL, the highest confidence first. The URL's own move supports no rule."""
        stem, end = _split_extension(url)
        predictions: dict[str, Prediction] = {}
        for head in _heads(stem, end):
            for rule in self._by_head.get(head, ()):
                is_own_move = url in self._support[rule]
                support = len(self._support[rule]) - is_own_move
                if support < _SUPPORT_MIN:
                    continue
                confidence = support / (self._moves_in_range[head] - is_own_move + 1.0)
                target = rule.target(stem)
                if target not in predictions or predictions[target].confidence < confidence:
                    predictions[target] = Prediction(target, confidence, rule, support)
        return sorted(predictions.values(), key=lambda p: (-p.confidence, p.target))


NO_RULES = Rules(())


def _split_extension(url: str) -> tuple[str, str]:
    """Split a URL without scheme and fragment before the extension of its page: (`//host/a/x`, `.html`)."""
    bare = url.split("#", 1)[0]
    bare = bare[max(bare.find("//"), 0) :]
    match = _EXTENSION.search(bare)
    return (bare[: match.start()], bare[match.start() :]) if match else (bare, "")


def _heads(stem: str, end: str) -> Iterator[tuple[str, str]]:
    """Return the beginnings of rules that may match a URL: prefixes of the stem, the shortest first, with `end`."""
    lengths = (n for n in range(_HEAD_CHARACTERS_MIN, len(stem) + 1) if not stem[n - 1].isalnum())
    return ((stem[:length], end) for length in islice(lengths, _HEADS_MAX))


def _cut_common_end(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of prefixes that remain if a common end of whole words is removed, the shortest first."""
    pairs = zip(reversed(before), reversed(after), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    for rest in range(common, 0, -1):
        old, new = before[:-rest], after[:-rest]
        is_long_enough = min(len(old), len(new)) >= _HEAD_CHARACTERS_MIN
        if is_long_enough and before[-rest].isalnum() and not old[-1].isalnum() and not new[-1].isalnum():
            yield old, new

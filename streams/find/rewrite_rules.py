"""Learn rewrite rules from moves on a site, and predict from them where other URLs have moved.

A rule replaces the beginning and the extension of a URL: the move from https://a/doc/x.html to https://b/guide/x/
supports the rule `//a/doc/*.html -> //b/guide/*/`. A move supports one rule per word boundary in the common end of
both URLs, so that `/doc/x/*` and `/doc/*` compete. The confidence of a rule is the share of correctly predicted moves
among the moves whose old URL the rule matches. If several pages of a folder moved to one page, the rule is a folding
rule, such as `/doc/* -> /doc.html`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import NamedTuple

_SUPPORT_MIN, _CUTS_MAX = 2, 24  # moves that must support a rule; rules that a move can support
_HEAD_CHARACTERS_MIN = 3  # `//` and a character of the host
_HEADS_MAX = 64  # beginnings tried per URL, which may consist of separators only
_EXTENSION = re.compile(
    r"(?:/(?:index|default)(?:\.[a-z]{2,5}\d?)?|\.(?:[xs]?html?|php\d?|aspx?|jspx?|cgi|rst|md|txt)|/)$"
)


class Rule(NamedTuple):
    """`old_head*old_end -> new_head*new_end`, without schemes. The target of a folding rule is a single page."""

    old_head: str
    old_end: str
    new_head: str
    new_end: str
    is_folding: bool = False

    def __str__(self) -> str:
        return f"{self.old_head}*{self.old_end} -> {self.new_head}{'' if self.is_folding else '*'}{self.new_end}"

    def apply(self, stem: str) -> str:
        return self.new_head + ("" if self.is_folding else stem[len(self.old_head) :]) + self.new_end


class Prediction(NamedTuple):
    """The URL that a rule predicts."""

    target: str  # without scheme
    confidence: float  # moves that support the rule, divided by one plus the moves whose old URL it matches
    rule: Rule
    support: int


class Rules:
    """Rules learned from moves (old URL, new URL)."""

    def __init__(self, moves: Iterable[tuple[str, str]]) -> None:
        stems = [(old, _split_extension(old), _split_extension(new)) for old, new in moves]
        self._supporting_urls: dict[Rule, set[str]] = defaultdict(set)
        for old, (old_stem, old_end), (new_stem, new_end) in stems:
            folder = old_stem[: old_stem.rfind("/") + 1]
            self._supporting_urls[Rule(folder, old_end, new_stem + new_end, "", is_folding=True)].add(old)
            if (old_stem, old_end) != (new_stem, new_end):
                for head, new_head in islice(_cut_common_end(old_stem, new_stem), _CUTS_MAX):
                    self._supporting_urls[Rule(head, old_end, new_head, new_end)].add(old)
        self._supporting_urls = {
            rule: old_urls for rule, old_urls in self._supporting_urls.items() if len(old_urls) >= _SUPPORT_MIN
        }
        self._rules_by_head: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        for rule in self._supporting_urls:
            self._rules_by_head[rule.old_head, rule.old_end].append(rule)
        self._moves_by_head: Counter[tuple[str, str]] = Counter()
        for _, (old_stem, old_end), _ in stems:
            self._moves_by_head.update(head for head in _heads(old_stem, old_end) if head in self._rules_by_head)

    def predict(self, url: str) -> list[Prediction]:
        """Return predictions for a URL, the highest confidence first. The URL's own move does not support them."""
        stem, end = _split_extension(url)
        predictions: dict[str, Prediction] = {}
        for head in _heads(stem, end):
            for rule in self._rules_by_head.get(head, ()):
                is_own_move = url in self._supporting_urls[rule]
                support = len(self._supporting_urls[rule]) - is_own_move
                if support < _SUPPORT_MIN:
                    continue
                confidence = support / (self._moves_by_head[head] - is_own_move + 1.0)
                target = rule.apply(stem)
                if target not in predictions or predictions[target].confidence < confidence:
                    predictions[target] = Prediction(target, confidence, rule, support)
        return sorted(predictions.values(), key=lambda p: (-p.confidence, p.target))


NO_RULES = Rules(())


def _split_extension(url: str) -> tuple[str, str]:
    """Split a URL, without scheme and fragment, into stem and extension: `//host/a/x` and `.html`."""
    bare = url.split("#", 1)[0]
    bare = bare[max(bare.find("//"), 0) :]
    match = _EXTENSION.search(bare)
    return (bare[: match.start()], bare[match.start() :]) if match else (bare, "")


def _heads(stem: str, end: str) -> Iterator[tuple[str, str]]:
    """Return (head, end) of the rules that may match a URL. Heads are prefixes of the stem, the shortest first."""
    lengths = (n for n in range(_HEAD_CHARACTERS_MIN, len(stem) + 1) if not stem[n - 1].isalnum())
    return ((stem[:length], end) for length in islice(lengths, _HEADS_MAX))


def _cut_common_end(old_stem: str, new_stem: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of heads that remain if common last words are cut off both stems, the shortest first."""
    pairs = zip(reversed(old_stem), reversed(new_stem), strict=False)
    common_length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    for cut in range(common_length, 0, -1):
        old_head, new_head = old_stem[:-cut], new_stem[:-cut]
        is_long_enough = min(len(old_head), len(new_head)) >= _HEAD_CHARACTERS_MIN
        if is_long_enough and old_stem[-cut].isalnum() and not old_head[-1].isalnum() and not new_head[-1].isalnum():
            yield old_head, new_head

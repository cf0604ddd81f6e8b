"""What URLs alone say: how alike two paths are, and rewrite rules learned from moves of the same site.

A rule is a pair of prefixes: https://a/doc/x.html moved to https://b/guide/x/ gives `//a/doc/*.html -> //b/guide/*/`.
It is learned at every word boundary inside the part that both URLs end with, so that `/doc/x/*` and `/doc/*` compete
by how often each held and how often it failed. Pages of one folder that went to one page give `/doc/* -> /doc.html`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from streams.urls import key_words

TRIGRAMS_SHARE = 0.4
_SUPPORT_MIN = 2
_CUTS_MAX = 24
_HEADS_MAX = 64  # of a URL, which may be all separators

_EXTENSION = re.compile(
    r"(?:/(?:index|default)(?:\.[a-z]{2,5}\d?)?|\.(?:[xs]?html?|php\d?|aspx?|jspx?|cgi|rst|md|txt)|/)$"
)


class PathFeatures(msgspec.Struct, frozen=True, gc=False):
    """Distinct words of a URL's path, and distinct three-letter pieces of it without separators.

    Tuples, as the garbage collector walks sets again and again: of 16,000 paths kept, that took 40 ms each time.
    """

    words: tuple[str, ...]
    pieces: tuple[str, ...]


def path_features(key: bytes) -> PathFeatures:
    """Features of the URLs that have a key."""
    words = key_words(key)
    joined = "/" + "".join(words) + "/"
    pieces = set(map("".join, zip(joined, joined[1:], joined[2:], strict=False)))
    return PathFeatures(tuple(dict.fromkeys(words)), tuple(pieces))


def likeness_to(asked: PathFeatures) -> Callable[[PathFeatures], float]:
    """How alike other paths are, 0 to 1: Jaccard of words, and Dice of pieces, which sees `parentservices` too."""
    own_words, own_pieces = set(asked.words), set(asked.pieces)

    def likeness(other: PathFeatures) -> float:
        common = len(own_words.intersection(other.words))
        words = len(own_words) + len(other.words) - common
        jaccard = common / words if words else 1.0
        pieces = len(own_pieces) + len(other.pieces)
        dice = 2 * len(own_pieces.intersection(other.pieces)) / pieces if pieces else 1.0
        return (1 - TRIGRAMS_SHARE) * jaccard + TRIGRAMS_SHARE * dice

    return likeness


class Rule(NamedTuple):
    """`before*before_end -> after*after_end`, without scheme; `folded` ones lead to one page."""

    before: str
    before_end: str
    after: str
    after_end: str
    folded: bool = False

    def __str__(self) -> str:
        return f"{self.before}*{self.before_end} -> {self.after}{'' if self.folded else '*'}{self.after_end}"

    def target(self, stem: str) -> str:
        """Where the rule leads a URL with this stem."""
        return self.after + ("" if self.folded else stem[len(self.before) :]) + self.after_end


class Predicted(NamedTuple):
    """Where a rule would put a URL; `confidence` is moves it explains by moves it should (with one against it)."""

    target: str  # without scheme
    confidence: float
    rule: Rule
    support: int


class Rules:
    """Rules learned from moves (old URL, new URL) and what they predict."""

    def __init__(self, moves: Iterable[tuple[str, str]]) -> None:
        pairs = [(old, _stem(old), _stem(new)) for old, new in moves]
        self._support: dict[Rule, set[str]] = defaultdict(set)
        for old, (before, before_end), (after, after_end) in pairs:
            folder = before[: before.rfind("/") + 1]
            self._support[Rule(folder, before_end, after + after_end, "", folded=True)].add(old)
            if (before, before_end) != (after, after_end):
                for head, new_head in _cuts(before, after):
                    self._support[Rule(head, before_end, new_head, after_end)].add(old)
        self._support = {rule: olds for rule, olds in self._support.items() if len(olds) >= _SUPPORT_MIN}
        self._by_head: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        for rule in self._support:
            self._by_head[rule.before, rule.before_end].append(rule)
        self._applies: Counter[tuple[str, str]] = Counter()
        for _, (before, before_end), _ in pairs:
            self._applies.update(head for head in _heads(before, before_end) if head in self._by_head)

    def __len__(self) -> int:
        return len(self._support)

    def predict(self, old: str) -> list[Predicted]:
        """Targets of one URL, the surest first; moves of this URL itself do not count."""
        stem, end = _stem(old)
        found: dict[str, Predicted] = {}
        for head in _heads(stem, end):
            for rule in self._by_head.get(head, ()):
                own = old in self._support[rule]
                support = len(self._support[rule]) - own
                if support < _SUPPORT_MIN:
                    continue
                confidence = support / (self._applies[head] - own + 1.0)
                target = rule.target(stem)
                if target not in found or found[target].confidence < confidence:
                    found[target] = Predicted(target, confidence, rule, support)
        return sorted(found.values(), key=lambda p: (-p.confidence, p.target))


def without_scheme(url: str) -> str:
    """A URL as rules write it: `//host/path?query`."""
    return url[url.find("//") :] if "//" in url else url


def _stem(url: str) -> tuple[str, str]:
    """A URL without scheme and fragment, cut before its page's extension: (`//host/a/x`, `.html`)."""
    bare = without_scheme(url.split("#", 1)[0])
    match = _EXTENSION.search(bare)
    return (bare[: match.start()], bare[match.start() :]) if match else (bare, "")


def _heads(stem: str, end: str) -> Iterator[tuple[str, str]]:
    """The prefixes of a stem that a rule could begin with, the shortest first."""
    yield from islice(((stem[:at], end) for at in range(3, len(stem) + 1) if not stem[at - 1].isalnum()), _HEADS_MAX)


def _cuts(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Pairs of prefixes that leave the same rest, cut at word boundaries of their common end, longest first."""
    most = min(len(before), len(after))
    common = 0
    while common < most and before[-1 - common] == after[-1 - common]:
        common += 1
    found = 0
    for rest in range(common, 0, -1):
        old, new = before[: len(before) - rest], after[: len(after) - rest]
        at_word = old and new and not old[-1].isalnum() and not new[-1].isalnum() and before[len(old)].isalnum()
        if at_word and len(old) > 2 and len(new) > 2:
            yield old, new
            found += 1
            if found == _CUTS_MAX:
                return

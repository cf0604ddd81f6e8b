"""Stage II, the decision: assign one of the levels of Bharat and Broder (1999) to a pair of hosts.

    1          all paths that both hosts answered have the same bytes
    2          ... the same text
    3          ... similar text
    4          similar text, but one host lacks some of the other's paths
    5          the same paths, links and text lengths, but other words, as in a translation
    mismatch   none of these
    untested   fewer than five paths were tested

Real copies have a few pages that change with each request, so one path in a hundred may deviate at levels 1 and 2. At
levels 3 and 4, at least half of the pages are similar. At level 3, a fifth may have nothing in common, because edits
of a short page change most of its shingles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

LEVELS = ("1", "2", "3", "4", "5", "mismatch", "untested")
TESTS_MIN = 5
DEVIATING_SHARE_MAX = 0.01  # of common pages at levels 1 and 2; of failed tests at levels 1 to 3
DIFFERENT_SHARE_MAX = 0.2  # of the common pages of a complete copy
SIMILAR_SHARE_MIN = 0.5  # of the common pages of any copy
SIMILAR_PAGES_MIN = 3  # enough for level 4 if all common pages are similar
RELATED_TESTS_MIN = 10
LENGTH_CORRELATION_MIN = 0.8
# Standard errors by which the correlation must exceed 0, after Fisher's transformation.
LENGTH_STANDARD_ERRORS_MIN = 3.3
LENGTH_STANDARD_ERRORS_ALONE_MIN = 5.0  # the same, if the pages have no links to compare
LINK_RESEMBLANCE_MIN = 0.5
LINKS_MIN = 10  # fewer links are not evidence
RELATED_COVER_MIN = 0.25  # common paths of a translation, as a share of the smaller host's pages
CORRELATION_MAX = 0.999999  # Fisher's transformation of 1 is infinite
_OUTCOMES = ("same_bytes", "same_text", "similar_text", "related", "different")
EVIDENCE_KINDS = (*_OUTCOMES, "failed", "soft_404", "absent_folder", "text_lengths", "links")
RULE_OF_THREE = 3.0  # if n tests agree, at most 3 / n of all paths deviate, with a confidence of 95%


class Counts(NamedTuple):
    """The outcomes of the tests of a pair: the fields of `path_tests.COUNTS`, then the figures of `structure.py`."""

    tests: int
    paths: int
    same_bytes: int
    same_text: int
    similar_text: int
    related: int
    different: int
    failed_a: int
    failed_b: int
    soft_404s: int
    example_a: str | None
    example_b: str | None
    length_correlation: float | None  # over the pages whose texts differ
    answered_a: int
    answered_b: int
    pages_a: int
    pages_b: int
    absent_folder: str | None = None  # the URL key of a folder that the other host lacks
    absent_pages: int = 0
    link_resemblance: float | None = None
    links: int = 0

    @property
    def same(self) -> int:
        return self.same_bytes + self.same_text

    @property
    def common(self) -> int:
        return self.same + self.similar_text + self.related + self.different

    @property
    def failed(self) -> int:
        return self.failed_a + self.failed_b

    @property
    def unknown(self) -> int:
        return self.pages_a - self.answered_a + self.pages_b - self.answered_b

    @property
    def is_complete(self) -> bool:
        """Return whether each host seems to have all paths of the other host."""
        return self.absent_folder is None and self.failed <= DEVIATING_SHARE_MAX * self.tests

    @property
    def differing(self) -> int:
        return self.related + self.different


def level_of(counts: Counts) -> str:
    """Return the level of a pair of hosts: one of `LEVELS`."""
    if counts.tests < TESTS_MIN:
        return "untested"
    similar = counts.same + counts.similar_text
    is_similar = similar >= max(SIMILAR_SHARE_MIN * counts.common, TESTS_MIN)
    if is_similar and counts.is_complete and counts.different <= DIFFERENT_SHARE_MAX * counts.common:
        tolerance = DEVIATING_SHARE_MAX * counts.common
        if counts.common - counts.same_bytes <= tolerance:
            return "1"
        return "2" if counts.common - counts.same <= tolerance else "3"
    if is_similar or (similar == counts.common and similar >= SIMILAR_PAGES_MIN):
        return "4"
    return "5" if is_related(counts) else "mismatch"


def is_related(counts: Counts) -> bool:
    """Return whether the pages at equal paths correspond, although their words differ."""
    correlation = counts.length_correlation
    if counts.differing < RELATED_TESTS_MIN or correlation is None:
        return False
    if counts.common < RELATED_COVER_MIN * min(counts.pages_a, counts.pages_b):
        return False
    # Among thousands of pairs of hosts with the same software, a few lengths correlate by chance.
    standard_errors = math.atanh(min(max(correlation, -CORRELATION_MAX), CORRELATION_MAX)) * math.sqrt(
        counts.differing - 3
    )
    if correlation < LENGTH_CORRELATION_MIN:
        return False
    if counts.links < LINKS_MIN:
        return standard_errors >= LENGTH_STANDARD_ERRORS_ALONE_MIN
    return (counts.link_resemblance or 0.0) >= LINK_RESEMBLANCE_MIN and standard_errors >= LENGTH_STANDARD_ERRORS_MIN


def error_bound(counts: Counts, level: str) -> float | None:
    """Return an upper bound for the share of paths that contradict the level, or None if a tested path does."""
    agreeing = {"1": counts.same_bytes, "2": counts.same, "3": counts.same + counts.similar_text}.get(level)
    return round(min(RULE_OF_THREE / counts.tests, 1.0), 4) if agreeing == counts.tests else None


def evidence_of(counts: Counts, level: str) -> Iterator[tuple[str, float, str | None]]:
    """Yield the kind and the value of each piece of evidence, and the URL key of an example or None."""
    for kind in _OUTCOMES:
        if value := getattr(counts, kind):
            yield kind, value, None
    for value, example in ((counts.failed_a, counts.example_a), (counts.failed_b, counts.example_b)):
        if value:
            yield "failed", value, example
    if counts.soft_404s:
        yield "soft_404", counts.soft_404s, None
    if counts.absent_folder is not None:
        yield "absent_folder", counts.absent_pages, counts.absent_folder
    if level in {"5", "mismatch"}:
        if counts.length_correlation is not None and counts.differing >= RELATED_TESTS_MIN:
            yield "text_lengths", round(counts.length_correlation, 3), None
        if counts.link_resemblance is not None and counts.links >= LINKS_MIN:
            yield "links", round(counts.link_resemblance, 3), None

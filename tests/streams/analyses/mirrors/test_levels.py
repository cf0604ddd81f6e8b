"""Tests of streams/analyses/mirrors/levels.py: the limits between the levels."""

from __future__ import annotations

from typing import Any

import pytest

from streams.analyses.mirrors import LEVELS
from streams.analyses.mirrors.levels import Counts, error_bound, level_of

NOTHING = Counts(
    tests=0,
    paths=0,
    same_bytes=0,
    same_text=0,
    similar_text=0,
    related=0,
    different=0,
    failed_a=0,
    failed_b=0,
    soft_404s=0,
    example_a=None,
    example_b=None,
    length_correlation=None,
    answered_a=0,
    answered_b=0,
    pages_a=100,
    pages_b=100,
)
OUTCOMES = ("same_bytes", "same_text", "similar_text", "related", "different", "failed_a", "failed_b")


def counts(**fields: Any) -> Counts:
    tests = sum(fields.get(name, 0) for name in OUTCOMES)
    return NOTHING._replace(tests=tests, **fields)


TRANSLATED = {"different": 60, "related": 40, "length_correlation": 0.85, "links": 200, "link_resemblance": 0.8}


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"same_bytes": 4}, "untested"),
        ({"same_bytes": 5}, "1"),
        ({"same_bytes": 100, "different": 1}, "1"),
        ({"same_bytes": 99, "same_text": 2}, "2"),
        ({"same_bytes": 50, "same_text": 49, "similar_text": 2}, "3"),
        ({"similar_text": 50, "related": 50}, "3"),
        ({"similar_text": 49, "related": 51}, "mismatch"),
        ({"similar_text": 80, "different": 20}, "3"),
        ({"similar_text": 79, "different": 21}, "4"),
        ({"same_bytes": 3, "failed_a": 9}, "4"),
        ({"same_bytes": 2, "failed_a": 9}, "mismatch"),
        ({"same_bytes": 100, "failed_b": 1}, "1"),
        ({"same_bytes": 100, "failed_a": 1, "failed_b": 1}, "4"),
        ({"same_bytes": 100, "absent_folder": "org,example)/a/", "absent_pages": 9}, "4"),
        ({"same_bytes": 50, "different": 50}, "4"),
        ({"same_bytes": 49, "different": 51}, "mismatch"),
        ({"same_bytes": 4, "different": 2}, "mismatch"),
        ({"failed_a": 20}, "mismatch"),
        (TRANSLATED, "5"),
        ({**TRANSLATED, "length_correlation": 0.79}, "mismatch"),
        ({**TRANSLATED, "length_correlation": None}, "mismatch"),
        ({**TRANSLATED, "link_resemblance": 0.4}, "mismatch"),
        ({**TRANSLATED, "links": 0, "link_resemblance": None}, "5"),
        ({**TRANSLATED, "links": 0, "link_resemblance": None, "different": 12, "related": 0}, "mismatch"),
        ({**TRANSLATED, "different": 12, "related": 0, "pages_a": 20}, "5"),
        ({**TRANSLATED, "different": 10, "related": 0, "pages_a": 20, "length_correlation": 0.8}, "mismatch"),
        ({**TRANSLATED, "pages_a": 1000, "pages_b": 1000}, "mismatch"),
        ({**TRANSLATED, "different": 5, "related": 4, "pages_a": 9}, "mismatch"),
    ],
)
def test_limits(fields, level):
    assert level_of(counts(**fields)) == level
    assert level in LEVELS


def test_the_error_bound_needs_tests_that_all_agree():
    assert error_bound(counts(same_bytes=300), "1") == 0.01
    assert error_bound(counts(same_bytes=299, different=1), "1") is None
    assert error_bound(counts(same_bytes=150, same_text=150), "2") == 0.01
    assert error_bound(counts(similar_text=6), "3") == 0.5
    assert error_bound(counts(same_bytes=300), "4") is None

"""The context of a link consists of the words around it, within its block."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.query.link_context import CONTEXT_WORDS, find_context, one_line_per_block

TEXT = one_line_per_block("A  heading\n\nRead the Data management page, or   the datasheet.\n• Last item: data\nend")


@pytest.mark.parametrize(
    ("anchor", "context"),
    [
        ("Data management", ("Read the", "page, or the datasheet.")),
        ("data", ("• Last item:", "")),  # not the beginning of `datasheet`
        ("A heading", ("", "")),
        ("the datasheet.", ("Read the Data management page, or", "")),
        ("Read", ("", "the Data management page, or the datasheet.")),
        ("end", ("", "")),
        ("missing", ("", "")),
        ("data end", ("", "")),  # in two blocks
        ("", ("", "")),
    ],
)
def test_words_around_a_link_in_its_block(anchor: str, context: tuple[str, str]) -> None:
    assert find_context(TEXT, anchor) == context


def test_long_blocks_are_cut() -> None:
    words = [f"w{i}" for i in range(100)]
    before, after = find_context(" ".join(words), "w50")
    assert before.split() == words[50 - CONTEXT_WORDS : 50]
    assert after.split() == words[51 : 51 + CONTEXT_WORDS]


@given(st.text("ab \n.", max_size=40), st.text("ab .", max_size=5))
def test_a_context_surrounds_the_anchor_in_one_line(text: str, anchor: str) -> None:
    blocks, anchor = one_line_per_block(text), " ".join(anchor.split())
    before, after = find_context(blocks, anchor)
    if before or after:
        assert any(
            line.replace(" ", "").find((before + anchor + after).replace(" ", "")) >= 0 for line in blocks.split("\n")
        )


def test_texts_full_of_partial_matches_take_linear_time() -> None:
    started = time.process_time()
    assert find_context("aa" * 500_000, "a" * 200) == ("", "")
    assert time.process_time() - started < 3

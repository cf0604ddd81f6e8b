"""Hashing in numpy returns exactly the same tokens, words and shingles as the kernel."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.scheme import Scheme
from streams.sketch import numba_use, numpy_tokens
from streams.sketch.sketcher import Sketcher

ALPHABETS = (
    "abcXYZ019 _-.\n",
    "äßéẞ straße ĳ",
    "日本語かなカナ ab1",
    "ไทยกำ่ a",
    "הֶבְ عَرَ \u0301\u0308e",
    "\u00ad\u200bﬁ½Ⅳ㎏ x",
    "\U0001f600\U00010400\U0001d400 \ud800z\x00",
)


def _assert_same(text: str, scheme: Scheme, tokens_max: int = 1_000) -> None:
    in_numpy, compiled = Sketcher(scheme, tokens_max), Sketcher(scheme, tokens_max)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_use, "is_worthwhile", lambda _seconds: True)
        expected = (*compiled.shingles_and_words(text), *compiled.words_and_counts(text), compiled.token_hashes(text))
        patch.setattr(numba_use, "is_worthwhile", lambda _seconds: False)
        actual = (*in_numpy.shingles_and_words(text), *in_numpy.words_and_counts(text), in_numpy.token_hashes(text))
    assert compiled.token_hashes(text) == expected[-1]
    for a, b in zip(actual, expected, strict=True):
        assert np.asarray(a).tolist() == np.asarray(b).tolist(), text
        assert np.asarray(a).dtype == np.asarray(b).dtype


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    _assert_same(text, Scheme())


@pytest.mark.parametrize("seed", range(40))
def test_random_texts_of_each_script(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = ALPHABETS[seed % len(ALPHABETS)] + rng.choice(["", "abc def ", *ALPHABETS])
    text = "".join(rng.choices(alphabet, k=rng.randrange(2_000)))
    _assert_same(text, Scheme(shingle_words=rng.randrange(1, 7)), tokens_max=rng.choice([1, 3, 50, 5_000]))


@pytest.mark.parametrize("size", [7, 8, 9, 15, 16, 17, 24, 2_048, 2_049, 5_000])
def test_words_of_all_lengths(size: int) -> None:
    _assert_same(f"{'x' * size} {'é' * size} end", Scheme())


def test_a_very_long_word_is_left_to_the_kernel() -> None:
    parameters = Sketcher(Scheme())._parameters
    assert numpy_tokens.token_hashes("x" * (numpy_tokens.WORD_BYTES_MAX + 1), parameters) is None
    assert numpy_tokens.token_hashes("x" * numpy_tokens.WORD_BYTES_MAX, parameters) is not None


def test_all_characters() -> None:
    text = " ".join(map(chr, range(0x20, 0x20000)))
    for start, end in pairwise(range(0, len(text) + 9_999, 10_000)):
        _assert_same(text[start:end], Scheme(), tokens_max=10_000)


def test_few_characters_beyond_ascii_are_replaced() -> None:
    """With few distinct characters, each of them is replaced; `test_all_characters` has too many for that."""
    characters = list(map(chr, range(0x80, 0x3000)))
    for start in range(0, len(characters), 48):
        _assert_same("Ab".join(characters[start : start + 48]), Scheme())
    parameters = Sketcher(Scheme())._parameters
    assert numpy_tokens._replace_characters("Fuß — ÉTÉ", parameters.characters) == "Fuss   éTé"
    assert numpy_tokens._replace_characters("日本", parameters.characters) is None

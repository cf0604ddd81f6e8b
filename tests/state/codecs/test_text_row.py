"""A text decodes with the dictionary that it was encoded with, and sorts by the time of its capture."""

from __future__ import annotations

import pytest
from hypothesis import given

from state.codecs import text_row
from state.codecs.text_row import TextCodec
from tests.state.codecs.strategies import assert_refuses_damage, strings

MANUAL = [f"page {n} of a manual that repeats its header {n * 7919 % 1000} " * 60 for n in range(400)]


@pytest.fixture(scope="module")
def trained() -> TextCodec:
    dictionary = text_row.train(MANUAL)
    assert dictionary
    return TextCodec({1: dictionary})


@given(strings, strings)
def test_a_value_decodes_to_title_and_text(title: str, text: str) -> None:
    codec = TextCodec({})
    value = codec.encode(title, text)
    expected = [part.encode("utf-8", "replace").decode() for part in (title.replace("\n", " "), text)]
    assert list(codec.decode(value)) == expected
    assert codec.title(value) == expected[0]


@given(strings.filter(bool))
def test_a_damaged_value_is_refused(text: str) -> None:
    codec = TextCodec({})
    assert_refuses_damage(codec.decode, codec.encode("title", text))


def test_a_text_decodes_with_the_dictionary_that_it_was_encoded_with(trained: TextCodec) -> None:
    untrained = TextCodec({})
    for codec in (untrained, trained):
        assert trained.decode(codec.encode("title", MANUAL[0])) == ("title", MANUAL[0])
    with pytest.raises(ValueError, match="dictionary 1, which is not in this state"):
        untrained.decode(trained.encode("title", MANUAL[0]))


def test_the_order_of_two_texts_does_not_depend_on_the_dictionary(trained: TextCodec) -> None:
    codecs = (TextCodec({}), trained)
    orders = {one.encode("title", "A text.") < other.encode("title", "a text") for one in codecs for other in codecs}
    assert len(orders) == 1


def test_the_text_of_the_earlier_capture_sorts_first() -> None:
    codec = TextCodec({})
    assert codec.encode("z", "z", time=1) < codec.encode("a", "a", time=2) < codec.encode("a", "a")


def test_a_value_has_the_source_and_the_time_of_its_capture() -> None:
    codec = TextCodec({})
    value = codec.encode("title", "text", time=1, source=b"raw-byte")
    assert text_row.source(value) == b"raw-byte"
    assert text_row.source(codec.encode("title", "text")) is None
    assert text_row.time_of(text_row.with_time(value, 7)) == 7
    assert text_row.with_time(value, 7) == codec.encode("title", "text", time=7, source=b"raw-byte")


def test_a_dictionary_is_not_trained_on_too_little() -> None:
    assert text_row.train([]) is None
    assert text_row.train(["short"] * 1_000) is None

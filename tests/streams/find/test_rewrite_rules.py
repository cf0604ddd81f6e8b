"""Rewrite rules learned from moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.find.rewrite_rules import Rules

MOVES = [(f"https://a.example/doc/{n}.html", f"https://b.example/guide/{n}/") for n in ("one", "two", "three")]


def test_a_rule_is_learned_and_predicts_other_urls() -> None:
    best = Rules(MOVES).predict("https://a.example/doc/deep/four.html")[0]
    assert best.target == "//b.example/guide/deep/four/"
    assert best.support == 3
    assert str(best.rule) == "//a.example/doc/*.html -> //b.example/guide/*/"


def test_the_move_of_a_url_does_not_support_its_own_prediction() -> None:
    predicted = {p.target: p for p in Rules(MOVES).predict(MOVES[0][0])}
    assert predicted["//b.example/guide/one/"].support == 2
    assert not Rules(MOVES[:2]).predict(MOVES[0][0])


def test_moves_to_other_targets_lower_the_confidence_of_a_rule() -> None:
    others = [(f"https://a.example/doc/x{n}.html", f"https://c.example/else/y{n}.html") for n in range(6)]
    url = "https://a.example/doc/four.html"
    assert Rules(MOVES).predict(url)[0].confidence > Rules(MOVES + others).predict(url)[0].confidence


def test_a_folder_folded_into_one_page() -> None:
    moves = [(f"https://a.example/forms/{n}.html", "https://a.example/forms.html") for n in ("x", "y", "z")]
    best = Rules(moves).predict("https://a.example/forms/other.html")[0]
    assert best.target == "//a.example/forms.html"
    assert best.rule.is_folding
    assert str(best.rule) == "//a.example/forms/*.html -> //a.example/forms.html"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "https://",
        "//",
        "https://a.example",
        "mailto:x",
        "https://a/" + "b/" * 500,
        "https://a/" + "-" * 1900,
    ],
)
def test_any_string_has_a_list_of_predictions(url: str) -> None:
    assert isinstance(Rules([*MOVES, (url, url), (url, MOVES[0][1])]).predict(url), list)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=8), st.text(max_size=30))
def test_rules_can_be_learned_from_any_strings(moves: list[tuple[str, str]], url: str) -> None:
    for prediction in Rules(moves).predict(url):
        assert 0.0 < prediction.confidence < 1.0
        assert prediction.support >= 2


def test_rules_have_no_scheme() -> None:
    predictions = [Rules(MOVES).predict(f"{scheme}//a.example/doc/four.html") for scheme in ("https:", "http:", "")]
    assert predictions[0][0].target == "//b.example/guide/four/"
    assert predictions[0] == predictions[1] == predictions[2]

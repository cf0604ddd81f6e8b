from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import InputError
from streams.find.answer import Answer, Candidate
from streams.find.redirects import FORMS, RedirectMap, flatten, redirect_map, render

A, B, C, D = (f"https://a.example/{n}" for n in "abcd")
HOSTILE = "https://a.example/x\n\"; return 302 https://evil.example;#'$host {} \\ ${ENV} 301\r\n/y"


def test_chains_are_followed_to_their_end() -> None:
    found = flatten({A: (B, 0.9), B: (C, 0.5)})
    assert found.moves == {A: (C, pytest.approx(0.45)), B: (C, 0.5)}
    assert not found.dropped


def test_loops_are_dropped_with_all_that_leads_into_them() -> None:
    found = flatten({A: (B, 1.0), B: (C, 1.0), C: (B, 1.0), D: ("https://a.example/e", 1.0)})
    assert set(found.dropped) == {A, B, C}
    assert list(found.moves) == [D]


def test_from_http_to_https_of_one_page_is_a_loop() -> None:
    assert set(flatten({"http://a.example/a": (A, 1.0)}).dropped) == {"http://a.example/a"}


def test_only_sure_moves_are_redirected() -> None:
    def answer(url: str, status: str, confidence: float) -> Answer:
        return Answer(url, status, None, None, [Candidate(D, confidence, None, None, None, None, [])])

    answers = [answer(A, "moved", 0.8), answer(B, "moved", 0.4), answer(C, "gone", 0.3)]
    assert list(redirect_map(answers, 0.5).moves) == [A]
    assert list(redirect_map(answers, 0.9).moves) == []


def test_forms() -> None:
    moves = flatten({"https://a.example/old?x=1&y": ("https://b.example/n$w", 0.9), A: (B, 0.75)})
    nginx, _ = render(moves, "nginx")
    assert '    "a.example/old?x=1&y" "https://b.example/n%24w";\n' in nginx
    assert nginx.endswith("}\n")
    apache, _ = render(moves, "apache")
    assert "a.example/a https://a.example/b\n" in apache
    netlify, dropped = render(moves, "netlify")
    assert netlify == "/a https://a.example/b 301\n"
    assert list(dropped) == ["https://a.example/old?x=1&y"]
    table, _ = render(moves, "csv")
    assert list(csv.reader(io.StringIO(table)))[1] == [A, B, "0.750"]


def test_netlify_patterns_are_left_out() -> None:
    text, dropped = render(flatten({"https://a.example/*/x": (B, 1.0), "https://a.example/:id": (B, 1.0)}), "netlify")
    assert text == ""
    assert len(dropped) == 2


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InputError, match="caddy"):
        render(RedirectMap({}, {}), "caddy")


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_hostile_url_stays_one_harmless_line(form: str) -> None:
    plain, _ = render(flatten({A: (B, 1.0)}), form)
    text, _ = render(flatten({A: (B, 1.0), HOSTILE: (C, 1.0), D: (HOSTILE, 1.0)}), form)
    assert len(text.splitlines()) <= len(plain.splitlines()) + 2
    assert "\r" not in text
    if form == "nginx":
        for line in text.splitlines()[3:-1]:
            assert line.count('"') - line.count('\\"') == 4
            assert "$" not in line.split('" "')[1]


@given(st.dictionaries(st.text(max_size=40), st.tuples(st.text(max_size=40), st.floats(0, 1)), max_size=6))
def test_nothing_ends_a_line_early(tails: dict[str, tuple[str, float]]) -> None:
    moves = {f"https://a.example/{o}": (f"https://b.example/{n}", c) for o, (n, c) in tails.items()}
    found = flatten(moves)
    for form in FORMS:
        text, dropped = render(found, form)
        heads = render(RedirectMap({}, {}), form)[0].count("\n")
        assert text.count("\n") == heads + len(found.moves) - (len(dropped) - len(found.dropped))
        assert all(ord(character) >= 32 or character == "\n" for character in text)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=10))
def test_no_redirect_leads_to_a_redirect(steps: dict[int, int]) -> None:
    urls = [f"https://a.example/{n}" for n in range(10)]
    found = flatten({urls[a]: (urls[b], 0.9) for a, b in steps.items()})
    assert set(found.moves) | set(found.dropped) == {urls[a] for a in steps}
    for new, _ in found.moves.values():
        assert new not in found.moves
        assert new not in found.dropped

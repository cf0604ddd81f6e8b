"""Tables of answers: which candidates and which evidence they show."""

from __future__ import annotations

from streams.find.answer import Answer, Candidate, Evidence
from streams.terminal.find_tables import answer_table, answers_table
from tests.streams.terminal.rendering import render

LONG_URL = f"https://www.shop.example/{'a-long-path/' * 8}page.html"
SOFT_404 = "serves the same page as many unrelated URLs"


def make_candidate(url: str, confidence: float, *kinds: str) -> Candidate:
    evidence = [Evidence("same_host"), Evidence("rule", 0.5, "//a/* -> //b/*")]
    return Candidate(
        url=url,
        confidence=confidence,
        resemblance=0.5,
        containment=0.9,
        first_seen="2024-01-01T00:00:00Z",
        last_seen=None,
        evidence=[Evidence(kind) for kind in kinds] or evidence,
    )


def make_answer(*candidates: Candidate, url: str = "https://a.example/", status: str = "moved") -> Answer:
    return Answer(
        url=url, status=status, last_seen="2023-01-01T00:00:00Z", document=None, candidates=list(candidates)
    )


def test_urls_are_never_cut_or_broken() -> None:
    answer = make_answer(make_candidate(LONG_URL, 0.9), url=LONG_URL)
    for width in (80, 100):
        assert [line for line in render(answer_table(answer), width) if LONG_URL in line][1].endswith(LONG_URL)
        assert any(line.endswith(f"  {LONG_URL}") for line in render(answers_table([answer]), width))


def test_evidence_is_wrapped_at_spaces() -> None:
    answer = make_answer(make_candidate("https://a.example/x", 0.9, "redirect", "appeared", "copied_tree"))
    assert render(answer_table(answer), 34)[-3:] == [
        "    redirects there · new when the",
        "    old page vanished · part of a",
        "    copied tree",
    ]


def test_a_soft_404_is_shown_with_the_url_and_not_as_a_candidate() -> None:
    soft_404 = make_candidate("https://a.example/", 0.0, "suspected_soft_404")
    others = [make_candidate(f"https://a.example/{n}", 0.01) for n in range(3)]
    for candidates in ([*others, soft_404], [soft_404, *others]):
        answer = make_answer(*candidates, status="gone")
        lines = render(answer_table(answer), 100)
        assert SOFT_404 in lines[1]
        assert lines[-1] == "2 less likely candidates"
        assert SOFT_404 in "\n".join(render(answers_table([answer]), 100))
    assert len(render(answer_table(make_answer(soft_404, status="gone")), 100)) == 2


def test_a_redirect_to_an_error_page_is_shown_however_unlikely_it_is() -> None:
    unlikely = [make_candidate(f"https://a.example/{n}", 0.01) for n in range(3)]
    redirect = make_candidate("https://a.example/error", 0.0, "redirect", "suspected_soft_404")
    lines = render(answer_table(make_answer(*unlikely, redirect, status="gone")), 100)
    assert "    redirects there · serves an error page" in lines
    assert not lines[1]


def test_unlikely_candidates_are_only_counted() -> None:
    answer = make_answer(make_candidate("x", 0.9), make_candidate("y", 0.01))
    text = "\n".join(render(answer_table(answer), 100))
    assert "1 less likely candidate" in text
    assert "rewrite rule 0.50 //a/* -> //b/*" in text
    assert "resemblance 0.50 · rewrite rule 0.50" in "\n".join(render(answers_table([answer]), 100))

"""Tables for people: aligned, whole URLs, colour only on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from streams import show
from streams.find.answer import Answer, Candidate, Evidence
from streams.ingest import Cursor, Progress, Summary
from streams.query import Cluster


def lines(shown: RenderableType, width: int = 60) -> list[str]:
    to = Console(file=io.StringIO(), width=width, color_system=None)
    to.print(shown)
    assert isinstance(to.file, io.StringIO)
    return [line.rstrip() for line in to.file.getvalue().splitlines()]


def test_blocks_align_figures_and_keep_urls_under_them() -> None:
    rows = [(("a", "1.00", "One"), Text("https://a.example/")), (("bb", "12.50", "Two"), Text("https://b.example/"))]
    assert lines(show.blocks((("id", 4), (">n", 5), ("title", 0)), rows)) == [
        "id        n  title",
        "a      1.00  One",
        "    https://a.example/",
        "bb    12.50  Two",
        "    https://b.example/",
    ]


def test_a_long_title_is_cut_rather_than_folded() -> None:
    shown = lines(show.blocks((("id", 4), ("title", 0)), [(("a", "word " * 30), Text("u"))]))
    assert len(shown) == 3
    assert shown[1].endswith("…")


def test_only_the_first_urls_are_shown() -> None:
    assert lines(show.some([f"u{n}" for n in range(5)])) == ["u0", "u1", "u2", "and 2 more"]
    assert lines(show.some(["u0"], 1_001)) == ["u0", "and 1,000 more"]
    assert lines(show.some(["u0", "u1"])) == ["u0", "u1"]


@pytest.mark.parametrize(("value", "style"), [(0.8, "green"), (0.5, "yellow"), (0.49, "dim"), (None, "")])
def test_colour_says_how_sure(value: float | None, style: str) -> None:
    assert show.figure(value).style == style


def test_only_the_whole_reads_as_one() -> None:
    assert [show.figure(value).plain for value in (1.0, 0.9998, 0.994, 0.0)] == ["1.00", "0.99", "0.99", "0.00"]


def test_an_error_too_small_to_show_is_not_shown() -> None:
    assert show.measured(0.75, 0.004).plain == "0.75"
    assert show.measured(0.75, 0.02).plain == "0.75 ±0.02"


def test_nothing_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show.ingest_bar("first", quiet=False) as report:
        report(Progress(50, 100, Cursor(pages=5)))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("status", "said"), [("ingested", "committed"), ("resumed", "after a stop"), ("nothing to do", "nothing to do")]
)
def test_an_ingest_says_how_it_went(status: str, said: str) -> None:
    summary = Summary("first", status, True, 5, 2, 1, 1, 1, {"bad_url": 1}, "/data/dead-letters.jsonl")
    assert said in show.ingested(summary, 2.0).plain
    assert ("bad_url 1" in show.ingested(summary, 2.0).plain) is (status != "nothing to do")
    assert "5 pages" in show.ingested(summary, 2.0).plain
    one = Summary("first", status, True, 1, 1, 0, 0, 0, {}, "")
    assert "1 page" in show.ingested(one, 2.0).plain
    assert "1 pages" not in show.ingested(one, 2.0).plain


def test_a_cluster_takes_the_first_title_there_is() -> None:
    found = Cluster("c" * 32, ["d1", "d2"], ["https://a.example/"], 2, 1)
    assert "Two" in lines(show.clusters([found], {"d1": "", "d2": "Two"}.__getitem__))[1]


def test_unlikely_candidates_are_counted_not_listed() -> None:
    def candidate(url: str, confidence: float) -> Candidate:
        evidence = [Evidence("same_host"), Evidence("rule", 0.5, "//a/* -> //b/*")]
        return Candidate(url, confidence, 0.5, 0.9, "2024-01-01T00:00:00Z", None, evidence)

    found = Answer(
        "https://a.example/", "moved", "2023-01-01T00:00:00Z", None, [candidate("x", 0.9), candidate("y", 0.01)]
    )
    shown = "\n".join(lines(show.answer(found), 100))
    assert "1 less likely" in shown
    assert "rule 0.50 //a/* -> //b/*" in shown
    assert "alike 0.50 · rule 0.50" in "\n".join(lines(show.answers([found]), 100))

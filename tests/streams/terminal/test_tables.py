"""Tables for people: aligned, whole URLs, colour only on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from state.model import Sweep, SweepState
from state.stats import FamilyStats, Stats
from streams.engine.ingest import Cursor, Progress, Summary
from streams.find.answer import Answer, Candidate, Evidence
from streams.query import Cluster, Match, UrlCapture
from streams.terminal import tables


def lines(shown: RenderableType, width: int = 60) -> list[str]:
    to = Console(file=io.StringIO(), width=width, color_system=None)
    to.print(shown, crop=False)
    assert isinstance(to.file, io.StringIO)
    printed = to.file.getvalue().splitlines()
    assert printed == [line.rstrip() for line in printed], "nothing is padded"
    return printed


def test_blocks_align_figures_and_keep_urls_under_them() -> None:
    cells = [("a", "1.00", "One"), ("bb", "12.50", "Two")]
    rows = [(each, [Text(f"https://{each[0]}.example/")]) for each in cells]
    assert lines(tables.Blocks(("id", ">n", "title"), rows)) == [
        "id      n  title",
        "a    1.00  One",
        "    https://a.example/",
        "bb  12.50  Two",
        "    https://bb.example/",
    ]
    assert lines(tables.Blocks(("id", ">n", "title"), rows), 14)[:2] == ["id     n title", "a   1.00 One"]


def test_a_long_title_is_cut_rather_than_folded() -> None:
    shown = lines(tables.Blocks(("id", "title"), [(("a", Text("word " * 30, overflow="ellipsis")), [Text("u")])]))
    assert len(shown) == 3
    assert shown[1].endswith("…")
    assert len(shown[1]) == 60


LONG = f"https://www.shop.example/{'a-long-path/' * 8}page.html"


def test_no_id_url_or_time_is_cut_or_broken() -> None:
    match = Match(
        document="ab" * 16,
        resemblance=0.9,
        resemblance_error=0.02,
        containment=0.9,
        containment_error=0.02,
        contained=0.9,
        contained_error=0.02,
        exact=False,
        cluster="cd" * 16,
        title="",
        urls=[LONG],
        url_count=9,
        first_seen=1,
        last_seen=1,
    )
    version = UrlCapture(
        url=LONG,
        time=0,
        sweep="a-sweep-with-a-long-name",
        status=301,
        document="ab" * 16,
        redirect=LONG,
        resemblance=0.9,
    )
    sweep = Sweep(
        number=1,
        name="a-sweep-with-a-name-that-is-longer-than-most-are",
        state=SweepState.COMMITTED,
        opened=0,
        committed=0,
        captures=5,
    )
    found = Answer(url=LONG, status="moved", last_seen=None, document=None, candidates=[candidate(LONG, 0.9)])
    for width in (80, 100):
        assert lines(tables.matches([match]), width)[1].split()[-1] == "cd" * 5
        assert max(map(len, lines(tables.matches([match]), width)[:2])) <= width
        assert lines(tables.matches([match]), width)[2:] == [f"    {LONG}", "    and 8 more"]
        told = lines(tables.history([version]), width)
        assert told[1].split() == ["a-sweep-with-a-long-name", "1970-01-01T00:00:00Z", "301", "ab" * 5, "0.90"]
        assert told[2] == f"    → {LONG}"
        assert sweep.name in lines(tables.sweeps([sweep]), width)[1]
        assert [line for line in lines(tables.answer(found), width) if LONG in line][1].endswith(LONG)
        assert any(line.endswith(f"  {LONG}") for line in lines(tables.answers([found]), width))


def test_evidence_is_wrapped_at_words() -> None:
    best = candidate("https://a.example/x", 0.9, "redirect", "appeared", "stood_beside")
    told = lines(
        tables.answer(
            Answer(url="https://a.example/", status="moved", last_seen=None, document=None, candidates=[best])
        ),
        30,
    )
    assert told[-3:] == ["    redirects there · appeared", "    just then · stood beside", "    it"]


def test_words_for_one_are_not_those_for_many() -> None:
    one = Cluster(
        cluster="ab" * 16, documents=["ab" * 16], urls=["https://a.example/"], document_count=1, url_count=1
    )
    assert lines(tables.cluster(one, []), 160)[0].endswith("1 document at 1 URL")
    two = Cluster(
        cluster="ab" * 16, documents=["ab" * 16] * 2, urls=["https://a.example/"], document_count=2_000, url_count=2
    )
    assert lines(tables.cluster(two, []), 160)[0].endswith("2,000 documents at 2 URLs")


def test_little_on_disk_is_not_nothing() -> None:
    families = [FamilyStats("edges", 5, 4_321), FamilyStats("texts", 5, 7_654_321)]
    shown = "\n".join(lines(tables.stats(Stats("var", "s", 5, {}, families, {}, {}))))
    assert "4.3 kB" in shown
    assert "7.7 MB" in shown


def test_only_the_first_urls_are_shown() -> None:
    assert lines(tables.some([f"u{n}" for n in range(5)])) == ["u0", "u1", "u2", "and 2 more"]
    assert lines(tables.some(["u0"], 1_001)) == ["u0", "and 1,000 more"]
    assert lines(tables.some(["u0", "u1"])) == ["u0", "u1"]


@pytest.mark.parametrize(("value", "style"), [(0.8, "green"), (0.5, "yellow"), (0.49, "dim"), (None, "")])
def test_colour_says_how_sure(value: float | None, style: str) -> None:
    assert tables.figure(value).style == style


def test_only_the_whole_reads_as_one() -> None:
    assert [tables.figure(value).plain for value in (1.0, 0.9998, 0.994, 0.0)] == ["1.00", "0.99", "0.99", "0.00"]


def test_an_error_too_small_to_show_is_not_shown() -> None:
    assert tables.measured(0.75, 0.004).plain == "0.75"
    assert tables.measured(0.75, 0.02).plain == "0.75 ±0.02"


def test_nothing_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with tables.ingest_bar("first", quiet=False) as report:
        report(Progress(50, 100, Cursor(pages=5), 5))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("status", "said"),
    [("ingested", "committed"), ("resumed", ", 4 of them now,"), ("nothing to do", "nothing to do")],
)
def test_an_ingest_says_how_it_went(status: str, said: str) -> None:
    summary = Summary("first", status, True, 5, 4, 1, 1, 1, 1, 1, {"bad_url": 1}, "/data/dead-letters.jsonl")
    assert said in tables.ingested(summary, 2.0).plain
    assert ("bad_url 1" in tables.ingested(summary, 2.0).plain) is (status != "nothing to do")
    assert "5 pages" in tables.ingested(summary, 2.0).plain
    assert ("redirects and errors 1" in tables.ingested(summary, 2.0).plain) is (status != "nothing to do")
    assert ("(2.0/s)" in tables.ingested(summary, 2.0).plain) is (status != "nothing to do")
    one = Summary("first", status, True, 1, 1, 1, 0, 0, 0, 0, {}, "")
    assert "redirects" not in tables.ingested(one, 2.0).plain
    assert "1 page" in tables.ingested(one, 2.0).plain
    assert "1 pages" not in tables.ingested(one, 2.0).plain


def test_a_cluster_takes_the_first_title_there_is() -> None:
    found = Cluster(
        cluster="c" * 32, documents=["d1", "d2"], urls=["https://a.example/"], document_count=2, url_count=1
    )
    assert "Two" in lines(tables.clusters([found], {"d1": "", "d2": "Two"}.__getitem__))[1]


def candidate(url: str, confidence: float, *kinds: str) -> Candidate:
    evidence = [Evidence("same_host"), Evidence("rule", 0.5, "//a/* -> //b/*")]
    evidence = [Evidence(kind) for kind in kinds] or evidence
    return Candidate(
        url=url,
        confidence=confidence,
        resemblance=0.5,
        containment=0.9,
        first_seen="2024-01-01T00:00:00Z",
        last_seen=None,
        evidence=evidence,
    )


def test_what_the_crawler_met_is_told_however_unlikely_it_makes_a_target() -> None:
    soft = candidate("https://a.example/", 0.0, "suspected_soft_404")
    others = [candidate(f"https://a.example/{n}", 0.01) for n in range(3)]
    for candidates in ([*others, soft], [soft, *others]):
        found = Answer(url="https://a.example/", status="gone", last_seen=None, document=None, candidates=candidates)
        told = lines(tables.answer(found), 100)
        assert told[1].startswith("  serves an error page")
        assert told[-1] == "2 less likely", "it is counted among no candidates"
        assert "serves an error page" in "\n".join(lines(tables.answers([found]), 100))
    alone = Answer(url="https://a.example/", status="gone", last_seen=None, document=None, candidates=[soft])
    assert len(lines(tables.answer(alone), 100)) == 2
    sent = candidate("https://a.example/error", 0.0, "redirect", "suspected_soft_404")
    told = lines(
        tables.answer(
            Answer(url="https://a.example/", status="gone", last_seen=None, document=None, candidates=[*others, sent])
        ),
        100,
    )
    assert "    redirects there · serves an error page" in told
    assert not told[1]


def test_unlikely_candidates_are_counted_not_listed() -> None:
    found = Answer(
        url="https://a.example/",
        status="moved",
        last_seen="2023-01-01T00:00:00Z",
        document=None,
        candidates=[candidate("x", 0.9), candidate("y", 0.01)],
    )
    shown = "\n".join(lines(tables.answer(found), 100))
    assert "1 less likely" in shown
    assert "rule 0.50 //a/* -> //b/*" in shown
    assert "alike 0.50 · rule 0.50" in "\n".join(lines(tables.answers([found]), 100))

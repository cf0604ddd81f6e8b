"""Tables of clusters, captures, sweeps and the state: complete ids and URLs, and summaries of an ingest."""

from __future__ import annotations

import msgspec
import pytest

from state.model import Sweep, SweepState
from state.stats import FamilyStats, Stats
from streams.engine.ingest import Summary
from streams.find.answer import Answer, Candidate, Evidence
from streams.query import Cluster, Match, UrlCapture
from streams.terminal import tables
from tests.streams.terminal.rendering import render

LONG_URL = f"https://www.shop.example/{'a-long-path/' * 8}page.html"
SOFT_404 = "suspected error page: many unrelated URLs"


@pytest.mark.parametrize("width", [80, 100])
def test_similar_documents_fit_the_width_with_whole_urls(width: int) -> None:
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
        urls=[LONG_URL],
        url_count=9,
        first_seen=1,
        last_seen=1,
    )
    heading, cells, *below = render(tables.similar_table([match]), width)
    assert cells.split()[-1] == "cd" * 5
    assert max(len(heading), len(cells)) <= width
    assert below == [f"    {LONG_URL}", "    and 8 more"]


@pytest.mark.parametrize("width", [80, 100])
def test_captures_have_whole_names_times_and_urls(width: int) -> None:
    capture = UrlCapture(
        url=LONG_URL,
        time=0,
        sweep="a-sweep-with-a-long-name",
        status=301,
        document="ab" * 16,
        redirect=LONG_URL,
        resemblance=0.9,
    )
    _, cells, target = render(tables.captures_table([capture]), width)
    assert cells.split() == ["a-sweep-with-a-long-name", "1970-01-01T00:00:00Z", "301", "ab" * 5, "0.90"]
    assert target == f"    → {LONG_URL}"


@pytest.mark.parametrize("width", [80, 100])
def test_sweeps_have_whole_names(width: int) -> None:
    sweep = Sweep(
        number=1,
        name="a-sweep-with-a-name-that-is-longer-than-others-are",
        state=SweepState.COMMITTED,
        opened_time=0,
        committed_time=0,
        captures=5,
    )
    assert sweep.name in render(tables.sweeps_table([sweep]), width)[1]


def test_expired_messages_are_shown_if_there_are_any() -> None:
    sweep = Sweep(number=1, name="a", state=SweepState.OPEN, opened_time=0)
    assert "expired" not in render(tables.sweeps_table([sweep]), 100)[0]
    expired = Sweep(number=2, name="b", state=SweepState.OPEN, opened_time=0, expired_messages=1_234)
    heading, first, second = render(tables.sweeps_table([sweep, expired]), 100)
    assert [line.split()[-1] for line in (heading, first, second)] == ["expired", "0", "1,234"]


@pytest.mark.parametrize(
    ("documents", "urls", "counts"),
    [(1, 1, "1 document at 1 URL"), (2_000, 2, "2,000 documents at 2 URLs")],
)
def test_the_heading_of_a_cluster_counts_documents_and_urls(documents: int, urls: int, counts: str) -> None:
    cluster = Cluster(
        cluster="ab" * 16,
        documents=["ab" * 16],
        urls=["https://a.example/"],
        document_count=documents,
        url_count=urls,
    )
    assert render(tables.cluster_table(cluster, []), 160)[0].endswith(counts)


def test_a_cluster_shows_the_first_title_of_its_documents() -> None:
    cluster = Cluster(
        cluster="c" * 32, documents=["d1", "d2"], urls=["https://a.example/"], document_count=2, url_count=1
    )
    assert "Two" in render(tables.clusters_table([cluster], {"d1": "", "d2": "Two"}.__getitem__))[1]


def test_small_sizes_are_shown_in_kb() -> None:
    families = [FamilyStats("edges", 5, 4_321), FamilyStats("texts", 5, 7_654_321)]
    text = "\n".join(
        render(
            tables.stats_tables(
                Stats(path="var", scheme="s", documents=5, sweeps={}, families=families, memory_bytes={}, counters={})
            )
        )
    )
    assert "4.3 kB" in text
    assert "7.7 MB" in text


def summarise(**changes: object) -> str:
    fields = {
        "sweep": "first",
        "status": "ingested",
        "committed": True,
        "pages": 5,
        "pages_read": 4,
        "new": 1,
        "copies": 1,
        "unchanged": 1,
        "near_duplicates": 1,
        "redirects_and_errors": 1,
        "not_pages": 1,
        "rejected": {"bad_url": 1},
        "files_without_pages": 0,
        "dead_letters": "/data/dead-letters.jsonl",
    }
    return tables.ingest_summary(Summary(**{**fields, **changes}), 2.0).plain  # type: ignore[arg-type] # by name


def test_a_summary_has_all_counts() -> None:
    heading, counts, rejected = summarise().splitlines()
    assert heading == "sweep first  5 pages in 2.0 s (2.0/s), committed"
    expected = (
        "  new 1   copies 1   unchanged 1   near-duplicate 1   redirects and errors 1   not a page 1   rejected 1"
    )
    assert counts == expected
    assert rejected == "  rejected: bad_url 1; details in /data/dead-letters.jsonl"


def test_the_summary_of_a_resumed_ingest_counts_its_own_pages() -> None:
    assert summarise(status="resumed").startswith("sweep first  5 pages, 4 of them in this run, in 2.0 s")


def test_the_summary_of_a_repeated_ingest_is_one_line() -> None:
    expected = "sweep first already contains this input (5 pages, committed): nothing to do"
    assert summarise(status="nothing to do") == expected


def test_a_summary_leaves_out_absent_redirects_and_rejections() -> None:
    summary = summarise(pages=1, redirects_and_errors=0, not_pages=0, rejected={})
    assert "1 page in" in summary
    assert "redirects" not in summary
    assert "not a page" not in summary
    assert "rejected:" not in summary


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


def test_substituted_links_are_described_in_words() -> None:
    candidate = make_candidate("https://a.example/new", 0.9)
    for pages, words in ((12, "12 pages that linked to it as 'Data␛' now link"), (1, "1 page that linked")):
        evidence = [Evidence("link_substitution", 0.9, pages=pages, anchor="Data\x1b")]
        answer = make_answer(msgspec.structs.replace(candidate, evidence=evidence))
        assert any(words in line for line in render(tables.answer_table(answer)))


def test_urls_are_never_cut_or_broken() -> None:
    answer = make_answer(make_candidate(LONG_URL, 0.9), url=LONG_URL)
    for width in (80, 100):
        assert [line for line in render(tables.answer_table(answer), width) if LONG_URL in line][1].endswith(LONG_URL)
        assert any(line.endswith(f"  {LONG_URL}") for line in render(tables.answers_table([answer]), width))


def test_evidence_is_wrapped_at_spaces() -> None:
    answer = make_answer(make_candidate("https://a.example/x", 0.9, "redirect", "appeared", "copied_tree"))
    assert render(tables.answer_table(answer), 34)[-3:] == [
        "    redirects there · new when the",
        "    old page vanished · part of a",
        "    copied tree",
    ]


def test_a_soft_404_is_shown_with_the_url_and_not_as_a_candidate() -> None:
    soft_404 = make_candidate("https://a.example/", 0.0, "suspected_soft_404")
    others = [make_candidate(f"https://a.example/{n}", 0.01) for n in range(3)]
    for candidates in ([*others, soft_404], [soft_404, *others]):
        answer = make_answer(*candidates, status="gone")
        lines = render(tables.answer_table(answer), 100)
        assert SOFT_404 in lines[1]
        assert lines[-1] == "2 weaker candidates not shown"
        assert SOFT_404 in "\n".join(render(tables.answers_table([answer]), 100))
    assert len(render(tables.answer_table(make_answer(soft_404, status="gone")), 100)) == 2


def test_a_redirect_to_an_error_page_is_shown_however_unlikely_it_is() -> None:
    unlikely = [make_candidate(f"https://a.example/{n}", 0.01) for n in range(3)]
    redirect = make_candidate("https://a.example/error", 0.0, "redirect", "suspected_soft_404")
    lines = render(tables.answer_table(make_answer(*unlikely, redirect, status="gone")), 100)
    assert "    redirects there · suspected error page" in lines
    assert not lines[1]


def test_unlikely_candidates_are_only_counted() -> None:
    answer = make_answer(make_candidate("x", 0.9), make_candidate("y", 0.01))
    text = "\n".join(render(tables.answer_table(answer), 100))
    assert "1 weaker candidate" in text
    assert "rewrite rule 0.50 //a/* -> //b/*" in text
    assert "resemblance 0.50 · rewrite rule 0.50" in "\n".join(render(tables.answers_table([answer]), 100))

"""`lostfound collections`, `avoid` and `group`, on three copies of a manual."""

from __future__ import annotations

from pathlib import Path
from urllib.robotparser import RobotFileParser

import pytest

from tests.analysis_data import prose
from tests.samples import Line, html, jsonl
from tests.streams.cli.conftest import Lostfound

A, B, C = "https://a.example/docs/", "https://b.example/", "https://c.example/m/"
PAGES = 60
PNG = b"\x89PNG\r\n"


def manual(root: str, numbers: range, *, day: int = 0, edition: str = "") -> list[Line]:
    """Return the pages of a copy, with links to their neighbours and to the index."""

    def links(*names: object) -> str:
        return "".join(f'<a href="{name}">page</a> ' for name in names)

    lines = [html(root, prose("index") + links(*(f"{n}.html" for n in range(PAGES))), day)]
    for n in numbers:
        body = prose(n, edition) + links(".", f"{(n + 1) % PAGES}.html", f"{(n + 7) % PAGES}.html")
        lines.append(html(f"{root}{n}.html", body, day))
    return lines


@pytest.fixture
def state(lostfound: Lostfound, tmp_path: Path) -> None:
    pages = [
        *manual(A, range(PAGES)),
        *manual(B, range(1, PAGES)),
        *manual(C, range(PAGES)),
        html(f"{B}blog.html", prose("blog")),
    ]
    assert lostfound("ingest", jsonl(tmp_path / "1.jsonl", pages), "--sweep", "one").code == 0


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("rule", ["regions", "paper", "extended"])
def test_collections(lostfound: Lostfound, rule: str) -> None:
    result = lostfound("collections", "--rule", rule, "--json")
    assert sorted((row["class"], row["host"], row["root"]) for row in result.rows) == [
        (1, "a.example", A),
        (1, "b.example", B),
        (1, "c.example", C),
    ]
    assert [row["representative"] for row in result.rows] == [True, False, False]
    assert (result.rows[0]["root"] == A) == (rule != "paper")  # the paper's rule ignores pages that B lacks
    assert result.rows[0]["pages"] >= PAGES - 5
    assert len(result.rows[0]["urls"]) == 20
    assert "714 of 717 links within hosts (100%)" in result.err
    again = lostfound("collections", "--rule", rule, "--json")
    assert (again.rows, again.err.splitlines()[-1]) == (result.rows, result.err.splitlines()[-1])
    assert B in lostfound("collections", "--rule", rule).out


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("rule", ["regions", "paper"])
def test_a_plot_of_classes_is_written(lostfound: Lostfound, tmp_path: Path, rule: str) -> None:
    plot = tmp_path / "plot.png"
    assert lostfound("collections", "--rule", rule, "--plot", plot, "--json").rows
    assert plot.read_bytes().startswith(PNG)


@pytest.mark.usefixtures("state")
def test_the_avoid_list(lostfound: Lostfound) -> None:
    result = lostfound("avoid", "--json")
    rows = [row for row in result.rows if row["prefix"].startswith(B)]
    (skip, *samples) = rows
    assert C in {row["prefix"] for row in result.rows}
    assert skip == {
        "prefix": B,
        "keep": False,
        "pages": PAGES + 1 - len(samples),
        "lost": 1,
        "unconfirmed": 0,
        "instead": A,
        "reason": "copy",
    }
    assert {(row["keep"], row["reason"]) for row in samples} == {(True, "sample")}
    assert f"{2 * (PAGES + 1 - len(samples))} pages can be skipped; 1 of them have no copy, and 0 " in result.err
    table = lostfound("avoid").out
    assert "skip" in table
    assert f"instead: {A}" in table
    assert lostfound("avoid", "--host", "a.example").code == 1


@pytest.mark.usefixtures("state")
def test_the_avoid_list_for_crawlers(lostfound: Lostfound) -> None:
    sample = lostfound("avoid", "--host", "b.example", "--json").rows[1]["prefix"]
    parser = RobotFileParser()
    parser.parse(lostfound("avoid", "--format", "robots", "--host", "b.example").out.splitlines())
    assert parser.can_fetch("bot", sample)
    assert not parser.can_fetch("bot", B)
    assert "+http://(example,b,)/\n" in lostfound("avoid", "--format", "surt").out
    for name in ("heritrix", "scrapy", "browsertrix"):
        assert "b" in lostfound("avoid", "--format", name).out
    result = lostfound("avoid", "--format", "robots", "--json")
    assert (result.code, "cannot be combined" in result.err) == (2, True)


@pytest.mark.usefixtures("state")
def test_entries_that_no_longer_hold_are_named_after_the_next_sweep(lostfound: Lostfound, tmp_path: Path) -> None:
    result = lostfound("avoid", "--check")
    assert (result.code, "no sweep before 'one'" in result.err) == (2, True)
    sample = [
        int(row["prefix"].split("/")[-1].split(".")[0])
        for row in lostfound("avoid", "--host", "b.example", "--json").rows[1:]
    ]
    day = 1_800_000_000_000
    same = [*manual(A, range(PAGES), day=day), *(manual(B, range(n, n + 1), day=day)[1] for n in sample)]
    assert lostfound("ingest", jsonl(tmp_path / "2.jsonl", same), "--sweep", "two").code == 0
    result = lostfound("avoid", "--check")
    assert (result.code, result.out, "0 of 2 entries" in result.err) == (0, "", True)
    changed = [*manual(A, range(PAGES), day=day), *(manual(B, range(n, n + 1), edition="2")[1] for n in sample)]
    assert lostfound("ingest", jsonl(tmp_path / "3.jsonl", changed), "--sweep", "three").code == 0
    result = lostfound("avoid", "--check", "one", "--json")
    expected = {"prefix": B, "instead": A, "pages": len(sample), "copies": 0, "holds": False}
    assert (result.code, result.rows) == (1, [expected])
    assert B in lostfound("avoid", "--check", "one").out


@pytest.mark.usefixtures("state")
def test_a_list_of_urls_is_folded(lostfound: Lostfound, tmp_path: Path) -> None:
    urls = [f"{B}3.html", f"{A}3.html", f"{A}4.html", "https://x.example/", f"{B}blog.html"]
    (tmp_path / "urls.txt").write_text("# results\n" + "\n".join(urls))
    assert lostfound("group", tmp_path / "urls.txt", "--json").rows == [
        {"url": urls[0], "collection": [urls[2], urls[4]], "replica": [urls[1]]},
        {"url": urls[3], "collection": [], "replica": []},
    ]
    assert lostfound("group", tmp_path / "urls.txt").out.splitlines()[:2] == [
        urls[0],
        f"  same collection: {urls[2]}",
    ]
    (tmp_path / "none.txt").write_text("")
    assert lostfound("group", tmp_path / "none.txt").code == 1
    assert lostfound("group", tmp_path / "absent.txt").code == 2


def test_a_state_without_collections(lostfound: Lostfound, sample_state: Path) -> None:
    for command in ("collections", "avoid"):
        result = lostfound(command, "--json")
        assert (result.code, result.out) == (1, "")
